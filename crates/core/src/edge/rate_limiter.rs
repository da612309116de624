//! Decisions about a client's messages by its rate limits.

use std::time::{Duration, Instant};

use super::rate_buckets::RateBuckets;
use signaling_wire::rate::Rate;

/// Maximum rates of a token subject, or of a client without one. `None`: no limit. A native
/// client's message above a rate is refused. A dialect's client is read later, and so is a native
/// one with too many refusals. A control frame above its rate closes the socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Messages.
    pub messages: Option<Rate>,
    /// Bytes of messages, plus 64 bytes for each message.
    pub bytes: Option<Rate>,
    /// Control frames of WebSocket (RFC 6455, section 5.5), and `ping` messages.
    pub controls: Option<Rate>,
}

/// Time of ignored refusals after which a client is abusive. A pause over [`RELENTS`] restarts it.
const ABUSE: Duration = Duration::from_secs(5);
/// Pause after which a client is not abusive.
const RELENTS: Duration = Duration::from_secs(1);

/// The limit that a message exceeds: messages/s or bytes/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Messages,
    Bytes,
}

/// Decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateDecision {
    /// The message is within the limits.
    Pass,
    /// The message exceeds this limit and is refused. It is within the limits after this time.
    Wait(Exceeded, Duration),
    /// The socket must be closed: the client has ignored refusals for 5 s.
    Abuse,
}

/// The refusals that one socket's client received.
#[derive(Debug, Default)]
pub(super) struct Refusals(Option<Box<Refused>>);

/// A client with refused messages.
#[derive(Debug)]
struct Refused {
    /// End of the wait that the client received.
    until: Instant,
    /// Times of the first and last message in a series of early ones. `None`: no such series.
    ignored: Option<(Instant, Instant)>,
}

impl Refusals {
    /// Decides about a message of this size. A refused message costs nothing of the rates.
    pub(super) fn message(
        &mut self,
        buckets: &RateBuckets,
        limits: &RateLimits,
        now: Instant,
        bytes: usize,
    ) -> RateDecision {
        if let Some((limit, wait)) = buckets.wait(limits, now, bytes) {
            return self.refuse(now, limit, wait);
        }
        buckets.pay(limits, now, bytes);
        RateDecision::Pass
    }

    fn refuse(&mut self, now: Instant, limit: Exceeded, wait: Duration) -> RateDecision {
        let refused = self.0.get_or_insert_with(|| Box::new(Refused { until: now, ignored: None }));
        let ignores = now < refused.until;
        refused.until = now + wait;
        if !ignores {
            return RateDecision::Wait(limit, wait);
        }
        let (first, last) = refused.ignored.get_or_insert((now, now));
        if now.saturating_duration_since(*last) > RELENTS {
            *first = now;
        }
        *last = now;
        if now.saturating_duration_since(*first) >= ABUSE {
            RateDecision::Abuse
        } else {
            RateDecision::Wait(limit, wait)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Rate = Rate { per_second: 10, burst: 10 };
    const MESSAGES: RateLimits = RateLimits { messages: Some(TEN), bytes: None, controls: None };

    /// Returns a function that decides about messages of one socket with buckets of its own. Its
    /// arguments are the limits, the time and the size of the message.
    fn pace(now: Instant) -> impl FnMut(&RateLimits, Instant, usize) -> RateDecision {
        let buckets = RateBuckets::full(now, "c".into());
        let mut refusals = Refusals::default();
        move |limits, now, bytes| refusals.message(&buckets, limits, now, bytes)
    }

    /// Returns the number of accepted messages at this even rate and duration.
    fn passed(limits: &RateLimits, per_second: u64, seconds: u64, bytes: usize) -> u64 {
        let start = Instant::now();
        let mut message = pace(start);
        let came = (0..per_second * seconds).map(|n| start + Duration::from_nanos(n * 1_000_000_000 / per_second));
        came.filter(|&now| message(limits, now, bytes) == RateDecision::Pass).count() as u64
    }

    #[test]
    fn passed_messages_match_the_rate_at_any_offered_rate() {
        for offered in [11, 20, 100, 1_000, 10_000] {
            let passed = passed(&MESSAGES, offered, 60, 100);
            assert!((588..=612).contains(&passed), "of {offered} a second {passed} in a minute");
        }
        assert_eq!(passed(&MESSAGES, 10, 60, 100), 600, "a client within its rate is never refused");
    }

    #[test]
    fn bytes_have_a_rate_of_their_own_and_a_frame_is_not_free() {
        let bytes = Some(Rate { per_second: 10_000, burst: 10_000 });
        let limits = RateLimits { bytes, ..RateLimits::default() };
        let passed_large = passed(&limits, 100, 60, 1_000 - 64);
        assert!((588..=612).contains(&passed_large), "{passed_large}");
        let passed_empty = passed(&limits, 1_000, 60, 0);
        assert!((9_200..=9_560).contains(&passed_empty), "{passed_empty}");
    }

    #[test]
    fn message_above_the_burst_passes_alone_and_is_charged() {
        let start = Instant::now();
        let bytes = Some(Rate { per_second: 1_000, burst: 1_000 });
        let limits = RateLimits { bytes, ..RateLimits::default() };
        let mut message = pace(start);
        assert_eq!(message(&limits, start, 5_000 - 64), RateDecision::Pass);
        let wait = Duration::from_millis(4_000 + 74);
        assert_eq!(message(&limits, start, 10), RateDecision::Wait(Exceeded::Bytes, wait));
        assert_eq!(message(&limits, start + wait, 10), RateDecision::Pass);
    }

    #[test]
    fn client_that_waits_passes_and_refusals_are_not_charged() {
        let start = Instant::now();
        let mut message = pace(start);
        (0..10).for_each(|_| assert_eq!(message(&MESSAGES, start, 1), RateDecision::Pass));
        for _ in 0..100 {
            let wait = Duration::from_millis(100);
            assert_eq!(message(&MESSAGES, start, 1), RateDecision::Wait(Exceeded::Messages, wait));
        }
        assert_eq!(message(&MESSAGES, start + Duration::from_millis(100), 1), RateDecision::Pass);
    }

    #[test]
    fn five_seconds_over_the_rate_are_abuse_unless_it_pauses() {
        let first_abuse = |interval: u64, pause: u64| {
            let start = Instant::now();
            let mut message = pace(start);
            (0..10_000_u64)
                .map(|n| n * interval + n / 400 * pause)
                .find(|&ms| message(&MESSAGES, start + Duration::from_millis(ms), 1) == RateDecision::Abuse)
        };
        assert_eq!(first_abuse(5, 1_500), None, "a pause of more than a second after each two");
        assert_eq!(first_abuse(1, 0), Some(5_011));
    }
}
