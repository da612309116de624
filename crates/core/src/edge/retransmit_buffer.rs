//! The sender's half of custody: messages of a client without an outcome. The edge's inputs use it.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use signaling_wire::Seq;

/// Limits of one retransmit buffer. At any of them the edge stops reading the client, so the last
/// message may exceed them.
#[derive(Debug, Clone, Copy)]
pub struct RetransmitLimits {
    /// Maximum messages without an outcome: many times the burst of a call set-up.
    pub frames: usize,
    /// Maximum payload bytes of messages without an outcome: four of the default maximum size.
    pub bytes: usize,
    /// Maximum numbers from the oldest message without an outcome to the newest message: 3,000
    /// messages/s for the default hold time of 20 s. At most `frames` of them have no outcome,
    /// which fit a deduplicator's window.
    pub span: u64,
}

impl Default for RetransmitLimits {
    fn default() -> Self {
        Self { frames: 256, bytes: 256 * 1024, span: 65_536 }
    }
}

/// A message in custody.
#[derive(Debug)]
pub struct Kept {
    /// Time at which the edge received it. Its TTL counts from here.
    pub seen: Instant,
    /// The client's text.
    pub payload: Box<[u8]>,
}

/// The messages of one session without an outcome, by number.
#[derive(Debug, Default)]
pub struct RetransmitBuffer {
    kept: VecDeque<(Seq, Kept)>,
    bytes: usize,
    last: Seq,
}

impl RetransmitBuffer {
    /// Returns a buffer whose first message gets the number `last + 1`.
    pub fn starting_after(last: Seq) -> Self {
        Self { last, ..Self::default() }
    }

    /// Returns the number of the newest message.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Adds a message and returns its number.
    pub fn push(&mut self, payload: &[u8], seen: Instant) -> Seq {
        self.last = self.last.plus(1);
        self.bytes += payload.len();
        self.kept.push_back((self.last, Kept { seen, payload: payload.into() }));
        self.last
    }

    /// Removes a message and returns the time of its receipt. `None`: its outcome came before, or
    /// no message has the number.
    pub fn remove(&mut self, seq: Seq) -> Option<Instant> {
        // Most outcomes arrive in the order of the messages.
        let removed = if self.kept.front().is_some_and(|(oldest, _)| *oldest == seq) {
            self.kept.pop_front()
        } else {
            let at = self.kept.binary_search_by_key(&seq, |(kept, _)| *kept).ok()?;
            self.kept.remove(at)
        };
        let (_, kept) = removed?;
        self.bytes -= kept.payload.len();
        Some(kept.seen)
    }

    /// Prefetches the oldest message for [`Self::remove`].
    pub(super) fn prefetch(&self) {
        black_box(self.kept.front().map(|(seq, _)| *seq));
    }

    /// Frees the memory of an empty buffer. Each sweep calls it, so busy clients keep theirs.
    pub fn tidy(&mut self) {
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
    }

    /// Returns `true` if the client must not be read until an outcome arrives.
    pub fn is_full(&self, limits: &RetransmitLimits) -> bool {
        let span = self.kept.front().map_or(0, |(oldest, _)| self.last.0 + 1 - oldest.0);
        self.kept.len() >= limits.frames || self.bytes >= limits.bytes || span >= limits.span
    }

    /// Returns the number of messages without an outcome.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns the payload bytes of the messages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if every message has its outcome.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns all messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &Kept)> {
        self.kept.iter().map(|(seq, kept)| (*seq, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize) -> RetransmitBuffer {
        let mut store = RetransmitBuffer::default();
        let now = Instant::now();
        (0..count).for_each(|_| _ = store.push(b"four", now));
        store
    }

    #[test]
    fn frames_are_numbered_from_one_and_go_one_by_one() {
        let mut store = filled(3);
        assert!(store.remove(Seq(2)).is_some());
        assert!(store.remove(Seq(2)).is_none(), "a second outcome changes nothing");
        assert!(store.remove(Seq(0)).is_none());
        assert!(store.remove(Seq(9)).is_none());
        assert_eq!(store.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [1, 3]);
        assert!(store.remove(Seq(1)).is_some());
        assert!(store.remove(Seq(3)).is_some());
        assert!(store.is_empty());
        assert_eq!(store.push(b"", Instant::now()), Seq(4));
    }

    #[test]
    fn each_bound_alone_makes_it_full() {
        let wide = RetransmitLimits { frames: 1000, bytes: 1000, span: 1000 };
        assert!(!filled(4).is_full(&wide));
        assert!(filled(4).is_full(&RetransmitLimits { frames: 4, ..wide }));
        assert!(filled(4).is_full(&RetransmitLimits { bytes: 16, ..wide }));
        let mut store = filled(4);
        (2..=3).for_each(|seq| _ = store.remove(Seq(seq)));
        assert!(store.is_full(&RetransmitLimits { span: 4, ..wide }), "an old frame keeps its distance to the newest");
        store.remove(Seq(1));
        assert!(!store.is_full(&RetransmitLimits { span: 4, ..wide }));
    }

    #[test]
    fn empty_retransmit_buffer_frees_its_memory() {
        let mut store = filled(100);
        (2..=100).rev().for_each(|seq| _ = store.remove(Seq(seq)));
        store.tidy();
        assert_eq!(store.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [1]);
        store.remove(Seq(1));
        store.tidy();
        assert_eq!(store.kept.capacity(), 0);
    }
}
