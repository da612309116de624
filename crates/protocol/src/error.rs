//! Error codes of failed requests.

use serde::{Deserialize, Serialize};

/// The `code` of an `error` message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is not JSON, has an unknown type, or a field is missing or invalid.
    BadMessage,
    /// A size limit is exceeded.
    TooLarge,
    /// A rate limit is exceeded.
    RateLimited,
    /// Delivery is not confirmed and no longer tried.
    RecipientUnavailable,
    /// The sender is not in that room.
    NotInRoom,
    /// The room store cannot be reached.
    RoomStoreUnavailable,
    /// The token does not allow the request.
    Forbidden,
    /// The mesh has no capacity for the request now.
    Overloaded,
    /// The mesh has an internal error.
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
