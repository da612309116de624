//! Whom a session writes to.

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;

use super::ChainKey;

/// A session's chains, by recipient. A list does: the edge keeps 256 frames of a session, and most clients write to one or
/// two others at a time.
#[derive(Debug, Default)]
pub(super) struct Recipients(Vec<Recipient>);

#[derive(Debug)]
struct Recipient {
    key: KeyHash,
    id: ClientId,
    chain: ChainKey,
}

impl Recipients {
    /// The chain to a client, whose id has this hash.
    pub(super) fn get(&self, key: KeyHash, id: &str) -> Option<ChainKey> {
        self.0.iter().find(|it| it.key == key && it.id.as_str() == id).map(|it| it.chain)
    }

    /// Adds the chain to a client that has none.
    pub(super) fn insert(&mut self, key: KeyHash, id: ClientId, chain: ChainKey) {
        self.0.push(Recipient { key, id, chain });
    }

    /// Removes a chain, if it is among them.
    pub(super) fn remove(&mut self, chain: ChainKey) {
        if let Some(at) = self.0.iter().position(|it| it.chain == chain) {
            self.0.swap_remove(at);
        }
    }

    /// Takes all chains.
    pub(super) fn take(&mut self) -> Vec<ChainKey> {
        std::mem::take(&mut self.0).into_iter().map(|it| it.chain).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
