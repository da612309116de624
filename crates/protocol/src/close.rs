//! WebSocket close codes (RFC 6455 section 7.4), which edges send, and the SDK's reaction to each.

/// Close code of a socket. [`Self::advice`] has the client's reaction to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

/// Reaction of a client to a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Reconnect after a jittered backoff.
    ComeBack,
    /// Reconnect after at least 30 s.
    ComeBackLater,
    /// Do not reconnect: the result would be the same.
    StayAway,
}

impl CloseCode {
    /// The client ended its session. The edge answers with the same code.
    pub const NORMAL: Self = Self(1000);
    /// The server shuts down or drains.
    pub const GOING_AWAY: Self = Self(1001);
    /// A frame broke RFC 6455.
    pub const PROTOCOL: Self = Self(1002);
    /// The message is binary; only text is supported.
    pub const UNSUPPORTED: Self = Self(1003);
    /// The text is not UTF-8.
    pub const INVALID_TEXT: Self = Self(1007);
    /// The message has too many fragments or is incomplete after 10 s, or the client pings too
    /// often.
    pub const POLICY: Self = Self(1008);
    /// The message exceeds the size limit.
    pub const TOO_BIG: Self = Self(1009);
    /// A fault of the server. Edges send it to clients of dialects alone.
    pub const INTERNAL: Self = Self(1011);
    /// Placeholder for a close frame without a code. No frame contains it.
    pub const NO_CODE: Self = Self(1005);
    /// No node can take the client now, the server drains, or it lacks memory for the incomplete
    /// message of the client.
    pub const TRY_AGAIN: Self = Self(1013);
    /// The client leaves its socket and keeps its session.
    pub const SOCKET_LEFT: Self = Self(4001);
    /// The client reads too slowly, has much unread output or many seats while memory is short, or
    /// is reliable and sends no `received`.
    pub const TOO_SLOW: Self = Self(4002);
    /// The token has expired. The client reconnects with a new one.
    pub const TOKEN_EXPIRED: Self = Self(4003);
    /// No byte came from the client after a ping of its edge.
    pub const HEARTBEAT_MISSED: Self = Self(4004);
    /// Another node owns the client now (direct clients only).
    pub const REASSIGNED: Self = Self(4006);
    /// The client kept exceeding its rate limit.
    pub const RATE_ABUSE: Self = Self(4029);
    /// The request is invalid.
    pub const BAD_REQUEST: Self = Self(4400);
    /// The token is missing or invalid.
    pub const UNAUTHORIZED: Self = Self(4401);
    /// The page's origin or the token does not allow the request, or the `client_id` is reserved.
    pub const FORBIDDEN: Self = Self(4403);
    /// A responsive socket has the client id, or another new connection waits for it.
    pub const ID_IN_USE: Self = Self(4409);
    /// A newer connection took the client id.
    pub const REPLACED: Self = Self(4410);
    /// An operator closed the session.
    pub const KICKED: Self = Self(4411);

    /// Returns `true` if a native client that closes with this code ends its session; after all
    /// others the session can be resumed. A dialect's client ends its session by any code.
    pub const fn is_goodbye(self) -> bool {
        self.0 == Self::NORMAL.0
    }

    /// Returns the client's reaction to the code, [`Advice::ComeBack`] for an unknown one except
    /// 4400 to 4499.
    pub const fn advice(self) -> Advice {
        match self.0 {
            1000 | 1002 | 1003 | 1007 | 1009 | 4400..=4499 => Advice::StayAway,
            1008 => Advice::ComeBackLater,
            _ => Advice::ComeBack,
        }
    }

    /// Returns the close code that replaces the HTTP status of a refusal, which browsers hide.
    /// `None`: the status has no close code.
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            400 => Some(Self::BAD_REQUEST),
            401 => Some(Self::UNAUTHORIZED),
            403 => Some(Self::FORBIDDEN),
            409 => Some(Self::ID_IN_USE),
            503 => Some(Self::TRY_AGAIN),
            _ => None,
        }
    }
}
