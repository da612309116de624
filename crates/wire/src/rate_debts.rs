//! Rates that a client has used, as they move from edge to edge with its session.

use bincode::{Decode, Encode};

/// Time until each of a client's rates is unused again, in ms.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct RateDebts {
    /// Messages/s.
    pub messages: u32,
    /// Bytes/s of messages.
    pub bytes: u32,
    /// Control frames/s.
    pub controls: u32,
}

impl RateDebts {
    /// Returns the debts after this time, in ms.
    #[must_use]
    pub fn after(self, ms: u128) -> Self {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        let [messages, bytes, controls] =
            [self.messages, self.bytes, self.controls].map(|debt| debt.saturating_sub(ms));
        Self { messages, bytes, controls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_end_with_time() {
        let debts = RateDebts { messages: 500, bytes: 1_500, controls: 0 };
        assert_eq!(debts.after(1_000), RateDebts { bytes: 500, ..RateDebts::default() });
        assert_eq!(debts.after(u128::MAX), RateDebts::default());
    }
}
