//! Names of clients, rooms and nodes. A value of these types is valid: it was checked.

/// Maximum length of a client id or room name, in bytes.
pub const MAX_NAME: usize = 128;
/// Maximum length of a node id, in bytes: that of a Kubernetes pod name.
pub const MAX_NODE_ID: usize = 253;

/// Reason why a text is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text has no characters.
    #[error("must not be empty")]
    Empty,
    /// The text is longer than the limit.
    #[error("must have at most {max} characters, has {len}")]
    TooLong {
        /// Actual length in bytes.
        len: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The text has a character outside `A-Z a-z 0-9 . _ ~ : @ -`.
    #[error("may have only A-Z a-z 0-9 . _ ~ : @ - (byte {at} is another)")]
    Alphabet {
        /// Position of the first such byte, from 0.
        at: usize,
    },
}

const fn in_alphabet(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b':' | b'@' | b'-')
}

fn check(text: &str, max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > max {
        return Err(NameError::TooLong { len: text.len(), max });
    }
    match text.bytes().position(|byte| !in_alphabet(byte)) {
        Some(at) => Err(NameError::Alphabet { at }),
        None => Ok(()),
    }
}

/// Checks that `text` is a valid client id or room name.
///
/// # Errors
/// If the text is empty, too long, or has a character outside the alphabet.
pub fn check_name(text: &str) -> Result<(), NameError> {
    check(text, MAX_NAME)
}

fn check_node_id(text: &str) -> Result<(), NameError> {
    check(text, MAX_NODE_ID)
}

/// Returns `true` if native clients may not use the name, because it begins with `~`.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('~')
}

/// Defines types of valid texts, each with the function that checks a text and its error. The crate
/// that calls it depends on serde.
#[macro_export]
macro_rules! checked_texts {
    ($($(#[$doc:meta])* $type:ident, $check:ident, $error:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(::std::sync::Arc<str>);

        impl $type {
            /// Checks and stores a text.
            ///
            /// # Errors
            /// If the text is not valid.
            pub fn new(text: &str) -> Result<Self, $error> {
                $check(text)?;
                Ok(Self(text.into()))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                Self::new(&text)
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.0.as_ref().into()
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl ::std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

checked_texts! {
    /// A WebRTC peer: 1 to 128 characters of `A-Z a-z 0-9 . _ ~ : @ -`.
    ClientId, check_name, NameError;
    /// A room of clients: 1 to 128 characters of `A-Z a-z 0-9 . _ ~ : @ -`.
    RoomName, check_name, NameError;
    /// A node's stable name, such as its pod's: 1 to 253 characters of `A-Z a-z 0-9 . _ ~ : @ -`.
    NodeId, check_node_id, NameError;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_takes_the_whole_alphabet_only() {
        assert!(ClientId::new("AZaz09._~:@-").is_ok());
        for bad in ["a b", "a/b", "ä", "a\n", "a%20"] {
            assert!(matches!(ClientId::new(bad), Err(NameError::Alphabet { .. })), "{bad:?}");
        }
    }

    #[test]
    fn name_is_reserved_if_it_begins_with_a_tilde() {
        assert!(is_reserved("~") && is_reserved("~pj:k:a"));
        assert!(!is_reserved("") && !is_reserved("a~") && !is_reserved(":~a"));
    }

    #[test]
    fn name_has_length_limits() {
        assert_eq!(ClientId::new(""), Err(NameError::Empty));
        assert!(ClientId::new(&"a".repeat(128)).is_ok());
        assert_eq!(ClientId::new(&"a".repeat(129)), Err(NameError::TooLong { len: 129, max: 128 }));
        assert!(NodeId::new(&"a".repeat(253)).is_ok());
        assert!(NodeId::new(&"a".repeat(254)).is_err());
    }
}
