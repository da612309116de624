//! Seats of sessions that move between nodes or resume.

use std::collections::BTreeMap;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_wire::forward::{Attachment, Item};
use signaling_wire::seats::{SeatState, SessionState};
use signaling_wire::{MessageNumber, Seq, SessionId};

use super::LocalRooms;
use super::room_session::{Command, CommandKind, LocalSeat, NO_STATE, RoomSession, attachment_at_next_node, is_behind};
use crate::op::SOCKET_END;
use crate::{Context, Output, Requester, Rooms, SeatAttachment, SocketKey, Step};

impl<M> LocalRooms<M> {
    /// Returns the state of a session for its next node. Without `is_final` it lacks room versions:
    /// the client may miss later messages if this node fails.
    pub(crate) fn state_of(
        &self,
        session: SessionId,
        resumed: bool,
        delivered: Vec<(u64, u64)>,
        is_final: bool,
    ) -> Vec<u8> {
        let room_session = self.sessions.get(&session);
        let mut seats = room_session.map(|it| self.seat_states(it)).unwrap_or_default();
        if !is_final {
            seats.iter_mut().for_each(|seat| (seat.incarnation, seat.version, seat.epoch) = (0, 0, 0));
        }
        SessionState { resumed, seats, delivered }.to_bytes()
    }

    /// Returns a session's seats for its next node, without seats that are out or unknown.
    fn seat_states<'a>(&self, room_session: &'a RoomSession<M>) -> Vec<SeatState<'a>> {
        let seats = room_session.seats.iter();
        seats.filter_map(|(room, local)| local.state(room, self.followed_epoch(room))).collect()
    }

    /// Returns a session's seats for the node that has the session now, or that owns its client.
    fn seats_item<'a>(&self, session: SessionId, room_session: &'a RoomSession<M>) -> Item<'a> {
        let SeatAttachment { rank, attachment, socket } = room_session.at;
        let (client_id, seats) = (room_session.client.as_str(), self.seat_states(room_session));
        Item::Seats { client_id, session, socket, rank, attachment, seats }
    }

    /// Reads seats of the session `requester` from another node, each with the epoch that this node
    /// followed. Clients of an epoch that is not followed here need the whole state.
    fn read_seats(
        &self,
        now: Instant,
        states: &[SeatState<'_>],
        requester: &Requester,
    ) -> BTreeMap<RoomName, (LocalSeat, u64)> {
        let read = |state: &SeatState<'_>| {
            let (room, mut local) = LocalSeat::read(now, state, requester.clone())?;
            if ![0, state.epoch].contains(&self.followed_epoch(&room)) {
                local.sent = NO_STATE;
            }
            Some((room, (local, state.epoch)))
        };
        states.iter().filter_map(read).collect()
    }
}

impl<M> Rooms<M> {
    /// Returns the seats of a lingering session, for the owner of its client. `None`: it has none.
    pub fn lingering_seats(&self, session: SessionId) -> Option<Item<'_>> {
        let room_session = self.local.sessions.get(&session).filter(|known| !known.seats.is_empty())?;
        // The seats may be of an earlier socket than the lingering session.
        Some(self.local.seats_item(session, room_session))
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Stores the seats of a session that attaches. The edge's state is newer than this node's. A
    /// resumed session receives the whole state of its rooms.
    pub fn attach_seats(&mut self, key: SocketKey, state: &[u8]) {
        let Some(attached) = self.cx.socket(key) else { return };
        let client = attached.client_id.clone();
        let (session, newcomer, at) = (attached.id, attached.newcomer, self.local.attachment_of(&attached));
        if self.local.sessions.get(&session).is_some_and(|known| at.is_of_former_socket(known.at)) {
            // The edge attaches a closed socket for its last frames, with outdated state.
            return;
        }
        let state = SessionState::read(state).unwrap_or_default();
        if !state.seats.iter().all(|seat| self.receive_number(seat.highest_number())) {
            self.local.dropped += 1;
            return;
        }
        let present = self.cx.holder(client.as_str()).filter(|(holder, later)| *holder != key && later.id == session);
        if present.is_some_and(|(_, later)| at.is_of_former_socket(self.local.attachment_of(&later))) {
            // The later socket resumed the session without these seats and their rooms' states.
            return self.merge_seats(&client, session, at, &state.seats);
        }
        if !newcomer {
            self.replace_seats(&client, session, at, &state.seats);
        }
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        (room_session.at, room_session.socket_lost_at) = (at, None);
        let mut missed = Vec::new();
        for (room, local) in room_session.seats.iter_mut() {
            let SeatAttachment { rank, attachment, socket } = at;
            let requester = &mut local.seat.requester;
            (requester.rank, requester.attachment, requester.socket) = (rank, attachment, socket);
            if newcomer {
                local.sent_ahead = None;
            }
            let followed = self.local.by_name.get(room).map_or(NO_STATE, |local| local.sequencer.at());
            let missed_some = newcomer || local.sent == NO_STATE || is_behind(local.sent, followed);
            missed.push((room.clone(), local.is_member() && missed_some));
        }
        for (room, missed) in missed {
            self.local.schedule_claim(&room, session);
            if missed {
                self.local.schedule_state_of_arrival(&room, session);
            }
        }
    }

