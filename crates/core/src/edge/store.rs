//! The sender's half of custody: what a client sent, kept until the fate of each frame comes.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

/// How much of one client's traffic an edge keeps. Past any of these the edge stops reading the client's socket.
#[derive(Debug, Clone, Copy)]
pub struct StoreLimits {
    /// Frames without a fate: many times what a call set-up sends at once.
    pub frames: usize,
    /// Bytes without a fate: four messages of the default largest size.
    pub bytes: usize,
    /// Distance from the oldest number without a fate to the newest: what 3,000 messages a second come to while one waits
    /// its hold time for an absent recipient. Only those to live recipients, of which there are at most as many as frames,
    /// must stay within what a recipient's filter remembers.
    pub span: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { frames: 256, bytes: 256 * 1024, span: 65_536 }
    }
}

/// One frame in custody.
#[derive(Debug)]
pub struct Kept {
    /// When the edge first saw it; its hold time counts from here.
    pub seen: Instant,
    /// The client's text.
    pub payload: Box<[u8]>,
}

/// The frames of one session that have no fate yet, by number.
#[derive(Debug, Default)]
pub struct RetransmitBuffer {
    kept: VecDeque<(u64, Kept)>,
    bytes: usize,
    last: u64,
}

impl RetransmitBuffer {
    /// A store whose first frame will have the number `last + 1`.
    #[must_use]
    pub fn starting_after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// The number of the newest frame ever kept.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Takes custody of a frame and gives it its number.
    pub fn push(&mut self, payload: &[u8], seen: Instant) -> u64 {
        self.last += 1;
        self.bytes += payload.len();
        self.kept.push_back((self.last, Kept { seen, payload: payload.into() }));
        self.last
    }

    /// Ends custody of one frame. Says when it was first seen, if it was there: a fate may come twice.
    pub fn remove(&mut self, seq: u64) -> Option<Instant> {
        // Most fates come in the order of their frames.
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

    /// Reads what [`Self::remove`] will of the oldest frame.
    pub(super) fn touch(&self) {
        black_box(self.kept.front().map(|(seq, _)| *seq));
    }

    /// Gives an empty store's buffer back: an idle client has none, and one that writes does not get a new one each time.
    pub fn tidy(&mut self) {
        if self.kept.is_empty() {
            self.kept = VecDeque::new();
        }
    }

    /// Whether the client must not be read until something gets its fate.
    #[must_use]
    pub fn is_full(&self, limits: &StoreLimits) -> bool {
        let span = self.kept.front().map_or(0, |(oldest, _)| self.last + 1 - oldest);
        self.kept.len() >= limits.frames || self.bytes >= limits.bytes || span >= limits.span
    }

    /// How many frames have no fate.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many bytes they have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether every frame has its fate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All frames without a fate, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Kept)> {
        self.kept.iter().map(|(seq, kept)| (*seq, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: usize) -> RetransmitBuffer {
        let mut store = RetransmitBuffer::default();
        let now = Instant::now();
        (0..count).for_each(|_| {
            store.push(b"four", now);
        });
        store
    }

    #[test]
    fn frames_are_numbered_from_one_and_go_one_by_one() {
        let mut store = filled(3);
        assert!(store.remove(2).is_some());
        assert!(store.remove(2).is_none(), "a second fate changes nothing");
        assert!(store.remove(0).is_none());
        assert!(store.remove(9).is_none());
        assert_eq!(store.iter().map(|(seq, _)| seq).collect::<Vec<_>>(), [1, 3]);
        assert!(store.remove(1).is_some());
        assert!(store.remove(3).is_some());
        assert!(store.is_empty());
        assert_eq!(store.push(b"", Instant::now()), 4);
    }

    #[test]
    fn each_bound_alone_makes_it_full() {
        let wide = StoreLimits { frames: 1000, bytes: 1000, span: 1000 };
        assert!(!filled(4).is_full(&wide));
        assert!(filled(4).is_full(&StoreLimits { frames: 4, ..wide }));
        assert!(filled(4).is_full(&StoreLimits { bytes: 16, ..wide }));
        let mut store = filled(4);
        (2..=3).for_each(|seq| {
            store.remove(seq);
        });
        assert!(store.is_full(&StoreLimits { span: 4, ..wide }), "an old frame keeps its distance to the newest");
        store.remove(1);
        assert!(!store.is_full(&StoreLimits { span: 4, ..wide }));
    }

    #[test]
    fn an_empty_store_that_is_tidied_has_no_buffer() {
        let mut store = filled(100);
        (2..=100).rev().for_each(|seq| {
            store.remove(seq);
        });
        store.tidy();
        assert_eq!(store.iter().map(|(seq, _)| seq).collect::<Vec<_>>(), [1]);
        store.remove(1);
        store.tidy();
        assert_eq!(store.kept.capacity(), 0);
    }
}
