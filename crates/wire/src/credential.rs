//! The credential by which a dialect's client, which has no resume token, shows that a session is
//! its own. Edges make it, and nodes compare it.

use std::fmt;

use bincode::{Decode, Encode};
use subtle::ConstantTimeEq as _;

/// A hash of a client's secret, made by its edge. The time of a comparison does not depend on the
/// content.
#[derive(Clone, Copy, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Credential(pub [u8; 32]);

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Credential {}

impl fmt::Debug for Credential {
    /// Shows no part of the hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_equals_only_itself_and_is_not_shown() {
        let (one, mut other) = (Credential([7; 32]), Credential([7; 32]));
        assert_eq!(one, other);
        other.0[31] = 8;
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "***");
    }
}
