//! The grant of a client's token. An edge verifies the token once, and sends the grant in
//! [`Attach`](crate::trunk::Attach). A node relies on it.

use bincode::{Decode, Encode};

use crate::codec::{self, DecodeError};

/// Maximum patterns of a grant. Edges refuse a token with more; [`Grant::read`] does not check it.
pub const MAX_PATTERNS: usize = 256;

/// Characters of a token's subject in a grant: the most that OpenID Connect allows.
pub const MAX_SUBJECT: usize = 255;

/// Recipients that a client may signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum SignalScope {
    /// All clients.
    #[default]
    Any,
    /// Members of its rooms, and itself.
    Room,
}

/// Rooms that a client may join.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RoomPattern {
    /// Room name in which each `*` stands for any characters, or none.
    pub pattern: String,
    /// Capacity that the room gets when the client joins it (0: no limit). `None`: the room's
    /// capacity stays. It also stays if the client has a seat there already, and in a room whose
    /// name begins with `~`.
    pub capacity: Option<u32>,
}

/// The rights of a client, and the budget of its new rooms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Grant {
    /// Rooms that it may join, by the first pattern that fits. `None` for all; empty for none.
    pub rooms: Option<Vec<RoomPattern>>,
    /// Recipients of its signals; `None` for the node's setting.
    pub signal: Option<SignalScope>,
    /// Subject of the token, whose clients share a budget of new rooms. At most [`MAX_SUBJECT`]
    /// characters: longer ones that begin equally share it too. `None`: the token has none.
    pub subject: Option<String>,
    /// New rooms per second, from its rate class (0: no limit). `None` for the node's setting.
    pub new_rooms: Option<u32>,
}

impl Grant {
    /// Returns the bytes for trunk frames.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::append(&mut bytes, self);
        bytes
    }

    /// Reads a grant.
    ///
    /// # Errors
    /// If the bytes are no grant, or if others follow it.
    pub fn read(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let grant = codec::take(&mut bytes)?;
        if bytes.is_empty() { Ok(grant) } else { Err(DecodeError::new("more than a grant")) }
    }

    /// Returns the [`RoomPattern::capacity`] of the first pattern that fits the room. `Some(None)`:
    /// it has none, or all rooms are allowed. `None`: the client may not join the room.
    pub fn admits(&self, room: &str) -> Option<Option<u32>> {
        let Some(rooms) = &self.rooms else { return Some(None) };
        rooms.iter().find(|one| fits(&one.pattern, room)).map(|one| one.capacity)
    }
}

/// Returns `true` if `name` fits `pattern`. The search returns to the last `*` alone, so its steps
/// are at most the product of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == name[read] => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, read) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(patterns: &[(&str, Option<u32>)]) -> Grant {
        let pattern = |&(pattern, capacity): &(&str, Option<u32>)| RoomPattern { pattern: pattern.into(), capacity };
        let rooms = Some(patterns.iter().map(pattern).collect());
        Grant { rooms, signal: Some(SignalScope::Room), subject: Some("alice".into()), new_rooms: Some(20) }
    }

    #[test]
    fn star_stands_for_any_characters_or_none() {
        for (pattern, name, whether) in [
            ("team", "team", true),
            ("team", "team-1", false),
            ("team", "a-team", false),
            ("team-*", "team-", true),
            ("team-*", "team-1-2", true),
            ("team-*", "team", false),
            ("*", "anything", true),
            ("*-a-*", "x-a-b-a-c", true),
            ("*-a", "x-a-b-a", true),
            ("*-a", "x-a-b", false),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "abcb", false),
            ("**", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, name), whether, "{pattern} {name}");
        }
    }

    #[test]
    fn first_matching_pattern_sets_the_capacity() {
        let grant = grant(&[("team-1", Some(2)), ("team-*", None), ("big", Some(0))]);
        assert_eq!(grant.admits("team-1"), Some(Some(2)));
        assert_eq!(grant.admits("team-2"), Some(None));
        assert_eq!(grant.admits("big"), Some(Some(0)));
        assert_eq!(grant.admits("other"), None);
        assert_eq!(Grant::default().admits("other"), Some(None), "a token that names no rooms lets into all");
        assert_eq!(self::grant(&[]).admits("other"), None, "one with an empty list into none");
    }

    #[test]
    fn grant_comes_back_as_it_was_and_nothing_else_does() {
        let grant = grant(&[("team-*", Some(8)), ("x", None)]);
        let bytes = grant.to_bytes();
        assert_eq!(Grant::read(&bytes).unwrap(), grant);
        assert!(Grant::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(Grant::read(&[&bytes[..], b"x"].concat()).is_err());
    }
}
