//! Deduplication for one recipient, by the messages that were written to its socket.
//!
//! [`EdgeCore::link_frames`](super::EdgeCore::link_frames) checks each message by it before queuing
//! it. It never forgets a sender while nodes may still send a copy of its messages. A reliable
//! client that may retransmit after a resume stays known too, except at the byte limit. At the
//! limit new senders are refused. Their nodes retransmit until there is room or the TTL is over.

use std::hint::black_box;
use std::time::{Duration, Instant};

use signaling_protocol::limits;
use signaling_wire::trunk::Unwritten;
use signaling_wire::{MessageNumber, Origin, RemainingTtl};

use super::memory::SENDER_BYTES;
use super::senders::{Sender, Senders};

/// Limits of one deduplicator.
#[derive(Debug, Clone, Copy)]
pub struct DedupLimits {
    /// Number of a sender's latest numbers with a known outcome, a power of two from 64: four times
    /// its maximum of unacknowledged messages. Older ones count as unwritten.
    pub window: u64,
    /// Bytes from which a new sender replaces one that is silent for the hold time and `afterlife`,
    /// or is refused. The growing windows of known senders can add up to as much again.
    pub bytes: usize,
    /// Time after the hold time in which a copy of a message can arrive.
    pub afterlife: Duration,
    /// Time after a message in which a reliable sender can retransmit it: its socket breaks without
    /// an `ack`, the heartbeat detects it, the client resumes. A plain sender cannot retransmit. At
    /// the byte limit this time does not keep a sender.
    pub latest_repeat: Duration,
    /// `true`: forgets the idlest sender, however recent, instead of refusing a new one. For
    /// simulations, which show that this breaks a guarantee.
    pub forgets_recent: bool,
}

impl Default for DedupLimits {
    fn default() -> Self {
        let noticed = limits::HEARTBEAT + limits::HEARTBEAT_ANSWER;
        Self {
            window: 1024,
            bytes: 4 * 1024 * 1024,
            afterlife: Duration::from_secs(5),
            latest_repeat: noticed + limits::MAX_RESUME,
            forgets_recent: false,
        }
    }
}

/// Minimum senders that each deduplicator remembers while memory is scarce.
const LEAST_SENDERS: usize = 16;

/// The current bounds of a deduplicator.
#[derive(Debug, Clone, Copy)]
pub struct DedupBounds {
    /// The settings.
    pub limits: DedupLimits,
    /// The recipient's hold time.
    pub hold: Duration,
    /// `true` above three quarters of the memory for all clients: 16 senders are the limit then.
    pub memory_is_scarce: bool,
    /// `true` if the recipient's output takes no messages of other clients.
    pub output_is_full: bool,
}

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateCheck {
    /// New, and no earlier message is missing. It is written.
    Write,
    /// A duplicate of a message that was written, or still waits in the output.
    Duplicate,
    /// Not to be written, for this reason.
    Not(Unwritten),
}

/// The messages written to one socket, by the session that sent them.
#[derive(Debug, Default)]
pub struct Deduplicator {
    senders: Senders,
}

