//! UUIDs of clients.

use std::fmt;

/// A UUID (RFC 9562).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uuid([u8; 16]);

impl Uuid {
    /// Creates a `UUIDv4` from random bytes.
    pub(crate) fn random(random: &[u8; 32]) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&random[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Parses a UUID as Rust's crate `uuid` does: in any case, with or without hyphens, in braces,
    /// or behind `urn:uuid:`. `None`: the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let in_braces = || text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let text = text.strip_prefix("urn:uuid:").or_else(in_braces).unwrap_or(text);
        let mut digits = text.as_bytes();
        let joined: Vec<u8>;
        if digits.len() == 36 {
            let is_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
            if !(0..36).all(|at| is_hyphen(at) == (digits[at] == b'-')) {
                return None;
            }
            joined = digits.iter().copied().filter(|digit| *digit != b'-').collect();
            digits = &joined;
        }
        let digits: &[u8; 32] = digits.try_into().ok()?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                *byte = *byte << 4 | u8::try_from(char::from(*digit).to_digit(16)?).ok()?;
            }
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Uuid {
    /// Writes lower-case digits with hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_uuid_has_version_and_variant() {
        assert_eq!(Uuid::random(&[0xff; 32]).to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(Uuid::random(&[0; 32]).to_string(), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn uuid_is_parsed_in_all_forms() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        for other in [
            text,
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "00112233445566778899aabbccddeeff",
            "{00112233-4455-6677-8899-aabbccddeeff}",
            "urn:uuid:00112233-4455-6677-8899-aabbccddeeff",
        ] {
            assert_eq!(Uuid::parse(other).unwrap().to_string(), text, "{other}");
        }
    }

    #[test]
    fn other_texts_are_no_uuids() {
        for text in [
            "",
            "bob",
            "00112233445566778899aabbccddeef",
            "0011223344556677-8899-aabb-ccddeeff00",
            "00112233-4455-6677-8899-aabbccddeefg",
            "-0112233-4455-6677-8899-aabbccddeeff",
            "{00112233-4455-6677-8899-aabbccddeeff",
            "0011223344556677889\u{e4}aabbccddeeff",
        ] {
            assert_eq!(Uuid::parse(text), None, "{text}");
        }
    }
}
