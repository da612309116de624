//! Work of clients' sockets that has no answer yet: commands and broadcasts.

use std::collections::BTreeMap;

use signaling_wire::MessageNumber;

use super::LocalRooms;
use super::broadcast::Tally;
use crate::{Rooms, SocketKey};

/// Commands and broadcasts of one socket without an answer.
#[derive(Debug, Default)]
pub(super) struct SocketWork {
    /// Number of commands.
    pub(super) commands: usize,
    /// Broadcasts without all outcomes, by number.
    pub(super) broadcasts: BTreeMap<MessageNumber, Tally>,
}

impl<M> Rooms<M> {
    /// Returns the numbers of a socket's commands and broadcasts without an answer.
    pub fn unanswered(&self, socket: SocketKey) -> (usize, usize) {
        self.local.sockets.get(&socket).map_or((0, 0), |work| (work.commands, work.broadcasts.len()))
    }

    /// Forgets a socket whose session was removed. Its commands get no answer.
    pub fn forget_socket(&mut self, socket: SocketKey) {
        self.local.sockets.remove(&socket);
    }

    /// Counts a command of a socket as answered.
    pub fn command_answered(&mut self, socket: SocketKey) {
        if let Some(work) = self.local.sockets.get_mut(&socket) {
            work.commands = work.commands.saturating_sub(1);
            self.local.forget_if_answered(socket);
        }
    }
}

impl<M> LocalRooms<M> {
    pub(super) fn forget_if_answered(&mut self, socket: SocketKey) {
        let is_answered = |work: &SocketWork| work.commands == 0 && work.broadcasts.is_empty();
        if self.sockets.get(&socket).is_some_and(is_answered) {
            self.sockets.remove(&socket);
        }
    }
}
