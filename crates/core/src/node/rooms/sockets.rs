//! Work of clients' sockets that has no answer yet: commands and broadcasts.

use std::collections::BTreeMap;

use signaling_wire::MessageNumber;

use super::super::SessionKey;
use super::Rooms;
use super::broadcast::Tally;

/// Commands and broadcasts of one socket without an answer.
#[derive(Debug, Default)]
pub(super) struct SocketWork {
    /// Number of commands.
    pub(super) commands: usize,
    /// Broadcasts without all outcomes, by number.
    pub(super) broadcasts: BTreeMap<MessageNumber, Tally>,
}

impl Rooms {
    /// Returns the numbers of a socket's commands and broadcasts without an answer.
    pub(in crate::node) fn unanswered(&self, socket: SessionKey) -> (usize, usize) {
        self.sockets.get(&socket).map_or((0, 0), |work| (work.commands, work.broadcasts.len()))
    }

    /// Forgets a socket whose session was removed. Its commands get no answer.
    pub(in crate::node) fn forget_socket(&mut self, socket: SessionKey) {
        self.sockets.remove(&socket);
    }

    /// Counts a command of a socket as answered.
    pub(in crate::node) fn command_answered(&mut self, socket: SessionKey) {
        if let Some(work) = self.sockets.get_mut(&socket) {
            work.commands = work.commands.saturating_sub(1);
            self.forget_if_answered(socket);
        }
    }

    /// Forgets a socket without work.
    pub(super) fn forget_if_answered(&mut self, socket: SessionKey) {
        if self.unanswered(socket) == (0, 0) {
            self.sockets.remove(&socket);
        }
    }
}
