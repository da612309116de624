//! Frames that wait for a trunk, or items that wait for a lane. The cores of edges and nodes add
//! them and take a batch at a time.

use std::collections::VecDeque;

use crate::limits::BATCH_TARGET_BYTES;

/// Frames in their order, cut into batches of a bounded size. After a stall, or when thousands of
/// sessions attach, more waits than one message can hold.
#[derive(Debug, Default)]
pub struct Batches {
    full: VecDeque<Vec<u8>>,
    open: Vec<u8>,
    /// Recent size of batches, reserved for the next one.
    usual: usize,
}

impl Batches {
    /// Adds the frames that `append` writes, a whole number. They stay in one batch, which takes no
    /// more frames from [`BATCH_TARGET_BYTES`] (256 KiB) on. There is no limit of batches.
    pub fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        if self.open.capacity() == 0 {
            self.open.reserve(self.usual);
        }
        append(&mut self.open);
        if self.open.len() >= BATCH_TARGET_BYTES {
            self.full.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Returns the number of waiting bytes.
    pub fn bytes(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.open.len()
    }

    /// Returns `true` if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.full.is_empty()
    }

    /// Takes the oldest batch; empty if nothing waits.
    pub fn take(&mut self) -> Vec<u8> {
        let batch = self.full.pop_front().unwrap_or_else(|| std::mem::take(&mut self.open));
        self.usual = batch.len().max(self.usual - self.usual / 8);
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_BATCH_BYTES, MAX_FRAME_BYTES};

    #[test]
    fn queued_items_leave_in_order_in_bounded_batches() {
        let mut batches = Batches::default();
        for frame in 0..100_u8 {
            let size = if frame % 50 == 49 { MAX_FRAME_BYTES } else { 10_000 };
            batches.add(|out| out.resize(out.len() + size, frame));
        }
        let mut seen = Vec::new();
        while !batches.is_empty() {
            let batch = batches.take();
            assert!(!batch.is_empty() && batch.len() <= MAX_BATCH_BYTES);
            seen.extend(batch);
        }
        assert!(seen.is_sorted());
        assert_eq!(seen.len(), 98 * 10_000 + 2 * MAX_FRAME_BYTES);
        assert!(batches.take().is_empty());
    }

    #[test]
    fn reserved_capacity_follows_the_recent_batch_sizes() {
        let mut batches = Batches::default();
        let mut room_after = |bytes: usize| {
            batches.add(|out| out.resize(bytes, 0));
            batches.take();
            let mut room = 0;
            batches.add(|out| room = out.capacity());
            room
        };
        assert!(room_after(1_000) >= 1_000);
        assert!(room_after(200_000) >= 200_000);
        let later = (0..100).map(|_| room_after(100)).last();
        assert!(later < Some(1_000), "{later:?}");
    }
}
