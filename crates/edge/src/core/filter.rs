//! The recipient's half of custody: what was written to a client, so that repeats are told apart from news.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use signaling_protocol::trunk::Unwritten;
use signaling_protocol::{Left, Origin, SessionId, limits};

/// What an edge remembers of what it wrote to one client.
#[derive(Debug, Clone, Copy)]
pub struct FilterLimits {
    /// Of how many of a sender's latest numbers it is known which were written: four times the messages that its edge has
    /// under way. Of an older one it is said that it was not.
    pub window: u64,
    /// How many senders; past that the idlest goes.
    pub origins: usize,
    /// How much longer than the hold time a copy of a message may live.
    pub afterlife: Duration,
    /// How long after a message a reliable sender may send it again: its socket broke with the `ack` unread, that was
    /// noticed by the heartbeat, and it came back just in time to resume.
    pub latest_repeat: Duration,
}

impl Default for FilterLimits {
    fn default() -> Self {
        let noticed = limits::HEARTBEAT + limits::HEARTBEAT_ANSWER;
        Self {
            window: 1024,
            origins: 1024,
            afterlife: Duration::from_secs(5),
            latest_repeat: noticed + limits::MAX_RESUME,
        }
    }
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// New, and nothing before it is missing: write it.
    Write,
    /// It was written before.
    Repeat,
    /// Not to be written.
    Not(Unwritten),
}

