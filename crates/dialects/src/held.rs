//! Messages that wait in `gstreamer`, `rxdb` or `pixel_streaming`, bounded by number and size.

use std::collections::VecDeque;

/// At most `MAX` messages of at most `MAX_BYTES` together, in order of arrival, each with a `T`.
#[derive(Debug)]
pub(crate) struct Held<T, const MAX: usize, const MAX_BYTES: usize> {
    queue: VecDeque<(T, String)>,
    bytes: usize,
}

impl<T, const MAX: usize, const MAX_BYTES: usize> Default for Held<T, MAX, MAX_BYTES> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<T, const MAX: usize, const MAX_BYTES: usize> Held<T, MAX, MAX_BYTES> {
    /// Adds a message. Returns `false` and drops it if there is no room for it.
    pub(crate) fn push(&mut self, beside: T, text: &str) -> bool {
        let fits = self.queue.len() < MAX && self.bytes + text.len() <= MAX_BYTES;
        if fits {
            self.bytes += text.len();
            self.queue.push_back((beside, text.to_owned()));
        }
        fits
    }

    /// Removes the first message and returns it. `None`: there is none.
    pub(crate) fn pop(&mut self) -> Option<String> {
        let (_, text) = self.queue.pop_front()?;
        self.bytes -= text.len();
        Some(text)
    }

    /// Removes the messages that `is_taken` selects, and returns them in order of arrival.
    pub(crate) fn take_if(&mut self, is_taken: impl Fn(&T) -> bool) -> Vec<String> {
        let mut taken = Vec::new();
        for (beside, text) in std::mem::take(&mut self.queue) {
            if is_taken(&beside) {
                self.bytes -= text.len();
                taken.push(text);
            } else {
                self.queue.push_back((beside, text));
            }
        }
        taken
    }

    /// Returns the value beside each message, in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|(beside, _)| beside)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.bytes + self.queue.capacity() * (size_of::<(T, String)>() + 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_by_number_and_bytes() {
        for (text, fits) in [("x", 16), ("xxxxxx", 3)] {
            let mut held = Held::<usize, 16, 20>::default();
            assert_eq!((0..100).filter(|number| held.push(*number, text)).count(), fits);
            assert_eq!(held.take_if(|number| *number > 1), vec![text; fits - 2]);
            assert_eq!((held.len(), held.text_bytes()), (2, 2 * text.len()));
            assert_eq!((held.pop().as_deref(), held.pop().is_some(), held.pop()), (Some(text), true, None));
            assert_eq!(held.text_bytes(), 0);
        }
    }
}