impl Deduplicator {
    /// Decides if a message is written, and stores a final decision. A refusal for lack of room or
    /// because of a gap is not final. A number up to the sender's highest one is a duplicate or
    /// skipped. `prev_pending`: the sender's previous message without an outcome. `ttl`:
    /// [`RemainingTtl::NONE`] for an expired message, which is never written.
    pub fn judge(
        &mut self,
        bounds: &DedupBounds,
        now: Instant,
        origin: Origin,
        prev_pending: MessageNumber,
        ttl: RemainingTtl,
    ) -> DuplicateCheck {
        // An expired message only requests its outcome. It must not bar a missing one before it.
        let is_expired = ttl == RemainingTtl::NONE;
        let has_room = |has_gap: bool| !bounds.output_is_full || (is_expired && !has_gap);
        let verdict = if is_expired { DuplicateCheck::Not(Unwritten::Skipped) } else { DuplicateCheck::Write };
        let Some(sender) = self.senders.touched(now, origin.session) else {
            let has_gap = prev_pending > MessageNumber::NONE;
            if !has_room(has_gap) || !self.makes_room(bounds, now) {
                return DuplicateCheck::Not(Unwritten::NoRoom);
            }
            if has_gap {
                return DuplicateCheck::Not(Unwritten::Gap);
            }
            self.senders.insert(now, origin.session, Sender::first(origin.number, !is_expired));
            return verdict;
        };
        if origin.number <= sender.last() {
            let was_written = sender.was_written(origin.number);
            return if was_written { DuplicateCheck::Duplicate } else { DuplicateCheck::Not(Unwritten::Skipped) };
        }
        let has_gap = prev_pending > sender.last();
        if !has_room(has_gap) {
            return DuplicateCheck::Not(Unwritten::NoRoom);
        }
        if has_gap {
            return DuplicateCheck::Not(Unwritten::Gap);
        }
        let grown = sender.advance(origin.number, !is_expired, bounds.limits.window);
        self.senders.has_grown(grown);
        verdict
    }

    /// Prefetches the data that [`Self::judge`] needs.
    pub(super) fn prefetch(&self, origin: Origin) {
        black_box(self.senders.get(origin.session).map(|sender| sender.was_written(origin.number)));
    }

    /// Forgets senders whose messages can have no further copies by the recipient's hold time.
    pub fn forget_idle(&mut self, limits: &DedupLimits, now: Instant, hold: Duration) {
        let plain = hold + limits.afterlife;
        self.senders.remove_idle(now, plain, plain + limits.latest_repeat);
    }

