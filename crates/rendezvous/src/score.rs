//! The score of one node for one key, for [`Ranking`](crate::Ranking).
//!
//! A score is XXH3_64 of the key's hash as 8 little-endian bytes, with the node's seed. For exactly
//! 8 bytes XXH3 has a short closed form, modulo 2^64:
//!
//! ```text
//! bitflip = SECRET - (seed ^ (byte-swapped low half of seed) << 32)
//! keyed   = rotl(key, 32) ^ bitflip
//! h       = keyed ^ rotl(keyed, 49) ^ rotl(keyed, 24)
//! h       = h * PRIME;  h = h ^ ((h >> 35) + 8);  h = h * PRIME;  h ^ (h >> 28)
//! ```
//!
//! The third line is linear over xor. So it is applied once per key and once per node instead of
//! once per pair. A pair then costs two multiplications and a few shifts.

use twox_hash::XxHash3_64;

/// Bytes 8 to 16 xor bytes 16 to 24 of XXH3's default secret.
const SECRET: u64 = 0xc73a_b174_c5ec_d5a2;
/// `PRIME_MX2` of XXH3.
const PRIME: u64 = 0x9fb2_1c65_1e98_df25;
/// Bytes hashed per score; XXH3 mixes the length in.
const LENGTH: u64 = 8;

/// Hash of a client id or any other key. It depends neither on the nodes nor on the mesh's hash
/// seed, so it stays valid when the set of nodes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Hashes the key's UTF-8 bytes.
    pub fn of(key: &str) -> Self {
        Self(XxHash3_64::oneshot(key.as_bytes()))
    }

    /// Returns the hash as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the key prepared for [`NodeSeed::score`].
    pub(crate) const fn mixed(self) -> MixedKey {
        MixedKey(mix(self.0.rotate_left(32)))
    }
}

/// A node's part of every score, computed once for each [`Ranking`](crate::Ranking).
///
/// It has no debug output: with the seed of a known node id, guesses of a secret hash seed could be
/// checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeSeed {
    mixed_bitflip: u64,
}

impl NodeSeed {
    /// Hashes the node id's UTF-8 bytes with the mesh's `hash_seed` (0 where the mesh sets none).
    pub(crate) fn of(node_id: &str, hash_seed: u64) -> Self {
        Self::from_seed(XxHash3_64::oneshot_with_seed(hash_seed, node_id.as_bytes()))
    }

    const fn from_seed(seed: u64) -> Self {
        let low_half = seed as u32;
        let spread = seed ^ ((low_half.swap_bytes() as u64) << 32);
        Self { mixed_bitflip: mix(SECRET.wrapping_sub(spread)) }
    }

    /// Returns the score of this node for a key. The node with the highest score owns the key; on a
    /// tie, the one with the smaller id.
    #[inline(always)]
    pub(crate) const fn score(self, key: MixedKey) -> u64 {
        let h = (key.0 ^ self.mixed_bitflip).wrapping_mul(PRIME);
        let h = (h ^ (h >> 35).wrapping_add(LENGTH)).wrapping_mul(PRIME);
        h ^ (h >> 28)
    }
}

/// A key prepared for scoring against many nodes.
#[derive(Clone, Copy)]
pub(crate) struct MixedKey(u64);

const fn mix(x: u64) -> u64 {
    x ^ x.rotate_left(49) ^ x.rotate_left(24)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score(key: u64, seed: u64) -> u64 {
        NodeSeed::from_seed(seed).score(KeyHash(key).mixed())
    }

    fn reference(key: u64, seed: u64) -> u64 {
        XxHash3_64::oneshot_with_seed(seed, &key.to_le_bytes())
    }

    #[test]
    fn closed_form_equals_xxh3_at_edge_values() {
        let edges = [0, 1, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, 1 << 63, u64::MAX - 1, u64::MAX, SECRET, PRIME];
        for key in edges {
            for seed in edges {
                assert_eq!(score(key, seed), reference(key, seed), "{key:x} {seed:x}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn closed_form_equals_xxh3_for_any_key_and_seed(key: u64, seed: u64) {
            prop_assert_eq!(score(key, seed), reference(key, seed));
        }
    }
}
