//! Clients in rooms: their requests, and checks of the answers and events that they receive.

use std::collections::BTreeMap;

use serde_json::Value;

use super::room_view::RoomView;
use super::{RoomWorld, number};
use crate::agenda::{MS, Micros, SECOND, micros};
use crate::event::{ClientIx, ClientRequest, RoomRequestIx, SocketId};
use crate::ledger::SenderResult;
use crate::world::World;

/// Kind of a room request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// With `shows`, the join carries new data; otherwise it keeps the earlier data.
    Join { shows: bool },
    /// Leaves the room or its waiting queue.
    Leave,
    /// Requests the state of the room.
    Members,
    /// Sends a message to all other members.
    Broadcast,
}

/// A client's request to a room.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoomRequest {
    /// Planned time; 0 for a request that was not planned.
    pub(super) at: Micros,
    pub(super) from: ClientIx,
    pub(super) room: usize,
    pub(super) what: RequestKind,
    /// Socket and time of the last send.
    pub(super) said: Option<(SocketId, Micros)>,
    /// Position of that send among the sends of all clients.
    pub(super) turn: u64,
    /// `true` once it has its answer, or if it gets none.
    pub(super) answered: bool,
    /// `true` if it was sent on an earlier socket too.
    pub(super) repeated: bool,
    /// The owner did not answer, so the answer does not show if the request was carried out.
    pub(super) failed: bool,
}

/// A client's own view of its seat.
#[derive(Debug, Default)]
pub(super) enum SeatView {
    #[default]
    Out,
    Waiting,
    Member(RoomView),
}

/// A client's knowledge of its seat in one room.
#[derive(Debug, Default)]
pub(super) struct ClientSeat {
    pub(super) view: SeatView,
    /// Socket of the latest information.
    pub(super) socket: SocketId,
    /// Time of that information.
    pub(super) since: Micros,
    /// Time at which the client became a member, as received on this socket.
    entered: Micros,
    /// Latest time at which the session with this seat ended.
    pub(super) ended: Option<Micros>,
    repeated_states: u32,
}

/// Seats and received broadcasts of a client.
#[derive(Debug, Default)]
pub(super) struct RoomClient {
    pub(super) seats: BTreeMap<usize, ClientSeat>,
    /// The latest answered `join` or `leave`.
    last_answered: Option<(SocketId, u64)>,
    /// Received broadcasts with the time of the first copy.
    broadcasts: BTreeMap<(SocketId, RoomRequestIx), Micros>,
}

/// Maximum number of full room states that a client may receive without need.
const MAX_REPEATED_STATES: u32 = 5;

impl RoomRequest {
    pub(super) fn new(from: ClientIx, room: usize, what: RequestKind) -> Self {
        Self { at: 0, from, room, what, said: None, turn: 0, answered: false, repeated: false, failed: false }
    }

