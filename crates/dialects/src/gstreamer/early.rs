//! Messages of a client that is not in its room yet. Elements send their protocol version first.

/// Maximum messages. The edge does not read the client meanwhile, except what it has read already.
const MAX_MESSAGES: usize = 16;
/// Maximum bytes of all messages.
const MAX_BYTES: usize = 128 * 1024;

/// Held messages in order of arrival.
#[derive(Debug, Default)]
pub(super) struct EarlyMessages {
    messages: Vec<Vec<u8>>,
    bytes: usize,
}

impl EarlyMessages {
    /// Holds a message. Fails if there is no room for it.
    pub(super) fn push(&mut self, text: &[u8]) -> bool {
        if self.messages.len() >= MAX_MESSAGES || self.bytes + text.len() > MAX_BYTES {
            return false;
        }
        self.bytes += text.len();
        self.messages.push(text.to_vec());
        true
    }

    /// Removes all messages and returns them.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }

    /// Returns the size of all messages, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_by_number_and_bytes() {
        for (text, fits) in [("x".to_owned(), 16), ("x".repeat(60_000), 2)] {
            let mut early = EarlyMessages::default();
            assert_eq!((0..100).filter(|_| early.push(text.as_bytes())).count(), fits);
            assert_eq!(early.bytes(), fits * text.len());
            assert_eq!((early.take().len(), early.bytes()), (fits, 0));
        }
    }
}
