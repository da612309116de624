//! What all clients together may have the edge keep, so that no crowd can take more memory than the edge was given.
//!
//! What is kept is counted anew at each sweep and added to in between, so it is never more than is counted. Past half of the
//! bound every client is left little that is unanswered: who sends is read more slowly, and loses nothing. Past the bound those who
//! do not read what they are sent lose their sockets, the greatest first.

use super::ClientKey;
use super::session::Session;
use super::store::StoreLimits;

/// How much may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes, of all clients: messages without a fate, output that is not written, what is remembered of senders.
    pub bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { bytes: usize::MAX }
    }
}

/// What a frame in custody, or a message that waits for its receipt, takes beside its bytes.
pub(super) const ENTRY_BYTES: usize = 64;
/// What is remembered of a sender that writes little, its place in tables included.
pub const SENDER_BYTES: usize = 160;
/// Who has less unwritten is never closed for it.
const LEAST_EVICTED: usize = 4 * 1024;
/// What one client may leave unanswered while memory is short: enough for a call that is being set up.
const STRAINED: StoreLimits = StoreLimits { frames: 32, bytes: 16 * 1024, span: u64::MAX };

/// How much is kept.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// At the last sweep.
    counted: usize,
    /// Come since.
    grown: usize,
}

impl Memory {
    pub(super) fn grow(&mut self, bytes: usize) {
        self.grown += bytes + ENTRY_BYTES;
    }

    /// The same of what has no entry of its own.
    pub(super) fn grow_by(&mut self, bytes: usize) {
        self.grown += bytes;
    }

    /// Returns `true` if no further senders may be remembered. They cannot be evicted: so they never
    /// take all, and an eviction always has something to free.
    pub(super) fn is_scarce(&self, limits: MemoryLimits) -> bool {
        self.total() > limits.bytes / 4 * 3
    }

    /// Returns `true` if no more may be kept.
    pub(super) fn is_short(&self, limits: MemoryLimits) -> bool {
        self.total() > limits.bytes
    }

    pub(super) fn set(&mut self, counted: usize) {
        *self = Self { counted, grown: 0 };
    }

    pub(super) fn total(&self) -> usize {
        self.counted.saturating_add(self.grown)
    }

    /// What one client may leave unanswered now.
    pub(super) fn store_limits(&self, limits: MemoryLimits, usual: StoreLimits) -> StoreLimits {
        if self.total() <= limits.bytes / 2 {
            return usual;
        }
        StoreLimits {
            frames: usual.frames.min(STRAINED.frames),
            bytes: usual.bytes.min(STRAINED.bytes),
            span: usual.span,
        }
    }

    /// Whose sockets must go so that a quarter is free again. `unwritten` says how much of it waits for each client.
    pub(super) fn evict(&self, limits: MemoryLimits, mut unwritten: Vec<(usize, ClientKey)>) -> Vec<ClientKey> {
        if !self.is_short(limits) {
            return Vec::new();
        }
        let mut surplus = self.total() - limits.bytes / 4 * 3;
        unwritten.retain(|(bytes, _)| *bytes >= LEAST_EVICTED);
        unwritten.sort_unstable_by(|a, b| b.cmp(a));
        let mut evicted = Vec::new();
        for (bytes, client) in unwritten {
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
    /// Bytes that are kept for this client.
    pub(super) fn kept(&self) -> usize {
        let receipts = self.receipts.as_ref().map_or(0, |receipts| receipts.unsaid());
        self.store.bytes()
            + self.store.len() * ENTRY_BYTES
            + self.output.capacity()
            + self.filter.bytes()
            + receipts * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    const LIMITS: MemoryLimits = MemoryLimits { bytes: 1_000_000 };

    fn holding(bytes: usize) -> Memory {
        Memory { counted: bytes, grown: 0 }
    }

    #[test]
    fn past_half_of_it_clients_are_read_more_slowly() {
        let usual = StoreLimits::default();
        let frames = |bytes| holding(bytes).store_limits(LIMITS, usual).frames;
        assert_eq!((frames(500_000), frames(500_001)), (usual.frames, 32));
        let mut memory = holding(499_000);
        memory.grow(1_000);
        assert_eq!(memory.store_limits(LIMITS, usual).frames, 32, "what has come since the sweep counts");
    }

    #[test]
    fn past_all_of_it_the_greatest_go_until_a_quarter_is_free() {
        let mut keys = SlotMap::<ClientKey, ()>::with_key();
        let clients: Vec<_> = (0..10).map(|_| keys.insert(())).collect();
        let unwritten = || clients.iter().enumerate().map(|(n, client)| (n * 30_000, *client)).collect();
        assert!(holding(1_000_000).evict(LIMITS, unwritten()).is_empty());
        let evicted = holding(1_100_000).evict(LIMITS, unwritten());
        assert_eq!(evicted, [clients[9], clients[8]]);
        let everyone = holding(9_000_000).evict(LIMITS, unwritten());
        assert_eq!(everyone.len(), 9, "who has nothing unwritten frees nothing");
    }
}
