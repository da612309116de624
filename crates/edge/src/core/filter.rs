//! The recipient's half of custody: what was written to a client, so that repeats are told apart from news.

use std::hint::black_box;
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
    /// noticed by the heartbeat, and it came back just in time to resume. A plain one has no way to say that it repeats.
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

/// A table with room for so many times what it has gives the room back.
const SPARSE: usize = 4;

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
    /// Bit `n % len` says whether number `n` was written, for the latest `len` numbers.
    written: Words,
    touched: Instant,
}

/// A power of two of words. Most senders write to a client a few times at most, and do with one.
#[derive(Debug)]
enum Words {
    One(u64),
    Many(Box<[u64]>),
}

impl Words {
    fn all(&self) -> &[u64] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Many(words) => words,
        }
    }

    fn all_mut(&mut self) -> &mut [u64] {
        match self {
            Self::One(word) => std::slice::from_mut(word),
            Self::Many(words) => words,
        }
    }
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { base: 0, last: 0, written: Words::One(0), touched: now }
    }

    fn window(&self) -> u64 {
        self.written.all().len() as u64 * 64
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let bit = number & (self.window() - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn was_written(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        number >= self.base
            && self.last - number < self.window()
            && self.written.all().get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn mark(&mut self, number: u64, written: bool) {
        let (word, bit) = self.place(number);
        if let Some(bits) = self.written.all_mut().get_mut(word) {
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
        let written = Words::Many(vec![0; self.written.all().len() * 2].into());
        let mut larger = Self { base, last, touched, written };
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

    /// Reads what [`Self::judge`] will, and decides nothing.
    pub(super) fn touch(&self, origin: Origin) {
        let seen = self.seen_by_origin.get(&origin.session);
        black_box(seen.and_then(|seen| seen.written.all().get(seen.place(origin.number).0)));
    }

    /// Forgets senders that have been silent so long that no copy of what they sent can still come.
    pub fn forget_idle(&mut self, limits: &FilterLimits, now: Instant, hold: Duration) {
        let plain = hold + limits.afterlife;
        let reliable = plain + limits.latest_repeat;
        self.seen_by_origin.retain(|session, seen| {
            now.saturating_duration_since(seen.touched) < if session.is_reliable() { reliable } else { plain }
        });
        // After a burst, or it would keep the room of its busiest minute.
        if self.seen_by_origin.len() * SPARSE <= self.seen_by_origin.capacity() {
            self.seen_by_origin.shrink_to_fit();
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

    /// The first message of a sender.
    fn first_of(sender: u64, reliable: bool) -> Origin {
        let mut drawn = [0; 16];
        drawn[..8].copy_from_slice(&sender.to_le_bytes());
        Origin { session: SessionId::new(drawn, reliable), number: 1 }
    }

    #[test]
    fn too_many_senders_push_out_the_idlest() {
        let limits = FilterLimits::default();
        let mut filter = Filter::default();
        let start = Instant::now();
        for sender in 0..=limits.origins as u64 {
            let at = start + Duration::from_millis(sender);
            assert_eq!(judge(&mut filter, at, first_of(sender, true), 0, alive()), Verdict::Write);
        }
        assert_eq!(filter.len(), limits.origins);
        let now = start + Duration::from_secs(2);
        assert_eq!(judge(&mut filter, now, first_of(1, true), 0, alive()), Verdict::Repeat);
        assert_eq!(judge(&mut filter, now, first_of(0, true), 0, alive()), Verdict::Write);
    }

    #[test]
    fn idle_senders_are_forgotten_reliable_ones_only_when_they_cannot_come_back_any_more() {
        let limits = FilterLimits::default();
        let hold = Duration::from_secs(20);
        for (reliable, age) in
            [(false, hold + limits.afterlife), (true, hold + limits.afterlife + limits.latest_repeat)]
        {
            let mut filter = Filter::default();
            let start = Instant::now();
            judge(&mut filter, start, first_of(1, reliable), 0, alive());

            filter.forget_idle(&limits, start + age - Duration::from_millis(1), hold);
            assert_eq!(filter.len(), 1, "reliable: {reliable}");
            filter.forget_idle(&limits, start + age, hold);
            assert!(filter.is_empty(), "reliable: {reliable}");
        }
    }

    #[test]
    fn what_a_burst_of_senders_took_is_given_back_and_those_who_stay_are_known() {
        let limits = FilterLimits::default();
        let mut filter = Filter::default();
        let start = Instant::now();
        let hold = Duration::from_secs(20);
        (0..1_000).for_each(|sender| _ = judge(&mut filter, start, first_of(sender, false), 0, alive()));
        let (burst, later) = (filter.seen_by_origin.capacity(), start + hold + limits.afterlife);
        (0..10).for_each(|sender| _ = judge(&mut filter, later, first_of(sender, false), 0, alive()));

        filter.forget_idle(&limits, later, hold);

        assert_eq!(filter.len(), 10);
        assert!(filter.seen_by_origin.capacity() < burst / 10);
        assert_eq!(judge(&mut filter, later, first_of(3, false), 0, alive()), Verdict::Repeat);
    }

    #[test]
    fn a_sender_that_writes_little_takes_64_bytes() {
        assert_eq!(size_of::<(SessionId, Seen)>(), 64);
    }
}
