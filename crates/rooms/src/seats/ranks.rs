//! Commands that a room outranks: it has had an operation of the client with a higher rank. If the
//! socket is the later one, the node raises its rank, and the command is repeated.

use signaling_wire::{Rank, Seq, SessionId};

use crate::{Context, Output, SocketKey, Step};

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Reports to the node that a session's first command needs a rank above this one. The command
    /// is repeated, and refused after 2 s.
    pub(super) fn outranked(&mut self, at: (SessionId, SocketKey, Seq), above: Rank) {
        let Some(command) = self.first_command(at) else { return };
        // Of a room that this node owns, the rank may have come in no frame.
        self.receive_number(above.0);
        if let Some(room_session) = self.local.sessions.get(&at.0) {
            let (client, socket) = (room_session.client.clone(), room_session.at.socket);
            self.local.outputs.push(Output::Outranked { client, socket, above });
        }
        self.hold_command(at.0, &command);
    }

    /// Raises the rank of a session's socket, and repeats the command that waits for it.
    pub fn raise(&mut self, session: SessionId, rank: Rank) {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        room_session.at.rank = rank;
        room_session.seats.iter_mut().for_each(|(_, local)| local.seat.requester.rank = rank);
        self.retry_now(session);
    }
}
