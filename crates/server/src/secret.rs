//! Secrets from files, which are never printed: the mesh secret and the admin token ([`Secret`]),
//! and the seed of the rendezvous hash ([`HashSeed`]). `config` and `secrets` parse them.

use std::fmt;

use ::http::HeaderValue;
use subtle::ConstantTimeEq;

/// Minimum length of a secret, in bytes.
pub const MIN_SECRET: usize = 16;
const SCHEME: &str = "Bearer ";

/// A shared secret of at least [`MIN_SECRET`] visible ASCII characters. Prints as `***`.
#[derive(Clone)]
pub struct Secret {
    /// `Bearer <secret>`, the only form that leaves the process.
    bearer: HeaderValue,
}

impl Secret {
    /// Creates a secret from a text, without surrounding white space.
    ///
    /// # Errors
    /// If the text is shorter than [`MIN_SECRET`], or has characters other than visible ASCII,
    /// which a header cannot carry. The error never quotes the text.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, String> {
        let text = text.as_ref().trim_ascii();
        if text.len() < MIN_SECRET {
            return Err(format!("must have at least {MIN_SECRET} bytes, has {}", text.len()));
        }
        let not_visible = || "must have only visible ASCII characters, without spaces inside".to_owned();
        if !text.iter().all(u8::is_ascii_graphic) {
            return Err(not_visible());
        }
        let bearer = [SCHEME.as_bytes(), text].concat();
        let mut bearer = HeaderValue::from_bytes(&bearer).map_err(|_| not_visible())?;
        bearer.set_sensitive(true);
        Ok(Self { bearer })
    }

    /// Returns `true` if `candidate` is this secret, for equal lengths in constant time.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.as_bytes().ct_eq(candidate).into()
    }

    /// Returns the secret itself, for use as a key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bearer.as_bytes()[SCHEME.len()..]
    }

    /// Returns the value of an `Authorization` header: `Bearer <secret>`, marked as sensitive.
    pub fn bearer(&self) -> HeaderValue {
        self.bearer.clone()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

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

    const TEXT: &str = "0123456789abcdef";

    #[test]
    fn secret_is_trimmed_and_matches_only_itself() {
        let secret = Secret::new(format!(" {TEXT}\r\n")).unwrap();
        assert_eq!(secret.as_bytes(), TEXT.as_bytes());
        assert!(secret.matches(TEXT.as_bytes()));
        for other in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0"] {
            assert!(!secret.matches(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn secret_is_never_printed() {
        let secret = Secret::new(TEXT).unwrap();
        assert_eq!(format!("{secret:?} {:?}", secret.bearer()), "*** Sensitive");
        assert_eq!(format!("{:?}", HashSeed(7)), "***");
    }

    #[test]
    fn secret_that_is_short_or_unsendable_is_refused() {
        assert_eq!(Secret::new("0123456789abcde ").unwrap_err(), "must have at least 16 bytes, has 15");
        for bad in ["0123456789 abcdef", "0123456789\nabcdef", "0123456789abcdeä"] {
            assert!(Secret::new(bad).unwrap_err().contains("visible ASCII"), "{bad:?}");
        }
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
