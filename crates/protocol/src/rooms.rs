//! Members of rooms, as in messages from nodes to clients.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A member of a room as the other members see it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Member<'a> {
    /// The member's client id.
    pub client_id: &'a str,
    /// JSON of the member's last `join` with data. `None`: it sent none.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// A former member.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Former<'a> {
    /// The former member's client id.
    pub client_id: &'a str,
    /// Reason for leaving.
    pub reason: LeftReason,
}

/// Reason why a client left a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftReason {
    /// The client sent `leave`, or its session ended by its own close or a kick.
    Left,
    /// Its seat was not claimed in time, the seat's time after the end of the session is over, or a
    /// `leave` that had failed was carried out late.
    Expired,
    /// The client's token does not admit the room any more.
    Forbidden,
    /// An operator removed the client.
    Removed,
    /// An operator closed the room.
    Closed,
}

impl LeftReason {
    /// Returns `true` if an operator ended the seat.
    pub const fn is_by_operator(self) -> bool {
        matches!(self, Self::Removed | Self::Closed)
    }
}
