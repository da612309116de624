//! The admin token, the bearer token of `/admin`. `config` reads it from its file.

use std::fmt;

use subtle::ConstantTimeEq as _;

const MIN_BYTES: usize = 16;

/// A token of at least 16 visible ASCII characters. Prints as `***`.
#[derive(Clone)]
pub struct AdminToken(Box<[u8]>);

impl AdminToken {
    /// Creates a token from a text, without surrounding white space.
    ///
    /// # Errors
    /// If the text is shorter than 16 bytes, or has characters other than visible ASCII, which a
    /// header cannot carry. The error never quotes the text.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, String> {
        let text = text.as_ref().trim_ascii();
        if text.len() < MIN_BYTES {
            return Err(format!("must have at least {MIN_BYTES} bytes, has {}", text.len()));
        }
        if !text.iter().all(u8::is_ascii_graphic) {
            return Err("must have only visible ASCII characters, without spaces inside".to_owned());
        }
        Ok(Self(text.into()))
    }

    /// Returns `true` if `candidate` is this token, for equal lengths in constant time.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.0.ct_eq(candidate).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef";

    #[test]
    fn token_is_trimmed_and_matches_only_itself() {
        let token = AdminToken::new(format!(" {TEXT}\r\n")).unwrap();
        assert!(token.matches(TEXT.as_bytes()));
        for other in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0"] {
            assert!(!token.matches(other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn token_is_never_printed() {
        assert_eq!(format!("{:?}", AdminToken::new(TEXT).unwrap()), "***");
    }

    #[test]
    fn token_that_is_short_or_unsendable_is_refused() {
        assert_eq!(AdminToken::new("0123456789abcde ").unwrap_err(), "must have at least 16 bytes, has 15");
        for bad in ["0123456789 abcdef", "0123456789\nabcdef", "0123456789abcdeä"] {
            assert!(AdminToken::new(bad).unwrap_err().contains("visible ASCII"), "{bad:?}");
        }
    }
}
