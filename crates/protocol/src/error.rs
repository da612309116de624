//! Error codes of failed requests, which edges and nodes send.

use serde::{Deserialize, Serialize};

/// The `code` of an `error` message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is not JSON, has an unknown type, or a field is missing or invalid.
    BadMessage,
    /// The `data` of a `join` exceeds 4 KiB, or with that of the client's other rooms 64 KiB.
    TooLarge,
    /// A rate limit is exceeded. The request had no effect.
    RateLimited,
    /// Delivery is not confirmed and no longer tried, or too many messages to the absent recipient
    /// are pending. The message may have arrived.
    RecipientUnavailable,
    /// The sender is not a member of the room.
    NotInRoom,
    /// Rooms cannot be read or changed now, or the store may lack members of this room. A failed
    /// `leave` may still be carried out. Also for a signal that needs a common room.
    RoomStoreUnavailable,
    /// The token or the operator does not allow the request, a name is reserved, a new token was
    /// refused, or tokens are not in use.
    Forbidden,
    /// A `join` has no room: the client has its maximum of seats, or the waiting queue is full.
    Overloaded,
    /// A fault of the mesh. Reserved: no server sends it.
    Internal,
}

impl ErrorCode {
    /// All codes in order of declaration.
    pub const ALL: [Self; 9] = [
        Self::BadMessage,
        Self::TooLarge,
        Self::RateLimited,
        Self::RecipientUnavailable,
        Self::NotInRoom,
        Self::RoomStoreUnavailable,
        Self::Forbidden,
        Self::Overloaded,
        Self::Internal,
    ];

    /// Returns the code's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadMessage => "bad_message",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate_limited",
            Self::RecipientUnavailable => "recipient_unavailable",
            Self::NotInRoom => "not_in_room",
            Self::RoomStoreUnavailable => "room_store_unavailable",
            Self::Forbidden => "forbidden",
            Self::Overloaded => "overloaded",
            Self::Internal => "internal",
        }
    }
}
