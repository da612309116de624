//! Ids of rxdb clients: 12 lower-case letters.

use crate::{Dialect, name};

const LETTERS: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerId([u8; LETTERS]);

impl PeerId {
    /// Creates an id from the first 24 random bytes.
    pub(super) fn random(random: &[u8; 32]) -> Self {
        let mut letters = [b'a'; LETTERS];
        for (letter, pair) in letters.iter_mut().zip(random.chunks_exact(2)) {
            // Two bytes for each letter, so that all are nearly equally likely.
            let number = pair.iter().fold(0, |number, byte| number << 8 | u16::from(*byte));
            *letter += u8::try_from(number % 26).unwrap_or_default();
        }
        Self(letters)
    }

    /// Parses an id. `None`: the text is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let letters: [u8; LETTERS] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_lowercase).then_some(Self(letters))
    }

    /// Returns the id in a name of the mesh. `None`: the name is no rxdb client's.
    pub(super) fn of_name(client_id: &str) -> Option<Self> {
        Self::parse(client_id.strip_prefix("~rx:")?)
    }

    /// Returns the name in the mesh.
    pub(super) fn to_name(self) -> String {
        name::internal(Dialect::Rxdb, &[self.as_str()])
    }

    pub(super) fn as_str(&self) -> &str {
        // Letters are ASCII.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_twelve_letters_of_random_bytes() {
        let mut random = [0; 32];
        random[1] = 25;
        random[3] = 26;
        random[22] = 1;
        assert_eq!(PeerId::random(&random).as_str(), "zaaaaaaaaaaw");
        assert_eq!(PeerId::of_name("~rx:zaaaaaaaaaaw"), Some(PeerId::random(&random)));
        assert_eq!(PeerId::random(&random).to_name(), "~rx:zaaaaaaaaaaw");
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in ["", "aaaaaaaaaaa", "aaaaaaaaaaaaa", "aaaaaaaaaaaA", "aaaaaaaaaa\u{e4}"] {
            assert_eq!(PeerId::parse(text), None, "{text}");
        }
        assert_eq!(PeerId::of_name("~yw:zaaaaaaaaaaw"), None);
    }
}
