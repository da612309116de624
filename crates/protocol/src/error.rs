//! What the mesh answers when it cannot do what it was asked.

use std::fmt;

use serde::Serialize;

/// The `code` of an `error` message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Not JSON, an unknown type, a missing or wrong field.
    BadMessage,
    /// Over a size limit.
    TooLarge,
    /// Faster than allowed.
    RateLimited,
    /// Not known to have been delivered, and no longer tried.
    RecipientUnavailable,
    /// The sender is not in that room.
    NotInRoom,
    /// Rooms cannot be read or changed now.
    RoomStoreUnavailable,
    /// The token does not allow it.
    Forbidden,
    /// The mesh has no room for it now.
    Overloaded,
    /// A fault of the mesh.
    Internal,
}

impl ErrorCode {
    /// All of them, in the order of their declaration.
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

    /// As it stands on the wire.
    #[must_use]
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

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