    /// Returns the request's text for the wire.
    pub(super) fn to_json(self, ask: RoomRequestIx, id: u64) -> String {
        let room = self.room;
        match self.what {
            RequestKind::Join { shows: true } => {
                format!(r#"{{"type":"join","room":"r{room}","data":{ask},"id":{id}}}"#)
            }
            RequestKind::Join { shows: false } => format!(r#"{{"type":"join","room":"r{room}","id":{id}}}"#),
            RequestKind::Leave => format!(r#"{{"type":"leave","room":"r{room}","id":{id}}}"#),
            RequestKind::Members => format!(r#"{{"type":"members","room":"r{room}"}}"#),
            RequestKind::Broadcast => format!(r#"{{"type":"broadcast","room":"r{room}","data":{ask},"id":{id}}}"#),
        }
    }

    /// Returns `true` if the request has an `id`. A `members` request has none.
    pub(super) fn takes_id(&self) -> bool {
        self.what != RequestKind::Members
    }
}

impl RoomClient {
    /// Ends the session. Returns the rooms in which the client had a seat.
    fn end_all_seats(&mut self, now: Micros) -> Vec<usize> {
        let seats = self.seats.iter_mut().filter(|(_, seat)| !matches!(seat.view, SeatView::Out));
        let end = |(room, seat): (&usize, &mut ClientSeat)| {
            (seat.view, seat.ended) = (SeatView::Out, Some(now));
            *room
        };
        seats.map(end).collect()
    }
}

impl World {
    /// Removes a client from all rooms after it ended its session by a goodbye.
    pub(crate) fn end_room_session(&mut self, index: ClientIx) {
        self.rooms.clients[index].end_all_seats(self.agenda.now());
    }

    /// Handles the welcome of a socket. In a new session the client joins each former room again
    /// with a probability of 70%.
    pub(crate) fn room_client_is_welcomed(&mut self, index: ClientIx, resumed: bool) {
        if resumed {
            return;
        }
        for room in self.rooms.clients[index].end_all_seats(self.agenda.now()) {
            if self.rooms.rng.percent(70) {
                let after = self.rooms.rng.within(0, SECOND);
                self.rooms.requests.push(RoomRequest::new(index, room, RequestKind::Join { shows: true }));
                let request = ClientRequest::Room(self.rooms.requests.len() - 1);
                self.agenda.after(after, move |world: &mut Self| world.client_wants(index, request));
                self.counters.add("rooms: joins anew in another session", 1);
            }
        }
    }

    /// Handles a message about a room that a client received.
    pub(crate) fn room_client_receives(&mut self, socket: SocketId, kind: &str, message: &Value) {
        let now = self.agenda.now();
        let index = self.sockets[socket].client;
        let name = message["room"].as_str().unwrap_or_default();
        let Some(room) = number(name) else {
            return self.ledger.broken("damaged", format!("c{index} got {kind} of no room"));
        };
        let expired = message["reason"] == "expired";
        if kind == "left" && expired {
            self.check_expired(index, room);
        }
        let by_operator = message["reason"] == "removed" || message["reason"] == "closed";
        if by_operator && !self.was_operated(index, room, 0) {
            self.ledger.broken("room bans", format!("c{index} is out of {name} without an operator"));
        }
        let lately = |ask: &RoomRequest| !ask.answered || ask.said.is_some_and(|(_, said)| now - said < 5 * SECOND);
        let requests = self.rooms.requests.iter().any(|ask| ask.from == index && ask.room == room && lately(ask));
        // After a handoff or a loss of the room, a client may have missed changes.
        let since = now.saturating_sub(10 * SECOND);
        let may_have_missed = !self.trouble.any.covers_nothing(since, now) || self.rooms.has_lost(since, now);
        let seat = self.rooms.clients[index].seats.entry(room).or_default();
        if socket < seat.socket {
            // The client has moved to another socket.
            return;
        }
        let same_socket = std::mem::replace(&mut seat.socket, socket) == socket;
        seat.since = now;
        if !same_socket || !matches!(seat.view, SeatView::Member(_)) {
            seat.entered = now;
        }
        let mut wrong = None;
        match kind {
            "joined" => {
                let Some(room_view) = RoomView::read(message) else {
                    return self.ledger.broken("damaged", format!("c{index} got {message}"));
                };
                let known = matches!(&seat.view, SeatView::Member(known) if *known == room_view);
                seat.repeated_states = match known && same_socket && !requests {
                    true => seat.repeated_states + u32::from(!may_have_missed),
                    false => 0,
                };
                if seat.repeated_states >= MAX_REPEATED_STATES {
                    wrong = Some(("room state repeated", format!("{MAX_REPEATED_STATES} times without need")));
                }
                (seat.view, seat.ended) = (SeatView::Member(room_view), None);
            }
            "waiting" => (seat.view, seat.ended) = (SeatView::Waiting, None),
            "left" => (seat.view, seat.ended) = (SeatView::Out, None),
            _ => {
                wrong = match (&mut seat.view, self.rooms.watch.room(name)) {
                    (SeatView::Member(room_view), Some(seen)) if same_socket => {
                        room_view.change(message, seen, index).err().map(|what| ("room changes", what))
                    }
                    _ => Some(("room changes", "of a room that it is not in".to_owned())),
                };
            }
        }
        if let Some((rule, what)) = wrong {
            self.ledger.broken(rule, format!("c{index} on socket {socket}, {name}: {what}"));
        }
    }

    /// Handles the end of a seat that was written to a socket which the client has left. A plain
    /// client that resumes does not learn of it.
    pub(crate) fn room_client_misses_left(&mut self, socket: SocketId, message: &Value) {
        let seats = &mut self.rooms.clients[self.sockets[socket].client].seats;
        let seat = number(message["room"].as_str().unwrap_or_default()).and_then(|room| seats.get_mut(&room));
        if let Some(seat) = seat.filter(|seat| seat.socket <= socket) {
            (seat.view, seat.ended) = (SeatView::Out, Some(self.agenda.now()));
        }
    }

    /// Handles the answer to a request.
    pub(crate) fn ask_is_answered(&mut self, ask: RoomRequestIx, socket: SocketId, answer: SenderResult) {
        let now = self.agenda.now();
        let here = self.sockets[socket].takes_outcomes();
        let Some(request) = self.rooms.requests.get_mut(ask) else {
            return self.ledger.broken("invented", format!("an answer on socket {socket} without a request"));
        };
        let RoomRequest { from, room, what, turn, said, repeated, .. } = *request;
        let name = format!("c{from} on socket {socket}, {what:?} of r{room}");
        if std::mem::replace(&mut request.answered, true) {
            return self.ledger.broken("two outcomes", name);
        }
        request.failed = answer == SenderResult::RoomUnavailable;
        let Some((_, said)) = said.filter(|(on, _)| *on == socket) else {
            return self.ledger.broken("wrong sender", name);
        };
        let lost = self.rooms.has_lost(said.saturating_sub(5 * SECOND), now);
        let may_fill = self.rooms.may_fill(said, now);
        // A command whose answer was lost is answered again with the present state.
        let leaves = |other: &RoomRequest| {
            (other.from, other.room, other.what) == (from, room, RequestKind::Leave)
                && other.said.is_some_and(|(on, at)| on == socket && at >= said)
        };
        let was_operated = self.was_operated(from, room, 0);
        let is_troubled = !self.trouble.any.covers_nothing(said, now);
        let left_since = is_troubled && self.rooms.requests.iter().any(leaves);
        let room_client = &mut self.rooms.clients[from];
        if !here {
            // After a leave, other requests for the room get no answer.
            if what == RequestKind::Leave
                && answer == SenderResult::Ack
                && let Some(seat) = room_client.seats.get_mut(&room).filter(|seat| seat.socket <= socket)
            {
                (seat.view, seat.ended) = (SeatView::Out, Some(now));
            }
            return;
        }
        // Answers to `join` and `leave` come in the order of the requests.
        if matches!(what, RequestKind::Join { .. } | RequestKind::Leave) {
            let before = room_client.last_answered.replace((socket, turn));
            if before.is_some_and(|(on, before)| on == socket && before > turn) {
                return self.ledger.broken("room answers", format!("{name}: {turn} behind {before:?}"));
            }
        }
        if what == RequestKind::Broadcast && lost {
            self.counters.add("rooms: broadcasts answered behind a loss", 1);
        }
        let seat = room_client.seats.get(&room);
        let seat_here = seat.filter(|seat| seat.socket == socket);
        let wrong = match (what, answer) {
            (_, SenderResult::RoomUnavailable) => {
                let since = said.saturating_sub(3 * SECOND);
                let fills = what == RequestKind::Broadcast && (may_fill || self.rooms.was_settling(room, said));
                (!fills && RoomWorld::is_served(&self.trouble, since, now))
                    .then_some("refused, though the owner is there")
            }
            (RequestKind::Broadcast | RequestKind::Members, SenderResult::NotInRoom) => {
                let is_in =
                    seat_here.is_some_and(|seat| matches!(seat.view, SeatView::Member(_)) && seat.since <= said);
                // After a loss it may have to wait, and receives its position up to 1 s later.
                (is_in && !left_since && !lost).then_some("refused, though it is in the room")
            }
            (RequestKind::Join { .. }, SenderResult::NotInRoom)
                if !left_since && self.rooms.outranked.contains(&(from, room)) =>
            {
                Some("refused for the rank of its socket")
            }
            // Its first answer was lost, and its seat has ended since.
            (RequestKind::Join { .. }, SenderResult::NotInRoom) if repeated || is_troubled || was_operated => None,
            (RequestKind::Join { .. }, SenderResult::Forbidden) => {
                (!was_operated).then_some("refused without an operator")
            }
            (_, SenderResult::NotInRoom | SenderResult::Unavailable | SenderResult::Forbidden) => Some("refused"),
            (RequestKind::Join { .. }, SenderResult::Ack) => {
                let has_seat = seat_here.is_some_and(|seat| !matches!(seat.view, SeatView::Out));
                (!has_seat).then_some("done without a seat")
            }
            (RequestKind::Leave, SenderResult::Ack) => {
                let is_out = seat.is_none_or(|seat| matches!(seat.view, SeatView::Out));
                (!is_out).then_some("done without a report that it is out")
            }
            (RequestKind::Broadcast | RequestKind::Members, SenderResult::Ack) => None,
        };
        if let Some(wrong) = wrong {
            self.ledger.broken("room answers", format!("{name}: {wrong}, {} ms after", (now - said) / MS));
        }
        if (what, answer) == (RequestKind::Broadcast, SenderResult::Ack)
            && let Some(missed) = self.missed_by(ask, said)
        {
            let what = format!("{name}: done, and c{missed} did not get it, {} ms after", (now - said) / MS);
            self.ledger.broken("broadcast missed", what);
        }
    }

    /// Returns a member that missed a broadcast although only the owner was at fault and its edge
    /// had buffer space.
    fn missed_by(&self, ask: RoomRequestIx, said: Micros) -> Option<ClientIx> {
        let now = self.agenda.now();
        let RoomRequest { at, from, room, .. } = self.rooms.requests[ask];
        // A repeated broadcast has the outcome of its first attempt, which may have expired.
        let since = at.min(said).saturating_sub(10 * SECOND);
        if !self.trouble.any.covers_nothing(since, now) {
            return None;
        }
        let missed = |&member: &ClientIx| {
            let (room_client, client) = (&self.rooms.clients[member], &self.clients[member]);
            let Some(seat) = room_client.seats.get(&room) else { return false };
            let is_in = matches!(seat.view, SeatView::Member(_)) && seat.entered + SECOND < said;
            let requests = |other: &RoomRequest| {
                (other.from, other.room) == (member, room)
                    && other.said.is_some_and(|(_, at)| at + SECOND > seat.entered)
            };
            let stays = !self.rooms.requests.iter().any(|other| other.what == RequestKind::Leave && requests(other));
            let is_there = self.attentive_socket(member) == Some(seat.socket)
                && client.away.with(&client.full).covers_nothing(since, now);
            // An edge writes no broadcast that the sender repeats behind a later one.
            let is_later = |got: RoomRequestIx| {
                self.rooms.requests[got].from == from && (self.rooms.requests[got].at, got) > (at, ask)
            };
            let received =
                |((_, got), at): (&(SocketId, RoomRequestIx), &Micros)| *got == ask || (*at < said && is_later(*got));
            let got = room_client.broadcasts.iter().any(received);
            // A message that overtakes a broadcast during a request makes the broadcast late.
            let stays = stays && !self.was_operated(member, room, seat.entered);
            member != from && is_in && stays && is_there && !got && !self.ledger.has_said(from, member, said.min(at))
        };
        (0..self.rooms.clients.len()).find(missed)
    }

    /// Handles a `members` request that got `room_unavailable`. Long after the last fault the room
    /// has an owner, so that this breaks a promise.
    pub(crate) fn members_are_refused(&mut self, index: ClientIx) {
        let now = self.agenda.now();
        let since = now.saturating_sub(40 * SECOND);
        if RoomWorld::is_served(&self.trouble, since, now) && !self.rooms.may_fill(since, now) {
            self.ledger.broken("room answers", format!("c{index}: refused, though the owner is there"));
        }
    }

    /// Records a broadcast that a recipient's socket received.
    pub(crate) fn broadcast_is_written(&mut self, ask: RoomRequestIx, to: ClientIx, socket: SocketId) {
        let from = self.rooms.requests.get(ask).filter(|ask| ask.said.is_some()).map(|ask| ask.from);
        if from.is_none_or(|from| from == to) {
            return self.ledger.broken("invented", format!("c{to} got broadcast {ask} from {from:?}"));
        }
        let now = self.agenda.now();
        let first = self.rooms.clients[to].broadcasts.insert((socket, ask), now);
        // An edge with many senders forgets one after the hold time.
        if first.is_some_and(|first| now - first < micros(self.hold)) {
            self.ledger.broken("doubled", format!("broadcast {ask} was written twice to socket {socket}"));
        }
    }
}
