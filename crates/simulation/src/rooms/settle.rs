//! Checks of rooms after a quiet time, and of expired members.

use std::collections::BTreeMap;

use signaling_protocol::RoomName;
use signaling_rooms::{Operation, Request};

use super::number;
use super::room_client::{ClientSeat, RequestKind, RoomRequest, SeatView};
use super::room_view::{RoomView, Shown};
use super::watch::Room;
use crate::agenda::{MS, Micros, SECOND};
use crate::event::ClientIx;
use crate::ledger::RECOVERY;
use crate::world::World;

/// Maximum time until every member received a change, without faults.
const MAX_EVENT_DELAY: Micros = 4 * SECOND;
/// Maximum time until a session ends: it lingers for 30 s, and its node may detect the loss late.
const MAX_SESSION_END: Micros = (30 + 12) * SECOND;

impl World {
    /// Checks a member that was shown as expired. Its socket must be gone, unless faults kept its
    /// node from claiming its seat.
    pub(super) fn check_expired(&mut self, client: ClientIx, room: usize) {
        let now = self.agenda.now();
        let seat = self.rooms.clients[client].seats.get(&room);
        let Some(seat) = seat.filter(|seat| !matches!(seat.view, SeatView::Out)) else { return };
        let Some(socket) = self.attentive_socket(client) else { return };
        if seat.socket != socket && self.may_lack_seat(seat.since) {
            return;
        }
        let from = now.saturating_sub(self.rooms.stale());
        if self.may_have_left(client, room, from) {
            return;
        }
        if self.rooms.has_lost(from.saturating_sub(self.rooms.stale()), now) {
            return;
        }
        let trouble = self.trouble.any.with(&self.trouble.impassable).with(&self.clients[client].away);
        let calm = trouble.longest_gap(from, now);
        if calm > self.rooms.stale() / 2 + RECOVERY {
            let what = format!("c{client} is out of r{room}, after {} ms without trouble", calm / MS);
            self.ledger.broken("room expired", what);
        }
    }

    /// Returns `true` if an owner may have carried out a leave of the client that failed since
    /// then. A later join that was answered supersedes the leave.
    fn may_have_left(&self, client: ClientIx, room: usize, since: Micros) -> bool {
        let requests = self.rooms.requests.iter().filter(|ask| (ask.from, ask.room) == (client, room));
        let is_join = |ask: &&RoomRequest| matches!(ask.what, RequestKind::Join { .. }) && ask.answered && !ask.failed;
        let joined = requests.clone().filter(is_join).map(|ask| ask.turn).max();
        let is_leave = |ask: &RoomRequest| ask.what == RequestKind::Leave && ask.failed;
        let is_recent = |ask: &RoomRequest| ask.said.is_some_and(|(_, said)| said >= since);
        requests.into_iter().any(|ask| is_leave(ask) && is_recent(ask) && joined.is_none_or(|turn| turn < ask.turn))
    }

    /// Returns `true` if a session that resumed since then may lack a seat: it may be lost with its
    /// node, and another node's older copy lacks the seat.
    fn may_lack_seat(&self, since: Micros) -> bool {
        !self.trouble.lossy.covers_nothing(since, self.agenda.now())
    }

    fn list(&mut self, room: usize) -> Option<(RoomView, u64)> {
        let request = Request { room: RoomName::new(&format!("r{room}")).ok()?, op: Operation::List { after: None } };
        let result = self.owned_room(&request.room).apply(&self.rooms.rules, 0, &request.op);
        let shown = |data: &str| -> Shown { data.parse().ok() };
        let member = |member: &signaling_rooms::Member| {
            Some((number(member.client.as_str())?, member.data.as_deref().and_then(shown)))
        };
        let members: BTreeMap<_, _> = result.members.iter().filter_map(member).collect();
        Some((RoomView { version: result.version, members }, result.waiting))
    }

