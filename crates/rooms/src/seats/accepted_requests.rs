//! Broadcasts and joins of a reliable client that a node has accepted.

use std::collections::VecDeque;

use signaling_wire::{MessageNumber, SocketId};

/// Accepted requests that are remembered for a reliable client, as many as may be unanswered. One
/// more replaces the oldest.
const MAX_OPEN: usize = 128;

/// Accepted broadcasts and joins of a reliable client. A resumed client retransmits the unanswered
/// ones. They may be under way or done, so each is accepted once more per socket.
#[derive(Debug, Default)]
pub(super) struct AcceptedRequests {
    /// Last accepted numbers, each with the last socket that sent it.
    known: VecDeque<(MessageNumber, SocketId)>,
    /// Requests that another node may have accepted.
    unknown: usize,
}

impl AcceptedRequests {
    /// Creates the record of a session from another node, which may have accepted any requests.
    pub(super) fn from_other_node() -> Self {
        Self { known: VecDeque::new(), unknown: MAX_OPEN }
    }

    /// Returns `true` if an earlier socket may have sent the request, once for each socket. Also
    /// for the first 128 unknown numbers of a session from another node.
    pub(super) fn is_retransmission(&mut self, number: MessageNumber, socket: SocketId) -> bool {
        if let Some((_, last)) = self.known.iter_mut().find(|(known, _)| *known == number) {
            return std::mem::replace(last, socket) != socket;
        }
        let is_unknown = self.unknown > 0;
        self.unknown -= usize::from(is_unknown);
        is_unknown
    }

    /// Stores an accepted request of a socket.
    pub(super) fn record(&mut self, number: MessageNumber, socket: SocketId) {
        self.known.retain(|&(known, _)| known != number);
        if self.known.len() >= MAX_OPEN {
            self.known.pop_front();
        }
        self.known.push_back((number, socket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_from_other_node_may_have_its_maximum_open() {
        let mut accepted = AcceptedRequests::from_other_node();
        let open = (0..1_000).filter(|&number| accepted.is_retransmission(MessageNumber(number), SocketId([2; 8])));
        assert_eq!(open.count(), MAX_OPEN);
    }

    #[test]
    fn oldest_requests_are_forgotten_at_the_limit() {
        let mut accepted = AcceptedRequests::default();
        (0..1_000).map(MessageNumber).for_each(|number| accepted.record(number, SocketId([1; 8])));
        let open = (0..1_000).filter(|&number| accepted.is_retransmission(MessageNumber(number), SocketId([2; 8])));
        assert_eq!(open.count(), MAX_OPEN);
        assert!(accepted.is_retransmission(MessageNumber(999), SocketId([3; 8])));
    }
}
