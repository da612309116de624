//! The seed of the rendezvous hash. `config` reads it from its file.

use std::fmt;

/// Seed of the hash by which all servers choose the owner of a client or room, equal on all
/// servers. 0 means that the mesh sets none; else it is secret and prints as `***`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HashSeed(u64);

impl HashSeed {
    /// Parses a decimal number, or a hexadecimal one after `0x`. Ignores surrounding white space.
    ///
    /// # Errors
    /// If the text is no number below 2^64 in either form. The error does not quote it.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(text).unwrap_or_default().trim();
        let number = match text.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
            None => text.parse(),
        };
        number.map(Self).map_err(|_| "must hold a number below 2^64, decimal, or hexadecimal after 0x")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_is_never_printed() {
        assert_eq!(format!("{:?}", HashSeed(7)), "***");
    }

    #[test]
    fn hash_seed_is_decimal_or_hexadecimal() {
        assert_eq!(HashSeed::parse(b" 42\n"), Ok(HashSeed(42)));
        assert_eq!(HashSeed::parse(b"0xffffffffffffffff"), Ok(HashSeed(u64::MAX)));
        for bad in ["", "0x", "-1", "18446744073709551616", "ff", "1 2"] {
            assert!(HashSeed::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