    /// Checks after a quiet time that clients and owners agree, and that seats of ended sessions
    /// are gone. Skips rooms that changed within 4 s, or whose owner has not announced a change.
    pub(crate) fn settle_rooms(&mut self) {
        let now = self.agenda.now();
        for room in 0..self.rooms.plan.capacities.len() {
            let Some((owned, waiting)) = self.list(room) else { continue };
            let watched = self.rooms.watch.room(&format!("r{room}")).cloned().unwrap_or_default();
            if now.saturating_sub(watched.changed_at) < MAX_EVENT_DELAY || watched.version < owned.version {
                continue;
            }
            self.counters.add("rooms: compared when all was quiet", 1);
            let mut seen = 0;
            for client in 0..self.clients.len() {
                seen += u64::from(self.settle_seat(room, client, &owned, &watched));
            }
            if seen > waiting {
                self.ledger.broken("room belief", format!("{seen} wait for r{room}, its owner knows {waiting}"));
            }
        }
        self.settle_requests();
    }

    /// Checks one client's view of a room. Returns `true` if it believes that it waits.
    fn settle_seat(&mut self, room: usize, client: ClientIx, owned: &RoomView, watched: &Room) -> bool {
        let now = self.agenda.now();
        let socket = self.attentive_socket(client);
        let nowhere = ClientSeat::default();
        let seat = self.rooms.clients[client].seats.get(&room).unwrap_or(&nowhere);
        let ClientSeat { view, socket: informed_on, since, ended, .. } = seat;
        let settled = self.clients[client].away.covers_nothing(now.saturating_sub(MAX_EVENT_DELAY), now);
        let is_member = owned.members.contains_key(&client);
        // A leave without a result may have been carried out. Its client gets no more events then.
        let request =
            self.rooms.requests.iter().filter(|ask| (ask.from, ask.room) == (client, room) && ask.said.is_some());
        let may_be_out = request.clone().any(|ask| ask.what == RequestKind::Leave && !ask.answered);
        let settled = settled && !may_be_out && !self.may_have_left(client, room, *since);
        let may_be_lost = self.may_lack_seat(*since);
        // The `left` may be lost with the former socket.
        let was_operated = self.was_operated(client, room, *since);
        let wrong = match (view, socket) {
            (_, Some(socket)) if *informed_on != socket && may_be_lost => None,
            (SeatView::Waiting, Some(_)) if settled && is_member => {
                Some("it believes that it waits, and is in".to_owned())
            }
            (SeatView::Member(_) | SeatView::Waiting, Some(socket))
                if settled && *informed_on != socket && !was_operated =>
            {
                Some("it has resumed and received neither state nor position".to_owned())
            }
            (SeatView::Member(_), Some(_)) if settled && !is_member && self.was_ended(client, room, *since) => {
                Some("it believes that it is in, and an operator ended its seat".to_owned())
            }
            (SeatView::Member(room_view), Some(_)) if settled && !room_view.knows_others(owned, watched, client) => {
                Some(format!("it believes {room_view:?}, and the owner knows {owned:?}"))
            }
            (SeatView::Out, _) if is_member => {
                let open = request.filter(|ask| !ask.answered).filter_map(|ask| Some(ask.said?.1)).max();
                let over = ended.unwrap_or(0).max(open.unwrap_or(0)).max(*since);
                let is_over = ended.is_none() && open.is_none();
                let bound = if is_over { MAX_EVENT_DELAY } else { MAX_SESSION_END + self.rooms.stale() / 2 };
                (now - over > bound).then(|| "the owner still has it as a member".to_owned())
            }
            _ => None,
        };
        let waits = settled && socket == Some(*informed_on) && matches!(view, SeatView::Waiting);
        if let Some(wrong) = wrong {
            self.ledger.broken("room belief", format!("c{client} in r{room}: {wrong}"));
        }
        waits
    }

    /// Checks that clients with an uninterrupted socket got all their answers.
    fn settle_requests(&mut self) {
        for RoomRequest { from, room, what, said, .. } in self.rooms.requests.iter().filter(|ask| !ask.answered) {
            if let Some((socket, said)) = *said
                && self.agenda.now() - said > MAX_SESSION_END
                && self.attentive_socket(*from) == Some(socket)
            {
                self.ledger.broken("no outcome", format!("c{from} on socket {socket}, {what:?} of r{room}"));
            }
        }
    }

    /// Checks that all rooms and waiting queues are empty long after all clients left.
    pub(crate) fn check_rooms_are_empty(&mut self) {
        for room in 0..self.rooms.plan.capacities.len() {
            if let Some((owned, waiting)) = self.list(room)
                && (!owned.members.is_empty() || waiting > 0)
            {
                let what = format!("r{room}: {:?} are members, {waiting} wait", owned.members.keys());
                self.ledger.broken("room ghosts", what);
            }
        }
    }
}