    /// Replaces the seats of a session by the seats from its former node.
    fn replace_seats(&mut self, client: &ClientId, session: SessionId, at: SeatAttachment, states: &[SeatState<'_>]) {
        if states.is_empty() && !self.local.sessions.contains_key(&session) {
            return;
        }
        let (id, rooms) = (&self.mesh.id, &mut self.local);
        let new = || RoomSession::from_other_node(client.clone(), at);
        let requester = rooms.session(session, new).requester(session, MessageNumber::NONE, id);
        let mut seats = rooms.read_seats(self.now, states, &requester);
        let Some(room_session) = rooms.sessions.get_mut(&session) else { return };
        let (known, mut over) = (room_session.at, Vec::new());
        let former = room_session.seats.take();
        for (room, local) in &former {
            // A session that resumed elsewhere from an old state may lack it. The room decides.
            if known.is_of_former_socket(at) && !seats.contains_key(room) {
                seats.insert(room.clone(), (LocalSeat { sent: NO_STATE, ..LocalSeat::clone(local) }, 0));
            } else {
                over.push((room, &local.seat.requester));
            }
        }
        for (room, (seat, _)) in &seats {
            room_session.seats.insert(room.clone(), Box::new(seat.clone()));
        }
        former.keys().for_each(|room| rooms.remove_seat(room, session));
        for (room, requester) in over {
            let (attachment, number) = (known.attachment, SOCKET_END);
            let requester = Requester { attachment, number, ..requester.clone() };
            rooms.drop_seat(session, room, requester);
        }
        for (room, (local, epoch)) in seats {
            rooms.add_seat(&room, session, local.seat.status, (local.sent, epoch));
            // The former node has seen it.
            rooms.record_epoch(room.as_str(), local.confirmed_in.1);
        }
        self.remove_if_idle(session);
    }

    /// Removes a session's seats and its socket's commands, since another node has the session now.
    /// Commands of earlier sockets are still answered here.
    pub fn release_seats(&mut self, (session, key): (SessionId, SocketKey)) {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let first = room_session.first_command();
        room_session.commands.retain(|command| command.key != key);
        let (has_next, attachment) = (room_session.first_command() != first, room_session.at.attachment);
        for (room, local) in room_session.seats.take() {
            self.local.remove_seat(&room, session);
            // The session's next node claims the seat, unless both it and the edge are lost.
            let requester = Requester { attachment, number: SOCKET_END, ..local.seat.requester };
            self.local.drop_seat(session, &room, requester);
        }
        if has_next {
            self.next_command(session);
        }
        self.remove_if_idle(session);
    }

    /// Returns `true` if a later socket has resumed the session of this one.
    pub(super) fn is_resumed_elsewhere(&self, key: SocketKey) -> bool {
        let Some(session) = self.cx.socket(key) else { return false };
        let known = self.local.sessions.get(&session.id);
        // A later socket may have resumed the session before an earlier one joined its first room.
        let holder = self.cx.holder(session.client_id.as_str());
        holder.is_some_and(|(holder, later)| holder != key && later.id == session.id)
            || known.is_some_and(|known| self.local.attachment_of(&session).is_of_former_socket(known.at))
    }

    /// Queues a command that gives up all seats of a session, unless a later socket has resumed it.
    pub fn queue_leave_all(&mut self, key: SocketKey) {
        let Some(session) = self.cx.socket(key) else { return };
        let is_idle = self.local.sessions.get(&session.id).is_none_or(RoomSession::is_idle);
        if !is_idle && !self.is_resumed_elsewhere(key) {
            let (seq, number, kind) = (Seq(0), MessageNumber::NONE, CommandKind::LeaveAll);
            self.command(Command { key, seq, number, id: None, room: None, kind });
        }
    }

    /// Sends a former session's seats to the peer node that serves it now. The session may have
    /// resumed there from an older state with fewer seats.
    pub fn forward_seats(&mut self, node: &NodeId, Attachment { session, socket, rank, .. }: Attachment) {
        let is_older =
            |known: &&RoomSession<M>| known.at.socket != socket && known.at.rank < rank && !known.seats.is_empty();
        let Some(former) = self.local.sessions.get(&session).filter(is_older) else { return };
        let mut item = Vec::new();
        self.local.seats_item(session, former).append(&mut item);
        self.send_encoded(node, false, |out| out.extend_from_slice(&item));
    }

    /// Merges seats that arrive after their lingering session, which may have been resumed since.
    /// This node may have an older state: the later command decides each seat, and the owner
    /// reports which seats are over. Ignores a session that is neither attached nor lingering here.
    pub fn merge_seats(
        &mut self,
        client: &ClientId,
        session: SessionId,
        arrived: SeatAttachment,
        states: &[SeatState<'_>],
    ) {
        let holder = self.cx.holder(client.as_str()).filter(|(_, holder)| holder.id == session);
        let resumed = holder.map(|(_, holder)| self.local.attachment_of(&holder));
        let lingers = self.cx.lingers(client, session);
        if resumed.is_none() && !lingers {
            return;
        }
        let known = self.local.sessions.get(&session).map(|known| known.at);
        if known.into_iter().chain(resumed).any(|present| arrived.is_before_move(present)) {
            // The socket's present attachment began with these seats, and may have left them since.
            return;
        }
        let attachment = attachment_at_next_node(arrived.attachment, self.local.drops);
        let at = resumed.unwrap_or(SeatAttachment { attachment, ..arrived });
        let new = || RoomSession::from_other_node(client.clone(), at);
        let room_session = self.local.session(session, new);
        if at.is_later_than(room_session.at) {
            room_session.at = at;
            for (_, local) in room_session.seats.iter_mut() {
                (local.seat.requester.rank, local.seat.requester.socket) = (at.rank, at.socket);
            }
        }
        let requester = room_session.requester(session, MessageNumber::NONE, &self.mesh.id);
        let seats = self.local.read_seats(self.now, states, &requester);
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let mut news = Vec::new();
        for (room, (mut local, epoch)) in seats {
            if room_session.seats.get(&room).is_some_and(|known| known.number() >= local.number()) {
                continue;
            }
            if resumed.is_some() {
                // The new socket has not received a position.
                local.sent_ahead = None;
            }
            news.push((room.clone(), local.seat.status, (local.sent, epoch), local.confirmed_in.1));
            room_session.seats.insert(room, Box::new(local));
        }
        for (room, status, sent, epoch) in &news {
            self.local.add_seat(room, session, *status, *sent);
            self.local.record_epoch(room.as_str(), *epoch);
            self.local.schedule_claim(room, session);
            if resumed.is_some() && status.is_member() {
                self.local.schedule_state_of_arrival(room, session);
            }
        }
        self.remove_if_idle(session);
        if news.is_empty() {
            return;
        }
        match resumed {
            Some(_) => {
                self.send_state(session);
                self.leave_forbidden_rooms(session);
            }
            // The session may have been handed on before its seats arrived.
            None => {
                self.record_loss(session);
                self.local.outputs.push(Output::SendHome { client: client.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Node, seat_attachment};

    /// Returns a member's seat, with a state of the room's epoch 9.
    fn seat_of_r() -> SeatState<'static> {
        SeatState {
            room: "r",
            member: true,
            place: 1,
            number: 1,
            confirmed_in: (1, 9),
            incarnation: 1,
            version: 1,
            epoch: 9,
            ahead: None,
            data: None,
        }
    }

    #[test]
    fn seat_from_another_node_shows_the_epoch_that_confirmed_it() {
        let mut node = Node::new("n0", &["n0", "n1"]);
        let (client, room) = (ClientId::new("alice").unwrap(), RoomName::new("r").unwrap());
        node.step().replace_seats(&client, SessionId([1; 16]), seat_attachment(1, 1), &[seat_of_r()]);
        assert!(node.rooms.local.is_outdated(&room, 8) && !node.rooms.local.is_outdated(&room, 9));
    }

    #[test]
    fn seat_with_the_state_of_another_epoch_needs_the_whole_state() {
        let mut node = Node::new("n0", &["n0", "n1"]);
        let room = RoomName::new("r").unwrap();
        for (number, epoch, has_state) in [(1, 9, true), (2, 9, true), (3, 8, false)] {
            let (client, session) = (ClientId::new(&format!("c{number}")).unwrap(), SessionId([number; 16]));
            node.step().replace_seats(&client, session, seat_attachment(1, 1), &[SeatState { epoch, ..seat_of_r() }]);
            let sent = node.rooms.local.seat(session, &room).unwrap().sent;
            assert_eq!(sent != NO_STATE, has_state, "{number}");
        }
    }
}
