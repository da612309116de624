//! The first part of every key of a journal.

use std::str::FromStr;
use std::sync::Arc;

/// The first part of every key that a mesh writes to Redis, so that meshes can share a server: 1 to
/// 64 characters of `a-z A-Z 0-9 - _ .`, by default `sig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// Maximum length in bytes.
    const MAX_BYTES: usize = 64;

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("sig".into())
    }
}

/// A text that is no [`KeyPrefix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key prefix has 1 to 64 characters of a-z, A-Z, 0-9, `-`, `_` and `.`")]
pub struct InvalidKeyPrefix;

impl FromStr for KeyPrefix {
    type Err = InvalidKeyPrefix;

    /// Fails for an empty or longer text, or one with other characters.
    fn from_str(text: &str) -> Result<Self, InvalidKeyPrefix> {
        // A colon separates the parts of a key, and braces choose its slot in a cluster.
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(is_safe);
        is_valid.then(|| Self(text.into())).ok_or(InvalidKeyPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_refused_when_keys_could_collide() {
        for good in ["sig", "mesh-2_blue.eu", "A", &"x".repeat(64)] {
            assert_eq!(good.parse::<KeyPrefix>().as_ref().map(KeyPrefix::as_str), Ok(good));
        }
        for bad in ["", "a:b", "{a}", "a b", "a*", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(bad.parse::<KeyPrefix>(), Err(InvalidKeyPrefix), "{bad}");
        }
    }
}
