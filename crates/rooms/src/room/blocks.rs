//! Clients that an operator keeps out of a room for a while.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use signaling_protocol::ClientId;

/// Maximum blocked clients of a room.
const MAX_BLOCKS: usize = 1_000;
/// Bytes of a block beside the client's id.
const BLOCK_BYTES: usize = 60;

/// The blocked clients of a room.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Blocks {
    /// The end of each block, in ms of room time.
    until: BTreeMap<ClientId, i64>,
    bytes: usize,
}

pub(super) fn bytes_of_block(client: &ClientId) -> usize {
    BLOCK_BYTES + client.as_str().len()
}

impl Blocks {
    /// Returns the end of a client's block, in ms of room time. `None`: it is not blocked.
    pub(super) fn end(&self, client: &ClientId) -> Option<i64> {
        self.until.get(client).copied()
    }

    /// Blocks a client until this room time (ms), in place of its former block. Returns
    /// `false` if 1,000 others are blocked.
    pub(super) fn insert(&mut self, client: &ClientId, until: i64) -> bool {
        let is_new = !self.until.contains_key(client);
        if is_new && self.until.len() >= MAX_BLOCKS {
            return false;
        }
        self.bytes += if is_new { bytes_of_block(client) } else { 0 };
        self.until.insert(client.clone(), until);
        true
    }

    pub(super) fn remove(&mut self, client: &ClientId) {
        if self.until.remove(client).is_some() {
            self.bytes -= bytes_of_block(client);
        }
    }

    /// Ends the blocks until this room time (ms).
    pub(super) fn expire(&mut self, now: i64) {
        let Self { until, bytes } = self;
        until.retain(|client, until| {
            let stays = now < *until;
            *bytes -= if stays { 0 } else { bytes_of_block(client) };
            stays
        });
    }

    /// Returns the end of the last block, in ms of room time. `None`: there is none.
    pub(super) fn last_end(&self) -> Option<i64> {
        self.until.values().max().copied()
    }

    /// Returns the blocked clients, each with the end of its block in ms of room time.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ClientId, i64)> {
        self.until.iter().map(|(client, until)| (client, *until))
    }

    pub(super) fn len(&self) -> usize {
        self.until.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded_and_count_their_bytes() {
        let mut blocks = Blocks::default();
        let id = |n: usize| ClientId::new(&format!("client-{n:05}")).unwrap();
        let blocked = (0..1_002).filter(|n| blocks.insert(&id(*n), 5));
        assert_eq!(blocked.count(), MAX_BLOCKS);
        assert!(blocks.insert(&id(7), 9), "a known client is blocked for longer");
        assert_eq!(blocks.bytes(), MAX_BLOCKS * bytes_of_block(&id(0)));
        blocks.expire(5);
        assert_eq!((blocks.len(), blocks.last_end()), (1, Some(9)));
        blocks.remove(&id(7));
        assert_eq!((blocks.bytes(), blocks.last_end()), (0, None));
    }
}
