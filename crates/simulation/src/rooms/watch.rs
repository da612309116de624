//! Checks the admission order and capacity of rooms, and records the changes of each.

use std::collections::BTreeMap;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{Change, OpResult, Operation, Request, Requester, Room as State, Rules, SeatStatus};
use signaling_wire::{Rank, SessionId};

use crate::agenda::{MS, Micros, micros};

/// Clocks of rooms have a resolution of 1 ms.
const ROUNDING: Micros = 2 * MS;

/// A seat, as after the latest observed operation.
#[derive(Debug, Clone)]
struct Seat {
    session: (Rank, SessionId),
    node: NodeId,
    /// Position in the waiting queue. `None` means a member.
    waits: Option<u64>,
    /// Room time at which the seat expires unless it is claimed.
    until: Micros,
}

/// Expected state of a room, from the results of operations.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    seats: BTreeMap<ClientId, Seat>,
    /// Changes, by the version that they made.
    pub(super) changes: BTreeMap<u64, Change>,
    /// Highest version so far.
    pub(super) newest: u64,
    /// Version of the last observed state.
    pub(super) version: u64,
    /// The owner lost versions up to this one. Others may have reused their numbers.
    pub(super) unsure_until: u64,
    /// Time of the last change, loss or adoption.
    pub(super) changed_at: Micros,
    /// Number of members.
    count: u64,
    incarnation: u64,
    /// `true` if the owner once lost members. Restored ones may exceed the capacity.
    was_emptied: bool,
}

/// Expected state of all rooms, to check owners against.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    rules: Rules,
    rooms: BTreeMap<RoomName, Room>,
}

