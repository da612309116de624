//! UUIDs of version 4: ids of peers and of sessions.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{Dialect, name};

/// Number of hexadecimal digits in each group of the text.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Uuid([u8; 16]);

impl Uuid {
    /// Creates a UUID from random bytes.
    pub(super) fn new(random: [u8; 16]) -> Self {
        let mut bytes = random;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Creates the UUID of a number from a secret.
    pub(super) fn derived(secret: [u8; 16], number: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(secret);
        hash.update(number.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        Self::new(halves(&digest).0)
    }

    /// Parses the text of a UUID, as the server writes it: lower case, with dashes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut groups = text.split('-');
        let mut digits = String::with_capacity(32);
        for length in GROUPS {
            let group = groups.next().filter(|group| group.len() == length)?;
            let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            digits.push_str(group.bytes().all(is_lower_hex).then_some(group)?);
        }
        let number = groups.next().is_none().then(|| u128::from_str_radix(&digits, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }

    /// Returns the peer in a name of the mesh. `None`: the name is no `GStreamer` client's.
    pub(super) fn of_name(client_id: &str) -> Option<Self> {
        match &*name::parts(Dialect::GStreamer, client_id)? {
            [id] => Self::parse(id),
            _ => None,
        }
    }

    /// Returns the peer's name in the mesh.
    pub(super) fn to_name(self) -> String {
        name::internal(Dialect::GStreamer, &[&self.to_string()])
    }
}

/// Splits random bytes.
pub(super) fn halves(random: &[u8; 32]) -> ([u8; 16], [u8; 16]) {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    first.copy_from_slice(&random[..16]);
    second.copy_from_slice(&random[16..]);
    (first, second)
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", u128::from_be_bytes(self.0));
        let mut rest = &*digits;
        for (index, length) in GROUPS.into_iter().enumerate() {
            let (group, behind) = rest.split_at(length);
            rest = behind;
            write!(f, "{}{group}", if index == 0 { "" } else { "-" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_version_4_and_is_its_text() {
        let uuid = Uuid::new([255; 16]);
        assert_eq!(uuid.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::parse(&uuid.to_string()), Some(uuid));
        assert_eq!(uuid.to_name(), "~gs:ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::of_name(&uuid.to_name()), Some(uuid));
    }

    #[test]
    fn other_texts_are_no_uuids() {
        for text in [
            "",
            "nope",
            "FFFFFFFF-ffff-4fff-bfff-ffffffffffff",
            "ffffffffffff4fffbfffffffffffffff",
            "fffffff-fffff-4fff-bfff-ffffffffffff",
            "ffffffff-ffff-4fff-bfff-fffffffffff+",
            "ffffffff-ffff-4fff-bfff-ffffffffffff-",
        ] {
            assert_eq!(Uuid::parse(text), None, "{text}");
        }
        assert_eq!(Uuid::of_name("~rx:ffffffff-ffff-4fff-bfff-ffffffffffff"), None);
    }

    #[test]
    fn derived_uuids_differ_by_number_and_secret() {
        let of = |secret, number| Uuid::derived([secret; 16], number);
        assert!(of(0, 0) == of(0, 0) && of(0, 0) != of(0, 1) && of(0, 0) != of(1, 0));
    }
}
