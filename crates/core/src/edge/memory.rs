//! The memory limit for all clients together.
//!
//! Each sweep counts the kept bytes. Messages are added in between, and answers to requests count
//! from the next sweep on. Above half of the limit, each client may have few unanswered messages,
//! so senders are read more slowly. Above three quarters, deduplicators with 16 senders stop to
//! grow. Above the limit, the clients with the most unread output and state lose their sockets.
//! `inputs`, `dialects` and `sweep` call this module.

use super::retransmit_buffer::RetransmitLimits;
use super::session::Session;
use super::{ClientKey, Settings};

/// Overhead in bytes of a message in custody or without `received`.
pub(super) const ENTRY_BYTES: usize = 64;
/// Bytes of a deduplicator's sender with few messages, including its table entries.
pub const SENDER_BYTES: usize = 160;
/// Clients whose unwritten output and state have fewer bytes are never evicted.
const LEAST_EVICTED: usize = 4 * 1024;
/// Limits of one retransmit buffer while memory is short: enough for a call set-up.
const STRAINED: RetransmitLimits = RetransmitLimits { frames: 32, bytes: 16 * 1024, span: u64::MAX };

/// The estimated bytes of all clients. Each `limit` is [`Settings::max_memory_bytes`].
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Bytes at the last sweep.
    counted: usize,
    /// Bytes added since.
    grown: usize,
}

impl Memory {
    /// Adds a message of this size, with its overhead.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.grown += bytes + ENTRY_BYTES;
    }

    /// Adds bytes without the overhead of a message.
    pub(super) fn grow_by(&mut self, bytes: usize) {
        self.grown += bytes;
    }

    /// Returns `true` above three quarters of the limit: deduplicators must not grow, since senders
    /// are not evicted.
    pub(super) fn is_scarce(&self, limit: usize) -> bool {
        self.total() > limit / 4 * 3
    }

    /// Returns `true` above the limit: clients must be evicted.
    pub(super) fn is_short(&self, limit: usize) -> bool {
        self.total() > limit
    }

    /// Replaces the estimate by the bytes that a sweep has counted.
    pub(super) fn set(&mut self, counted: usize) {
        *self = Self { counted, grown: 0 };
    }

    /// Returns the bytes of the last sweep's count and of the additions since.
    pub(super) fn total(&self) -> usize {
        self.counted.saturating_add(self.grown)
    }

    /// Returns the limits of each retransmit buffer, which are smaller above half of the memory.
    pub(super) fn retransmit_limits(&self, settings: &Settings) -> RetransmitLimits {
        let usual = settings.retransmit;
        if self.total() <= settings.max_memory_bytes / 2 {
            return usual;
        }
        RetransmitLimits {
            frames: usual.frames.min(STRAINED.frames),
            bytes: usual.bytes.min(STRAINED.bytes),
            span: usual.span,
        }
    }

    /// Returns the clients to close so that a quarter is free, if their bytes of at least 4 KiB
    /// suffice. `freed`: bytes that the close of each frees. Empty up to the limit.
    pub(super) fn evict(&self, limit: usize, mut freed: Vec<(usize, ClientKey)>) -> Vec<ClientKey> {
        if !self.is_short(limit) {
            return Vec::new();
        }
        let mut surplus = self.total() - limit / 4 * 3;
        freed.retain(|(bytes, _)| *bytes >= LEAST_EVICTED);
        freed.sort_unstable_by(|a, b| b.cmp(a));
        let mut evicted = Vec::new();
        for (bytes, client) in freed {
            if surplus == 0 {
                break;
            }
            surplus = surplus.saturating_sub(bytes);
            evicted.push(client);
        }
        evicted
    }
}

impl Session {
    /// Returns the approximate bytes kept for this session.
    pub(super) fn kept(&self) -> usize {
        let tracker = self.received.as_ref().map_or(0, |tracker| tracker.unacknowledged());
        let translator = self.dialect.as_ref().map_or(0, |dialect| dialect.translator.retained_bytes());
        self.buffer.bytes()
            + translator
            + self.buffer.len() * ENTRY_BYTES
            + self.freed_by_close()
            + self.deduplicator.bytes()
            + tracker * ENTRY_BYTES
            + self.proof.as_ref().map_or(0, |proof| proof.bytes())
    }

    /// Returns the bytes of unwritten output and of the state for the next node. Unlike messages
    /// without an outcome they need not outlive the socket.
    pub(super) fn freed_by_close(&self) -> usize {
        self.output.capacity() + self.state.as_ref().map_or(0, |state| state.len())
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;
    use crate::edge::{EdgeCore, SessionPhase};
    use crate::fixtures::attach_client;

    const LIMIT: usize = 1_000_000;

    fn holding(bytes: usize) -> Memory {
        Memory { counted: bytes, grown: 0 }
    }

    #[test]
    fn largest_outputs_are_evicted_until_a_quarter_is_free() {
        let mut keys = SlotMap::<ClientKey, ()>::with_key();
        let clients: Vec<_> = (0..10).map(|_| keys.insert(())).collect();
        let unwritten = || clients.iter().enumerate().map(|(n, client)| (n * 30_000, *client)).collect();
        assert!(holding(1_000_000).evict(LIMIT, unwritten()).is_empty());
        let evicted = holding(1_100_000).evict(LIMIT, unwritten());
        assert_eq!(evicted, [clients[9], clients[8]]);
        let everyone = holding(9_000_000).evict(LIMIT, unwritten());
        assert_eq!(everyone.len(), 9, "a client without output frees nothing");
    }

    #[test]
    fn largest_states_are_evicted_when_memory_is_short() {
        let now = std::time::Instant::now();
        let mut core = EdgeCore::new(Settings { max_memory_bytes: LIMIT, ..Settings::default() });
        let link = core.link_up(now, now);
        for number in 0..4 {
            let client = attach_client(&mut core, now, link, number);
            let session = &mut core.sessions[client];
            session.phase = SessionPhase::OPENED;
            session.state = Some(vec![0; if number == 0 { 3 } else { 400_000 }].into());
        }
        // The first sweep counts, the second one evicts.
        (0..2).for_each(|_| core.sweep(now));
        assert!(core.kept() >= 1_200_000);
        assert_eq!(core.counts().evicted, 2);
    }
}
