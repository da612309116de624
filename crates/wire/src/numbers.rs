//! Numbers of frames and messages. Each has a type of its own, so that none is used for another.
//! `docs/CUSTODY.md` has the table of their scopes.

use std::fmt;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

macro_rules! numbers {
    ($($(#[$doc:meta])* $type:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
        #[cfg_attr(test, derive(arbitrary::Arbitrary))]
        pub struct $type(pub u64);

        impl $type {
            /// Returns the number `steps` later, at most `u64::MAX`.
            #[must_use]
            #[inline]
            pub fn plus(self, steps: u64) -> Self {
                Self(self.0.saturating_add(steps))
            }

            /// Returns `count` consecutive numbers, this one first.
            #[inline]
            pub fn run(self, count: u32) -> impl Iterator<Item = Self> {
                (0..u64::from(count)).map(move |steps| self.plus(steps))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )+};
}

numbers! {
    /// Number of an uplink frame in its session, from 1 on. The sender's edge assigns it. A resume
    /// leaves a gap. 0: no frame.
    Seq;
    /// Number of a downlink frame in one attachment of a session, from 1 on, assigned by the node.
    DownSeq;
    /// Number of a message in its sender's session: its `id` if the client is reliable and gave
    /// one, else the frame's [`Seq`]. As a predecessor, 0 means that there is none.
    MessageNumber;
    /// Number of a batch to any peer, rising in one incarnation of the sending node, from 1 on.
    BatchNumber;
    /// Number of an exchange over all lanes, in one incarnation of the sending node, from 1 on. A
    /// later exchange of a lane replaces an earlier one.
    ExchangeNumber;
    /// Order of the sockets of a client: the later socket has the higher rank. The node that admits
    /// the socket takes it from its [`Counter`](crate::Counter). 0: no node has admitted it.
    Rank;
    /// Number of a request to the owner of a room, in one incarnation of the requesting node.
    RoomRequestId;
}

impl Rank {
    /// No rank: no node has admitted the socket.
    pub const NONE: Self = Self(0);
}

impl MessageNumber {
    /// No message.
    pub const NONE: Self = Self(0);
}
