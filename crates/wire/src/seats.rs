//! What nodes tell each other of rooms: the seats of a session that moves, and what has changed in a room.
//!
//! A session's state, which edges carry from node to node unread, is one word and, if it has any, its seats.

use bincode::{BorrowDecode, Encode};

use crate::codec::{self, DecodeError};

/// The state of a session that was admitted.
const ADMITTED: &[u8] = b"admitted";
/// The same of one that goes on with what another socket began.
const RESUMED: &[u8] = b"resumed";

/// A session's place in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Seat<'a> {
    /// The room.
    pub room: &'a str,
    /// Whether it is a member, or waits.
    pub member: bool,
    /// Rises with the time at which it got there.
    pub place: u64,
    /// Number of the session's last command that concerned it.
    pub number: u64,
    /// The room's incarnation that the client was told of.
    pub incarnation: u64,
    /// And its version.
    pub version: u64,
    /// How many it was told to be in front of it, if it waits.
    pub ahead: Option<u64>,
    /// What the others are shown.
    pub data: Option<&'a str>,
}

/// What a node must know of a session that comes from another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState<'a> {
    /// It goes on with what another socket began.
    pub resumed: bool,
    /// Its places in rooms.
    pub seats: Vec<Seat<'a>>,
}

impl<'a> SessionState<'a> {
    /// The state as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = if self.resumed { RESUMED } else { ADMITTED }.to_vec();
        if !self.seats.is_empty() {
            codec::append(&mut bytes, &self.seats);
        }
        bytes
    }

    /// Reads a state.
    ///
    /// # Errors
    /// If the bytes are no state.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let words = [(ADMITTED, false), (RESUMED, true)];
        let known = words.iter().find_map(|&(word, resumed)| Some((bytes.strip_prefix(word)?, resumed)));
        let (mut rest, resumed) = known.ok_or_else(|| DecodeError::new("no state of a session"))?;
        let seats = if rest.is_empty() { Vec::new() } else { codec::take(&mut rest)? };
        Ok(Self { resumed, seats })
    }
}

/// A change in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub enum RoomChange<'a> {
    /// A new member, or one that shows something else.
    Joined {
        /// Who.
        client_id: &'a str,
        /// JSON that the others are shown.
        data: Option<&'a str>,
    },
    /// A member less: it asked to.
    Left {
        /// Who.
        client_id: &'a str,
    },
    /// A member less: nothing was heard of it any more.
    Expired {
        /// Who.
        client_id: &'a str,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_state_without_seats_is_a_word_and_one_with_seats_comes_back_as_it_was() {
        let bare = SessionState { resumed: true, seats: Vec::new() };
        assert_eq!(bare.to_bytes(), b"resumed");
        let seat = Seat {
            room: "r",
            member: true,
            place: 1,
            number: 2,
            incarnation: 4,
            version: 3,
            ahead: None,
            data: Some("{}"),
        };
        let state = SessionState {
            resumed: false,
            seats: vec![seat, Seat { data: None, member: false, ahead: Some(4), ..seat }],
        };
        for state in [bare, state] {
            assert_eq!(SessionState::read(&state.to_bytes()).unwrap(), state);
        }
        assert!(SessionState::read(b"else").is_err());
        assert!(SessionState::read(b"admitted\x09").is_err());
    }
}
