//! Ends of connections, which `socket` and `Core` create, and the reaction of `Core` to each.

use signaling_protocol::CloseCode;
use signaling_protocol::close::Advice;

use crate::core::Ms;
use crate::rules::{MAX_HINT, MIN_POLICY_WAIT};

const UNAUTHORIZED: u16 = 401;
const TOO_MANY: u16 = 429;

/// Reason for the end of a connection, or for a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The server closed the socket, or the connection was lost.
    Closed {
        /// WebSocket close code; PROTOCOL.md lists the codes of the mesh. 1005: the close frame has
        /// no code. 1006: the socket ended without a close frame.
        code: u16,
        /// Text of the server; empty if it gave none.
        reason: String,
    },
    /// The server answered the upgrade with an HTTP status other than 101.
    Refused {
        /// HTTP status.
        status: u16,
        /// Body of the answer, cut after 200 characters; empty if it has none.
        reason: String,
    },
    /// The client itself dropped the connection or ended the attempt.
    Fault(Fault),
}

/// Reason for which the client itself dropped a connection or ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No connection to the address, no TLS, or no valid HTTP answer; also if the attempt took 4 s,
    /// or every fourth one 10 s.
    Unreachable,
    /// No `welcome` came within 10 s of the start of the attempt, which follows the token.
    NoWelcome,
    /// Nothing came within 5 s of a `ping`.
    Silent,
    /// The server broke the protocol, or its message exceeds 4 MiB.
    ProtocolError,
    /// The callback for tokens failed, or took more than 30 s.
    NoToken,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed { code, reason } if reason.is_empty() => write!(f, "closed with {code}"),
            Self::Closed { code, reason } => write!(f, "closed with {code}: {reason}"),
            Self::Refused { status, reason } if reason.is_empty() => write!(f, "refused with HTTP {status}"),
            Self::Refused { status, reason } => write!(f, "refused with HTTP {status}: {reason}"),
            Self::Fault(fault) => f.write_str(match fault {
                Fault::Unreachable => "no server answers at the address",
                Fault::NoWelcome => "no welcome came within 10 s",
                Fault::Silent => "the server does not answer pings",
                Fault::ProtocolError => "the server broke the protocol",
                Fault::NoToken => "the token source failed",
            }),
        }
    }
}

impl Ending {
    /// Returns `true` if the server rejected the token, so that another one may help.
    pub(crate) fn rejects_token(&self) -> bool {
        match self {
            Self::Closed { code, .. } => [CloseCode::UNAUTHORIZED.0, CloseCode::TOKEN_EXPIRED.0].contains(code),
            Self::Refused { status, .. } => *status == UNAUTHORIZED,
            Self::Fault(_) => false,
        }
    }

    /// Returns whether and when the client connects again, unless [`Self::rejects_token`] returns
    /// `true`. Then `Core` decides: it connects again if another token may help.
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Closed { code, .. } => CloseCode(*code).advice(),
            Self::Refused { status, .. } if *status == TOO_MANY || *status >= 500 => Advice::ComeBack,
            Self::Refused { .. } => Advice::StayAway,
            Self::Fault(_) => Advice::ComeBack,
        }
    }
}

/// Returns the wait before the next attempt, in milliseconds: the server's `hint`, at most 1 h.
/// Without a hint it is `max_wait` times `random`, a number from 0 to below 1, less the time
/// `waited` in a silent attempt. For [`Advice::ComeBackLater`], after a policy violation, it is at
/// least 30 s.
pub(crate) fn delay(max_wait: Ms, random: f64, waited: Ms, hint: Option<Ms>, advice: Advice) -> Ms {
    // `max_wait` is 30,000 at most, and `random` below 1.
    let backoff = ((max_wait as f64 * random) as Ms).saturating_sub(waited);
    let delay = hint.map_or(backoff, |hint| hint.min(MAX_HINT));
    if advice == Advice::ComeBackLater { delay.max(MIN_POLICY_WAIT) } else { delay }
}
