//! Owner of a key: rendezvous hashing (highest random weight) over a set of nodes.
//!
//! Servers with the same nodes compute the same owner without communication. When a node leaves,
//! only its own keys move. When one joins, it takes its share and no key moves between the others.
//!
//! ```text
//! key_hash  = XXH3_64(utf8(key))
//! node_seed = XXH3_64(utf8(node_id), seed = hash_seed)
//! score     = XXH3_64(key_hash as 8 little-endian bytes, seed = node_seed)
//! ```
//!
//! The largest score wins; on a tie the bytewise smaller node id wins. The formulas are a wire
//! contract: servers of different releases must agree. `tests/data` pins them with results of
//! another implementation.
//!
//! This crate does no I/O and has no health data: the caller selects eligible nodes
//! ([`Ranking::owner_where`]).
//!
//! ```
//! use signaling_rendezvous::{KeyHash, Ranking};
//!
//! let nodes = Ranking::new(0, ["node-a", "node-b", "node-c"]);
//! let alice = KeyHash::of("alice");
//! let candidates = nodes.candidates(alice);
//!
//! assert_eq!(nodes.owner(alice), Some(candidates[0]));
//! assert_eq!(nodes.owner_where(alice, |index| index != candidates[0]), Some(candidates[1]));
//! ```

mod ranking;
mod score;

pub use ranking::Ranking;
pub use score::KeyHash;
