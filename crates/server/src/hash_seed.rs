//! The seed of the rendezvous hash. `config` reads it from its file.

use std::fmt;

use crate::root_key::RootKey;

/// Context of the seed. Another use of its file needs another context.
const CONTEXT: &str = "signaling hash seed v1";

/// Seed of the hash by which all servers choose the owner of a client or room, equal on all
/// servers. 0 means that the mesh sets none; else it is secret and prints as `***`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HashSeed(u64);

impl HashSeed {
    /// Parses a number from 1 to 2^64 - 1, decimal or hexadecimal after `0x`, without surrounding
    /// white space. From any other text, at least 32 bytes in hexadecimal or base64, the seed is
    /// derived.
    ///
    /// # Errors
    /// If the text has another form. The error names the command that makes a seed, and does not
    /// quote the text.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        match number(text) {
            Some(0) => Err("must not be 0; `mesh-ctl secret` makes a valid one".to_owned()),
            Some(number) => Ok(Self(number)),
            None => derived(text).map_err(|why| format!("is no number from 1 to 2^64 - 1, and {why}")),
        }
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == 0 { "0" } else { "***" })
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?.trim();
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

fn derived(text: &[u8]) -> Result<HashSeed, String> {
    let key = RootKey::parse(text)?.derive(CONTEXT)?;
    let seed = key.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    Ok(HashSeed(seed.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_is_never_printed() {
        assert_eq!(format!("{:?}", HashSeed(7)), "***");
    }

    #[test]
    fn seed_is_a_decimal_or_hexadecimal_number() {
        assert_eq!(HashSeed::parse(b" 42\n"), Ok(HashSeed(42)));
        assert_eq!(HashSeed::parse(b"0xffffffffffffffff"), Ok(HashSeed(u64::MAX)));
    }

    /// The value is of Python: HMAC-SHA256(HMAC-SHA256(32 zeros, secret), context + 1).
    #[test]
    fn seed_follows_from_a_secret_by_hkdf() {
        let hex = b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
        let base64 = b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        for secret in [&hex[..], base64] {
            assert_eq!(HashSeed::parse(secret), Ok(HashSeed(0x5c47_610a_21cc_fa74)));
        }
    }

    #[test]
    fn seed_that_is_weak_or_none_is_refused() {
        for bad in ["", "0", "0x0", "0x", "-1", "18446744073709551616", "ff", "1 2", "a passphrase"] {
            let refusal = HashSeed::parse(bad.as_bytes()).unwrap_err();
            assert!(refusal.contains("`mesh-ctl secret`"), "{bad:?}: {refusal}");
            assert!(bad.len() < 4 || !refusal.contains(bad), "{refusal}");
        }
    }
}
