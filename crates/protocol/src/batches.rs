//! What waits for a trunk.

use std::collections::VecDeque;

use crate::limits::BATCH_TARGET_BYTES;

/// Frames in the order in which they leave, cut into batches that the other end takes: after a stall, or when thousands of
/// sessions attach at once, more waits than one message may hold.
#[derive(Debug, Default)]
pub struct Batches {
    full: VecDeque<Vec<u8>>,
    open: Vec<u8>,
}

impl Batches {
    /// Adds what `append` writes, a whole number of frames: it is not cut.
    pub fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.open);
        if self.open.len() >= BATCH_TARGET_BYTES {
            self.full.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.full.is_empty()
    }

    /// Takes the oldest batch; an empty one if nothing waits.
    pub fn take(&mut self) -> Vec<u8> {
        self.full.pop_front().unwrap_or_else(|| std::mem::take(&mut self.open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_BATCH_BYTES, MAX_FRAME_BYTES};

    #[test]
    fn what_waits_leaves_in_order_in_batches_of_a_bounded_size() {
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
}