impl Watch {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, rooms: BTreeMap::new() }
    }

    /// Returns a room. `None`: no operation has named it.
    pub(super) fn room(&self, room: &str) -> Option<&Room> {
        self.rooms.get(room)
    }

    /// Returns `true` if an owner has detected a loss within its epoch: the room has another
    /// incarnation than before. Restored members may exceed the capacity then.
    pub(super) fn detects_loss(&mut self, name: &RoomName, incarnation: u64) -> bool {
        let Some(room) = self.rooms.get_mut(name) else { return false };
        let is_loss = room.incarnation != 0 && room.incarnation != incarnation;
        room.was_emptied |= is_loss;
        is_loss
    }

    /// Adopts a room whose earlier operations are not known: from another owner, or with another
    /// backup. Returns `true` if it lacks operations that were observed.
    pub(super) fn adopt(&mut self, now: Micros, name: &RoomName, state: &State, result: &OpResult) -> bool {
        let room = self.rooms.entry(name.clone()).or_default();
        let (incarnation, before) = (std::mem::replace(&mut room.incarnation, result.incarnation), room.newest);
        let is_other = incarnation != 0 && incarnation != result.incarnation && !room.seats.is_empty();
        let is_lost = is_other || result.version.saturating_sub(result.changes.len() as u64) < before;
        if is_lost {
            room.was_emptied = true;
            room.unsure_until = before;
        }
        room.note(now, result);
        room.newest = room.newest.max(result.version);
        room.version = result.version;
        room.unsure_until = room.unsure_until.max(result.version.saturating_sub(result.changes.len() as u64));
        room.changed_at = now;
        room.count = result.count;
        self.take_seats(name, state);
        is_lost
    }

    /// Records changes that later owners lack: some members have these versions, others other ones.
    pub(super) fn split(&mut self, now: Micros, name: &RoomName, result: &OpResult) {
        let room = self.rooms.entry(name.clone()).or_default();
        room.was_emptied = true;
        room.unsure_until = room.unsure_until.max(result.version);
        room.changed_at = now;
    }

    /// Takes the seats and their expiry from a room. Returns the number of seats that moved to
    /// another node.
    pub(super) fn take_seats(&mut self, name: &RoomName, state: &State) -> u64 {
        let Some(room) = self.rooms.get_mut(name) else { return 0 };
        let seat = |(seat, expires): (&signaling_rooms::Seat, Option<u64>)| {
            let until = expires.map_or(Micros::MAX, |at| at.saturating_mul(MS));
            let waits = match seat.status {
                SeatStatus::Waiting { place, .. } => Some(place),
                _ => None,
            };
            let Requester { client, node, rank, session, .. } = seat.requester.clone();
            (client, Seat { session: (rank, session), node, waits, until })
        };
        let former = std::mem::replace(&mut room.seats, state.seats(&self.rules).map(seat).collect());
        let has_moved = |(client, seat): &(&ClientId, &Seat)| {
            let former = former.get(*client);
            former.is_some_and(|former| former.node != seat.node && former.session.1 == seat.session.1)
        };
        room.seats.iter().filter(has_moved).count() as u64
    }

    /// Checks the result of an operation at a room time against the seats before it. Returns the
    /// number of clients that it admitted from the waiting queue, and descriptions of broken rules.
    pub(super) fn observe(
        &mut self,
        (now, time): (Micros, Micros),
        request: &Request,
        result: &OpResult,
    ) -> (u64, Vec<String>) {
        let room = self.rooms.entry(request.room.clone()).or_default();
        let (mut admitted, mut wrong) = (0, Vec::new());
        let changed = room.note(now, result);
        let over = result.capacity.is_some_and(|capacity| result.count > u64::from(capacity));
        let may_be_over =
            room.was_emptied && (!changed.iter().any(|client| room.is_new(client)) || result.count <= room.count);
        let lowered = matches!(request.op, Operation::SetCapacity { .. });
        if over && !may_be_over && !lowered {
            let (count, capacity) = (result.count, result.capacity);
            wrong.push(format!("{} has {count} members of {capacity:?}: {:?}", request.room, request.op));
        }
        (room.count, room.incarnation, room.version) = (result.count, result.incarnation, result.version);
        match &request.op {
            // A leave that arrives again after a later command changes nothing.
            Operation::Leave { requester }
                if matches!(result.statuses[..], [SeatStatus::Out(_) | SeatStatus::Unknown]) =>
            {
                let session = (requester.rank, requester.session);
                room.seats.retain(|client, seat| *client != requester.client || seat.session > session);
            }
            Operation::Remove { client, .. } => {
                room.seats.remove(client);
            }
            Operation::Close { .. } => room.seats.clear(),
            Operation::Drop { requester, keep } => {
                room.end_session(time, requester, micros(*keep));
            }
            _ => {}
        }
        if let Operation::Restore { seats, .. } = &request.op {
            // Restored members take their seats again before the queue moves.
            for (seat, status) in seats.iter().zip(&result.statuses) {
                if let (Some(known), SeatStatus::Member { .. }) = (room.seats.get_mut(&seat.requester.client), status) {
                    known.waits = None;
                }
            }
        }
        for change in &result.changes {
            let Change::Joined(member) = change else { continue };
            let from_queue = match room.seats.get_mut(&member.client) {
                Some(seat) if seat.waits.is_none() => continue,
                Some(seat) => seat.waits.take(),
                None => None,
            };
            admitted += u64::from(from_queue.is_some());
            let place = from_queue.unwrap_or(u64::MAX);
            if let Some(passed) = room.first_before(place, time + ROUNDING) {
                wrong.push(format!("{} passes {passed} in the queue for {}", member.client, request.room));
            }
        }
        (admitted, wrong)
    }
}

impl Room {
    /// Records the changes. Returns the clients that joined or changed their data.
    fn note(&mut self, now: Micros, result: &OpResult) -> Vec<ClientId> {
        let mut changed = Vec::new();
        let start = result.version - result.changes.len() as u64;
        for (version, change) in (start + 1..).zip(&result.changes) {
            self.changes.insert(version, change.clone());
            self.newest = self.newest.max(version);
            self.changed_at = now;
            match change {
                Change::Joined(member) => changed.push(member.client.clone()),
                Change::Left { client, .. } => {
                    self.seats.remove(client);
                }
            }
        }
        changed
    }

    /// Returns a client in front of `place` in the waiting queue whose seat has not expired by
    /// then.
    fn first_before(&self, place: u64, then: Micros) -> Option<&ClientId> {
        let is_before = |seat: &Seat| seat.waits.is_some_and(|at| at < place) && seat.until > then;
        self.seats.iter().find(|(_, seat)| is_before(seat)).map(|(client, _)| client)
    }

    fn is_new(&self, client: &ClientId) -> bool {
        self.seats.get(client).is_none_or(|seat| seat.waits.is_some())
    }

    fn end_session(&mut self, time: Micros, requester: &Requester, keep: Micros) {
        if let Some(seat) = self.seats.get_mut(&requester.client)
            && seat.session.1 == requester.session
            && seat.node == requester.node
        {
            seat.until = seat.until.min(time + keep);
        }
    }
}
