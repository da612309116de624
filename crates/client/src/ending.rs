//! Ends of connections, and the reaction to each.

use signaling_protocol::CloseCode;
use signaling_protocol::close::Advice;

use crate::core::Ms;
use crate::rules::{MAX_HINT, MIN_POLICY_WAIT};

const UNAUTHORIZED: u16 = 401;
const TOO_MANY: u16 = 429;

/// Reason for the end of a connection, or for a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The socket was closed with this code; 1006 if it ended without a close frame.
    Closed {
        /// WebSocket close code; PROTOCOL.md lists the codes of the mesh.
        code: u16,
        /// Reason from the server, for people.
        reason: String,
    },
    /// The server answered the upgrade with another HTTP status.
    Refused {
        /// HTTP status.
        status: u16,
        /// Reason from the server, for people.
        reason: String,
    },
    /// The client gave the connection up.
    Fault(Fault),
}

/// Reason for which the client itself gave up a connection or an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No server answered at the address.
    Unreachable,
    /// No `welcome` came within 10 s.
    NoWelcome,
    /// Nothing came within 5 s of a `ping`.
    Silent,
    /// The server broke the protocol.
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
    pub(crate) fn rejects_token(&self) -> bool {
        match self {
            Self::Closed { code, .. } => [CloseCode::UNAUTHORIZED.0, CloseCode::TOKEN_EXPIRED.0].contains(code),
            Self::Refused { status, .. } => *status == UNAUTHORIZED,
            Self::Fault(_) => false,
        }
    }

    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Closed { code, .. } => CloseCode(*code).advice(),
            Self::Refused { status, .. } if *status == TOO_MANY || *status >= 500 => Advice::ComeBack,
            Self::Refused { .. } => Advice::StayAway,
            Self::Fault(_) => Advice::ComeBack,
        }
    }
}

/// Returns the wait before the next attempt: the server's hint, else a random part of the window.
pub(crate) fn delay(window: Ms, random: f64, hint: Option<Ms>, advice: Advice) -> Ms {
    // The window is 30,000 at most, and `random` below 1.
    let delay = hint.map_or((window as f64 * random) as Ms, |hint| hint.min(MAX_HINT));
    if advice == Advice::ComeBackLater { delay.max(MIN_POLICY_WAIT) } else { delay }
}
