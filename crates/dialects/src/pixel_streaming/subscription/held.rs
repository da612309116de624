//! Messages that wait for a streamer's decision.

use std::collections::VecDeque;

/// Maximum waiting messages.
const MAX_HELD: usize = 64;
const MAX_HELD_BYTES: usize = 512 * 1024;

/// Messages that wait, in order.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) queue: VecDeque<(T, String)>,
    pub(super) bytes: usize,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Held<T> {
    /// Adds a message. Fails if there is no room for it.
    pub(super) fn push(&mut self, kind: T, text: &str) -> bool {
        let fits = self.queue.len() < MAX_HELD && self.bytes + text.len() <= MAX_HELD_BYTES;
        if fits {
            self.bytes += text.len();
            self.queue.push_back((kind, text.to_owned()));
        }
        fits
    }

    pub(super) fn pop(&mut self) -> Option<(T, String)> {
        let front = self.queue.pop_front()?;
        self.bytes -= front.1.len();
        Some(front)
    }

    /// Returns the approximate size of all messages, in bytes.
    pub(super) fn retained_bytes(&self) -> usize {
        self.bytes + self.queue.capacity() * size_of::<(T, String)>()
    }
}
