//! Error codes of failed requests, which edges and nodes send.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $name:literal;)+) => {
        /// The `code` of an `error` message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)+
        }

        impl ErrorCode {
            /// All codes in order of declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$code),+];

            /// Returns the code's name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }
        }
    };
}

codes! {
    /// The message is not JSON, has an unknown type, or a field is missing or invalid.
    BadMessage = "bad_message";
    /// The `data` of a `join` exceeds 4 KiB, or with that of the client's other rooms 64 KiB.
    TooLarge = "too_large";
    /// A rate limit is exceeded. The request had no effect.
    RateLimited = "rate_limited";
    /// Delivery is not confirmed and no longer tried, or too many messages to the absent recipient
    /// are pending. The message may have arrived.
    RecipientUnavailable = "recipient_unavailable";
    /// The sender is not a member of the room.
    NotInRoom = "not_in_room";
    /// Rooms cannot be read or changed now, or the owner may lack members of this room. A failed
    /// `leave` may still be carried out. Also for a signal that needs a common room.
    RoomUnavailable = "room_unavailable";
    /// The token or the operator does not allow the request, a name is reserved, a new token was
    /// refused, or tokens are not in use.
    Forbidden = "forbidden";
    /// A `join` has no room: the client has its maximum of seats, or the waiting queue is full.
    Overloaded = "overloaded";
}
