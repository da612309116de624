//! Seats of sessions in handoffs, resumes and lingering sessions, and changes of rooms. The
//! node's core writes and reads them.
//!
//! The state of a session, opaque to edges, is one word and, if it has any, its seats and
//! delivered ids.

use bincode::{BorrowDecode, Encode};

use crate::codec::{self, DecodeError};

/// State of an admitted session.
const ADMITTED: &[u8] = b"admitted";
/// State of a resumed session.
const RESUMED: &[u8] = b"resumed";

/// A client's seat in a room, and the state of the room that the client has received. A seat has
/// this form between nodes, with its session or after a lingering session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct SeatState<'a> {
    /// Name of the room.
    pub room: &'a str,
    /// `true`: the client is a member. `false`: it is in the waiting queue.
    pub member: bool,
    /// Number that orders the seats of the room: a client that joined earlier has a lower one.
    pub place: u64,
    /// Message number of the command that made the seat, or of a later one about the room.
    pub number: u64,
    /// Incarnation and epoch of the room that confirmed the seat last. 0: none.
    pub confirmed_in: (u64, u64),
    /// Incarnation of the room state that the client has received. 0: none.
    pub incarnation: u64,
    /// Version of the room state that the client has received. 0: none.
    pub version: u64,
    /// Epoch of the room that its node followed then. 0: none. Two epochs may use one version for
    /// different changes.
    pub epoch: u64,
    /// Clients ahead in the waiting queue, as last sent to the client. `None`: not sent.
    pub ahead: Option<u64>,
    /// JSON for the other members. `None`: the client gave none.
    pub data: Option<&'a str>,
}

impl SeatState<'_> {
    /// Returns the highest number of a [`Counter`](crate::Counter) in it.
    pub fn highest_number(&self) -> u64 {
        let (incarnation, epoch) = self.confirmed_in;
        [self.place, incarnation, epoch, self.incarnation, self.epoch, self.version].into_iter().fold(0, u64::max)
    }
}

/// The state of a session for its next node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState<'a> {
    /// `true` if it continues an older socket's session.
    pub resumed: bool,
    /// One seat for each of its rooms.
    pub seats: Vec<SeatState<'a>>,
    /// First and last ids of its delivered signals, as in
    /// [`Lingering`](crate::forward::Item::Lingering).
    pub delivered: Vec<(u64, u64)>,
}

impl<'a> SessionState<'a> {
    /// Returns the state as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = if self.resumed { RESUMED } else { ADMITTED }.to_vec();
        if !self.seats.is_empty() || !self.delivered.is_empty() {
            codec::append(&mut bytes, &(&self.seats, &self.delivered));
        }
        bytes
    }

    /// Reads a state.
    ///
    /// # Errors
    /// If the bytes do not begin with a state. Bytes after it are ignored.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let words = [(ADMITTED, false), (RESUMED, true)];
        let known = words.iter().find_map(|&(word, resumed)| Some((bytes.strip_prefix(word)?, resumed)));
        let (mut rest, resumed) = known.ok_or_else(|| DecodeError::new("no state of a session"))?;
        let (seats, delivered) = if rest.is_empty() { Default::default() } else { codec::take(&mut rest)? };
        Ok(Self { resumed, seats, delivered })
    }
}

/// A change of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum RoomChange<'a> {
    /// A new member, or new data of a member.
    Joined {
        /// Id of the client.
        client_id: &'a str,
        /// JSON that the other members see. `None`: the client gave none.
        data: Option<&'a str>,
    },
    /// The member with this client id left, or its session ended by its own close or a kick.
    Left(&'a str),
    /// The seat of the member with this client id expired.
    Expired(&'a str),
    /// An operator removed the member with this client id.
    Removed(&'a str),
    /// An operator closed the room of the member with this client id.
    Closed(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_state_without_seats_is_a_word() {
        let bare = SessionState { resumed: true, ..SessionState::default() };
        assert_eq!(bare.to_bytes(), b"resumed");
    }

    #[test]
    fn bytes_without_a_word_or_with_broken_seats_are_no_state() {
        assert!(SessionState::read(b"else").is_err());
        assert!(SessionState::read(b"admitted\x09").is_err());
    }
}
