//! Frames that wait for a trunk, or items that wait for a lane. The cores of edges and nodes add
//! them and take a batch at a time.

use std::collections::VecDeque;

use crate::Elapsed;
use crate::limits::BATCH_TARGET_BYTES;

/// Frames in their order, cut into batches of a bounded size. After a stall, or when thousands of
/// sessions attach, more waits than one message can hold.
#[derive(Debug, Default)]
pub struct Batches {
    full: VecDeque<Vec<u8>>,
    open: Vec<u8>,
    /// Time of the last stamp in `open`. `None`: there is none.
    stamped: Option<Elapsed>,
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
            self.stamped = None;
        }
    }

    /// Adds frames as [`Self::add`], with the frame that `stamp` writes in front, unless the last
    /// stamp in their batch has this time.
    pub fn add_stamped(&mut self, time: Elapsed, stamp: impl FnOnce(&mut Vec<u8>), append: impl FnOnce(&mut Vec<u8>)) {
        let is_new = self.stamped.replace(time) != Some(time);
        self.add(|out| {
            if is_new {
                stamp(out);
            }
            append(out);
        });
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
        let batch = self.full.pop_front().unwrap_or_else(|| {
            self.stamped = None;
            std::mem::take(&mut self.open)
        });
        self.usual = batch.len().max(self.usual - self.usual / 8);
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
    fn each_batch_has_a_stamp_of_each_time_in_it() {
        let start = Instant::now();
        let mut batches = Batches::default();
        let add = |batches: &mut Batches, ms: u64, bytes: usize| {
            let time = Elapsed::between(start, start + Duration::from_millis(ms));
            batches.add_stamped(time, |out| out.push(1), |out| out.resize(out.len() + bytes, 0));
        };
        for (ms, bytes) in [(0, 2), (9, 2), (10, 1), (10, BATCH_TARGET_BYTES), (10, 1)] {
            add(&mut batches, ms, bytes);
        }
        let full = batches.take();
        assert_eq!((&full[..7], full.len()), (&[1, 0, 0, 0, 0, 1, 0][..], 7 + BATCH_TARGET_BYTES));
        add(&mut batches, 10, 1);
        assert_eq!(batches.take(), [1, 0, 0]);
        add(&mut batches, 10, 1);
        assert_eq!(batches.take(), [1, 0]);
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