    /// Returns its approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        self.senders.len() * SENDER_BYTES + self.senders.window_bytes()
    }

    /// Returns `true` if a new sender may be remembered. It may replace the idlest one.
    fn makes_room(&mut self, bounds: &DedupBounds, now: Instant) -> bool {
        let DedupBounds { limits, hold, memory_is_scarce, .. } = bounds;
        let is_full =
            self.bytes() + SENDER_BYTES > limits.bytes || (*memory_is_scarce && self.senders.len() >= LEAST_SENDERS);
        if !is_full {
            return true;
        }
        let least = if limits.forgets_recent { Duration::ZERO } else { *hold + limits.afterlife };
        self.senders.remove_idlest(now, least)
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::SessionId;

    use super::DuplicateCheck::{Duplicate, Not, Write};
    use super::*;

    const HOLD: Duration = Duration::from_secs(20);

    fn bounds() -> DedupBounds {
        DedupBounds { limits: DedupLimits::default(), hold: HOLD, memory_is_scarce: false, output_is_full: false }
    }

    /// Bounds with room for this many senders.
    fn room_for(senders: usize) -> DedupBounds {
        let limits = DedupLimits { bytes: senders * SENDER_BYTES, ..DedupLimits::default() };
        DedupBounds { limits, ..bounds() }
    }

    fn judge(filter: &mut Deduplicator, now: Instant, origin: Origin, prev: u64, ttl: RemainingTtl) -> DuplicateCheck {
        filter.judge(&bounds(), now, origin, MessageNumber(prev), ttl)
    }

    /// Judges the first message of a plain sender.
    fn judge_first(filter: &mut Deduplicator, bounds: &DedupBounds, now: Instant, sender: u64) -> DuplicateCheck {
        filter.judge(bounds, now, first_of(sender, false), MessageNumber::NONE, alive())
    }

    fn alive() -> RemainingTtl {
        RemainingTtl::from_duration(Duration::from_secs(1))
    }

    fn origin(number: u64) -> Origin {
        Origin { session: SessionId([1; 16]), number: MessageNumber(number) }
    }

    #[test]
    fn message_is_judged_by_its_number_predecessor_and_ttl() {
        let (alive, over) = (alive(), RemainingTtl::NONE);
        let (skipped, gap) = (Not(Unwritten::Skipped), Not(Unwritten::Gap));
        for steps in [
            // Duplicates.
            &[(1, 0, alive, Write), (1, 0, alive, Duplicate), (5, 1, alive, Write), (1, 0, alive, Duplicate)][..],
            // An overtaken message is never reported as written.
            &[(9, 0, alive, Write), (8, 0, alive, skipped)],
            // A missing predecessor is a gap and changes nothing.
            &[(9, 8, alive, gap), (8, 0, alive, Write), (9, 8, alive, Write)],
            // A query for an expired message is skipped, and blocks a late copy.
            &[(3, 0, over, skipped), (3, 0, alive, skipped), (4, 3, alive, Write), (4, 3, over, Duplicate)],
            // A query does not bar a missing message before it. Message 2 has expired on its way,
            // so the copy of 3 still names it. The sender's node retransmits in order.
            &[(3, 2, alive, gap), (5, 4, over, gap), (3, 0, alive, Write), (5, 3, over, skipped)],
            // The same, of a known sender.
            &[(1, 0, alive, Write), (3, 2, alive, gap), (5, 4, over, gap), (3, 0, alive, Write), (5, 3, over, skipped)],
        ] {
            let (mut filter, now) = (Deduplicator::default(), Instant::now());
            for &(number, prev, ttl, expected) in steps {
                assert_eq!(judge(&mut filter, now, origin(number), prev, ttl), expected, "{number} of {steps:?}");
            }
        }
    }

    #[test]
    fn expired_message_does_not_bar_one_that_waits_for_room() {
        let full = DedupBounds { output_is_full: true, ..bounds() };
        let (over, refused) = (RemainingTtl::NONE, Not(Unwritten::NoRoom));
        let mut filter = Deduplicator::default();
        let now = Instant::now();
        let mut judge_when_full =
            |number, prev, ttl| filter.judge(&full, now, origin(number), MessageNumber(prev), ttl);
        assert_eq!(judge_when_full(1, 0, over), Not(Unwritten::Skipped), "it needs no room");
        assert_eq!(judge_when_full(2, 0, alive()), refused);
        assert_eq!(judge_when_full(3, 2, over), refused, "a request to retransmit would not make room");
        assert_eq!(judge(&mut filter, now, origin(2), 0, alive()), Write);
    }

    #[test]
    fn latest_1024_numbers_keep_their_mark_while_it_grows() {
        let limits = DedupLimits::default();
        let mut filter = Deduplicator::default();
        let now = Instant::now();
        let written = |number: u64| !number.is_multiple_of(3);
        for number in (1..=3000).filter(|&number| written(number)) {
            assert_eq!(judge(&mut filter, now, origin(number), 0, alive()), Write);
            let oldest = number.saturating_sub(limits.window - 1).max(1);
            for earlier in (oldest..number).step_by(37) {
                let expected = if written(earlier) { Duplicate } else { Not(Unwritten::Skipped) };
                assert_eq!(judge(&mut filter, now, origin(earlier), 0, alive()), expected, "{earlier} at {number}");
            }
        }
    }

    /// The first message of a sender.
    fn first_of(sender: u64, reliable: bool) -> Origin {
        let mut drawn = [0; 16];
        drawn[..8].copy_from_slice(&sender.to_le_bytes());
        Origin { session: SessionId::new(drawn, reliable), number: MessageNumber(1) }
    }

    #[test]
    fn full_filter_refuses_new_senders_while_all_are_recent() {
        let bounds = room_for(2_000);
        let mut filter = Deduplicator::default();
        let start = Instant::now();
        for sender in 0..2_000 {
            let at = start + Duration::from_millis(sender);
            assert_eq!(judge_first(&mut filter, &bounds, at, sender), Write);
        }
        let later = start + HOLD;
        let refused = Not(Unwritten::NoRoom);
        assert_eq!(judge_first(&mut filter, &bounds, later, 9_999), refused);
        let expired = filter.judge(&bounds, later, first_of(9_999, false), MessageNumber::NONE, RemainingTtl::NONE);
        assert_eq!(expired, refused, "nor is it barred");
        for sender in 0..2_000 {
            assert_eq!(judge_first(&mut filter, &bounds, later, sender), Duplicate);
        }
    }

    #[test]
    fn full_filter_forgets_the_idlest_once_no_copy_can_come() {
        let bounds = room_for(3);
        let mut filter = Deduplicator::default();
        let start = Instant::now();
        for (sender, reliable) in [(0, true), (1, false), (2, false)] {
            filter.judge(&bounds, start, first_of(sender, reliable), MessageNumber::NONE, alive());
        }
        let later = start + HOLD + bounds.limits.afterlife;
        judge_first(&mut filter, &bounds, later, 1);
        for new in [10, 11] {
            assert_eq!(judge_first(&mut filter, &bounds, later, new), Write);
        }
        assert_eq!(judge_first(&mut filter, &bounds, later, 12), Not(Unwritten::NoRoom), "the rest is recent");
        assert_eq!(judge_first(&mut filter, &bounds, later, 1), Duplicate);
    }

    #[test]
    fn filter_judges_duplicates_while_the_output_is_full() {
        let full = DedupBounds { output_is_full: true, ..bounds() };
        let mut filter = Deduplicator::default();
        let now = Instant::now();
        judge(&mut filter, now, origin(1), 0, alive());
        assert_eq!(filter.judge(&full, now, origin(1), MessageNumber::NONE, alive()), Duplicate);
        for new in [origin(2), first_of(7, false)] {
            assert_eq!(filter.judge(&full, now, new, MessageNumber::NONE, alive()), Not(Unwritten::NoRoom));
            assert_eq!(judge(&mut filter, now, new, 0, alive()), Write, "it was not barred");
        }
    }

    #[test]
    fn filter_keeps_a_few_senders_when_memory_is_scarce() {
        let scarce = DedupBounds { memory_is_scarce: true, ..bounds() };
        let mut filter = Deduplicator::default();
        let now = Instant::now();
        let written = (0..40).filter(|&sender| judge_first(&mut filter, &scarce, now, sender) == Write);
        assert_eq!(written.count(), LEAST_SENDERS);
    }

    #[test]
    fn filter_counts_the_bytes_of_windows_that_grow() {
        let mut filter = Deduplicator::default();
        let now = Instant::now();
        for number in 1..=1_024 {
            judge(&mut filter, now, origin(number), number - 1, alive());
        }
        assert_eq!(filter.bytes(), SENDER_BYTES + 128);
        filter.forget_idle(&DedupLimits::default(), now + Duration::from_secs(600), HOLD);
        assert_eq!(filter.bytes(), 0);
    }

    #[test]
    fn idle_senders_are_forgotten_when_they_cannot_return() {
        let limits = DedupLimits::default();
        let hold = Duration::from_secs(20);
        for (reliable, age) in
            [(false, hold + limits.afterlife), (true, hold + limits.afterlife + limits.latest_repeat)]
        {
            let mut filter = Deduplicator::default();
            let start = Instant::now();
            judge(&mut filter, start, first_of(1, reliable), 0, alive());

            filter.forget_idle(&limits, start + age - Duration::from_millis(1), hold);
            assert_eq!(filter.senders.len(), 1, "reliable: {reliable}");
            filter.forget_idle(&limits, start + age, hold);
            assert_eq!(filter.senders.len(), 0, "reliable: {reliable}");
        }
    }

    #[test]
    fn memory_of_a_burst_is_freed_and_other_senders_stay() {
        let limits = DedupLimits::default();
        let mut filter = Deduplicator::default();
        let start = Instant::now();
        let hold = Duration::from_secs(20);
        (0..1_000).for_each(|sender| _ = judge(&mut filter, start, first_of(sender, false), 0, alive()));
        let (burst, later) = (filter.senders.capacity(), start + hold + limits.afterlife);
        (0..10).for_each(|sender| _ = judge(&mut filter, later, first_of(sender, false), 0, alive()));

        filter.forget_idle(&limits, later, hold);

        assert_eq!(filter.senders.len(), 10);
        assert!(filter.senders.capacity() < burst / 10);
        assert_eq!(judge(&mut filter, later, first_of(3, false), 0, alive()), Duplicate);
    }
}
