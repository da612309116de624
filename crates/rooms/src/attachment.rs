//! The order of a session's sockets, and of the attachments of one socket.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use signaling_wire::{Rank, SocketId};

/// The socket of a session, and its attachment to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatAttachment {
    /// Rank of the socket.
    pub rank: Rank,
    /// Number of the attachment. Bits from 40 on count the attachments with that socket, bits 32 to
    /// 39 the moves while the session lingers. The low 32 bits have the number of seats that the
    /// node had dropped during their sessions.
    pub attachment: u64,
    /// The socket.
    pub socket: SocketId,
}

impl SeatAttachment {
    /// Compares two attachments of a session: those of one socket by their numbers, since a node
    /// that its edge gave up may rank the socket higher than the next one. Others by rank first.
    pub(crate) fn order(self, other: Self) -> Ordering {
        let by_rank = if self.socket == other.socket { Ordering::Equal } else { self.rank.cmp(&other.rank) };
        by_rank.then(self.attachment.cmp(&other.attachment))
    }

    pub(crate) fn is_later_than(self, other: Self) -> bool {
        self.order(other) == Ordering::Greater
    }

    /// Returns `true` if it is an earlier attachment of the same socket, whatever its rank.
    pub(crate) fn is_before_move(self, present: Self) -> bool {
        self.socket == present.socket && self.attachment >> 40 < present.attachment >> 40
    }

    /// Returns `true` if it is of an earlier socket of the session.
    pub(crate) fn is_of_former_socket(self, present: Self) -> bool {
        self.socket != present.socket && self.rank < present.rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_of_one_socket_are_ordered_by_their_numbers_alone() {
        let at =
            |socket, rank, attachment| SeatAttachment { rank: Rank(rank), attachment, socket: SocketId([socket; 8]) };
        let present = at(1, 5, 2);
        for (other, order) in [
            (at(1, 9, 1), Ordering::Less),
            (at(1, 5, 2), Ordering::Equal),
            (at(1, 4, 3), Ordering::Greater),
            (at(2, 4, 9), Ordering::Less),
            (at(2, 9, 1), Ordering::Greater),
        ] {
            assert_eq!(other.order(present), order, "{other:?}");
        }
    }
}