#[derive(Debug)]
struct Seen {
    /// The first number that was judged final.
    base: u64,
    last: u64,
    /// Bit `n % len` says whether number `n` was written, for the latest `len` numbers. Grows from one word.
    written: Vec<u64>,
    touched: Instant,
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { base: 0, last: 0, written: vec![0], touched: now }
    }

    fn window(&self) -> u64 {
        self.written.len() as u64 * 64
    }

    fn place(&self, number: u64) -> (usize, u64) {
        // Words double from one: their bits are a power of two.
        let bit = number & (self.window() - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn was_written(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        number >= self.base
            && self.last - number < self.window()
            && self.written.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn mark(&mut self, number: u64, written: bool) {
        let (word, bit) = self.place(number);
        if let Some(bits) = self.written.get_mut(word) {
            *bits = if written { *bits | bit } else { *bits & !bit };
        }
    }

    /// Makes `number` the latest, all between it and the old one unwritten.
    fn advance(&mut self, number: u64, written: bool, most: u64) {
        if self.last == 0 {
            self.base = number;
        }
        while self.window() < most && number.saturating_sub(self.base) >= self.window() {
            self.grow();
        }
        let unwritten = (number - self.last).min(self.window());
        (number - unwritten + 1..number).for_each(|between| self.mark(between, false));
        self.mark(number, written);
        self.last = number;
    }

    fn grow(&mut self) {
        let Self { base, last, touched, .. } = *self;
        let mut larger = Self { base, last, touched, written: vec![0; self.written.len() * 2] };
        let oldest = self.last.saturating_sub(self.window() - 1);
        (oldest..=self.last).filter(|&number| self.was_written(number)).for_each(|number| larger.mark(number, true));
        *self = larger;
    }
}

/// What one socket was written, by the session that sent it.
#[derive(Debug, Default)]
pub struct Filter {
    seen_by_origin: FxHashMap<SessionId, Seen>,
}

impl Filter {
    /// Judges a message, and remembers the judgement.
    pub fn judge(&mut self, limits: &FilterLimits, now: Instant, origin: Origin, prev: u64, left: Left) -> Verdict {
        if self.seen_by_origin.len() >= limits.origins && !self.seen_by_origin.contains_key(&origin.session) {
            self.drop_idlest();
        }
        let seen = self.seen_by_origin.entry(origin.session).or_insert_with(|| Seen::new(now));
        seen.touched = now;
        let number = origin.number;
        if number <= seen.last {
            return if seen.was_written(number) { Verdict::Repeat } else { Verdict::Not(Unwritten::Passed) };
        }
        if left == Left::NONE {
            seen.advance(number, false, limits.window);
            return Verdict::Not(Unwritten::Passed);
        }
        if prev > seen.last {
            return Verdict::Not(Unwritten::Gap);
        }
        seen.advance(number, true, limits.window);
        Verdict::Write
    }

    /// Forgets senders that have been silent so long that no copy of what they sent can still come.
    pub fn forget_idle(&mut self, limits: &FilterLimits, now: Instant, hold: Duration) {
        let age = limits.latest_repeat + hold + limits.afterlife;
        self.seen_by_origin.retain(|_, seen| now.saturating_duration_since(seen.touched) < age);
        if self.seen_by_origin.is_empty() {
            self.seen_by_origin = FxHashMap::default();
        }
    }

    /// How many senders it remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen_by_origin.len()
    }

    /// Whether it remembers nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen_by_origin.is_empty()
    }

    fn drop_idlest(&mut self) {
        let idlest = self.seen_by_origin.iter().min_by_key(|(session, seen)| (seen.touched, **session));
        if let Some(session) = idlest.map(|(session, _)| *session) {
            self.seen_by_origin.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(filter: &mut Filter, now: Instant, origin: Origin, prev: u64, left: Left) -> Verdict {
        filter.judge(&FilterLimits::default(), now, origin, prev, left)
    }

    fn alive() -> Left {
        Left::from_duration(Duration::from_secs(1))
    }

    fn origin(number: u64) -> Origin {
        Origin { session: SessionId([1; 16]), number }
    }

    #[test]
    fn a_repeat_is_told_from_news() {
        let mut filter = Filter::default();
        let now = Instant::now();
        assert_eq!(judge(&mut filter, now, origin(1), 0, alive()), Verdict::Write);
        assert_eq!(judge(&mut filter, now, origin(1), 0, alive()), Verdict::Repeat);
        assert_eq!(judge(&mut filter, now, origin(5), 1, alive()), Verdict::Write);
        assert_eq!(judge(&mut filter, now, origin(1), 0, alive()), Verdict::Repeat);
    }

    #[test]
    fn a_message_that_was_overtaken_is_never_called_written() {
        let mut filter = Filter::default();
        let now = Instant::now();
        assert_eq!(judge(&mut filter, now, origin(9), 0, alive()), Verdict::Write);
        assert_eq!(judge(&mut filter, now, origin(8), 0, alive()), Verdict::Not(Unwritten::Passed));
    }

    #[test]
    fn a_missing_predecessor_is_a_gap_and_changes_nothing() {
        let mut filter = Filter::default();
        let now = Instant::now();
        assert_eq!(judge(&mut filter, now, origin(9), 8, alive()), Verdict::Not(Unwritten::Gap));
        assert_eq!(judge(&mut filter, now, origin(8), 0, alive()), Verdict::Write);
        assert_eq!(judge(&mut filter, now, origin(9), 8, alive()), Verdict::Write);
    }

    #[test]
    fn a_question_after_its_time_is_passed_and_bars_a_late_copy() {
        let mut filter = Filter::default();
        let now = Instant::now();
        assert_eq!(judge(&mut filter, now, origin(3), 0, Left::NONE), Verdict::Not(Unwritten::Passed));
        assert_eq!(judge(&mut filter, now, origin(3), 0, alive()), Verdict::Not(Unwritten::Passed));
        assert_eq!(judge(&mut filter, now, origin(4), 3, alive()), Verdict::Write);
        assert_eq!(judge(&mut filter, now, origin(4), 3, Left::NONE), Verdict::Repeat);
    }

    #[test]
    fn the_latest_1024_numbers_keep_their_mark_while_it_grows() {
        let limits = FilterLimits::default();
        let mut filter = Filter::default();
        let now = Instant::now();
        let written = |number: u64| !number.is_multiple_of(3);
        for number in (1..=3000).filter(|&number| written(number)) {
            assert_eq!(judge(&mut filter, now, origin(number), 0, alive()), Verdict::Write);
            let oldest = number.saturating_sub(limits.window - 1).max(1);
            for earlier in (oldest..number).step_by(37) {
                let expected = if written(earlier) { Verdict::Repeat } else { Verdict::Not(Unwritten::Passed) };
                assert_eq!(
                    judge(&mut filter, now, origin(earlier), 0, alive()),
                    expected,
                    "{earlier} seen from {number}"
                );
            }
        }
    }

    #[test]
    fn idle_senders_are_forgotten_and_too_many_push_out_the_idlest() {
        let limits = FilterLimits::default();
        let mut filter = Filter::default();
        let start = Instant::now();
        for n in 0..=limits.origins as u64 {
            let mut session = [0; 16];
            session[..8].copy_from_slice(&n.to_le_bytes());
            let origin = Origin { session: SessionId(session), number: 1 };
            assert_eq!(judge(&mut filter, start + Duration::from_millis(n), origin, 0, alive()), Verdict::Write);
        }
        assert_eq!(filter.len(), limits.origins);
        let hold = Duration::from_secs(20);
        filter.forget_idle(&limits, start + limits.latest_repeat + hold + Duration::from_secs(4), hold);
        assert_eq!(filter.len(), limits.origins);
        filter.forget_idle(&limits, start + limits.latest_repeat + hold + Duration::from_secs(7), hold);
        assert!(filter.is_empty());
    }
}
