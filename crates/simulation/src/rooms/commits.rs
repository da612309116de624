//! The operations on rooms that nodes announce, and the checks of them.

use signaling_protocol::RoomName;
use signaling_rooms::{Change, LeftReason, OpResult, Operation, Request, Room, RoomCommit};
use signaling_wire::forward::LogPosition;

use super::number;
use crate::agenda::{MS, Micros};
use crate::world::World;

/// Time at which rooms get their capacities: all nodes have a view.
const CAPACITIES_AT: Micros = 500 * MS;

impl World {
    /// Checks the operations that a node announced, and takes its answers to operators.
    pub(crate) fn check_commits(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let rooms = node.core.rooms_mut();
        let (answers, commits) = (rooms.take_operator_answers(), rooms.take_commits());
        for commit in commits {
            self.observe_commit(index, commit);
        }
        self.operators_are_answered(answers);
    }

    /// Checks an announced operation. Former backups announce some again, which members ignore.
    fn observe_commit(&mut self, index: usize, commit: RoomCommit) {
        let now = self.agenda.now();
        let RoomCommit { room, owner, at, time, op, result, state } = commit;
        self.trace.line(|| {
            let Request { room, op } = Request { room: room.clone(), op: op.clone().unwrap_or(touch()) };
            format!("n{index} announces {room} {at:?}: {op:?} -> {}", describe(&result))
        });
        if signaling_protocol::ids::is_reserved(room.as_str()) {
            // The model has rooms of native clients only.
            self.subscribers.announces_were_lost |= result.settling;
            if result.capacity.is_some_and(|capacity| result.count >= u64::from(capacity)) {
                self.players.group_is_full(&state);
            }
            return;
        }
        if let Some(Operation::Join { requester, .. }) = &op
            && let Some(of) = number(requester.client.as_str()).zip(number(room.as_str()))
        {
            match result.outranked {
                Some(_) => self.rooms.outranked.insert(of),
                None => self.rooms.outranked.remove(&of),
            };
        }
        let view = self.nodes[index].server.version;
        let last = match self.rooms.observed.get(&room) {
            Some((last, other, others_view)) if at.epoch < last.epoch && owner != *other => {
                let index = owner.as_str().trim_start_matches('n').parse::<usize>().ok();
                let owners_view = index.and_then(|index| self.nodes.get(index)).map(|node| node.server.version);
                let views = [Some(view), owners_view];
                if !views.into_iter().flatten().any(|view| self.lacks_most(*others_view, view)) {
                    let what = format!("{owner} serves {room} in epoch {}, after {other} in {}", at.epoch, last.epoch);
                    self.ledger.broken("room owners", what);
                }
                return self.observe_split(&room, &result);
            }
            Some((last, ..)) if at <= *last => return,
            Some((last, ..)) => *last,
            None => LogPosition::default(),
        };
        self.rooms.observed.insert(room.clone(), (at, owner, view));
        let request = Request { room, op: op.unwrap_or(touch()) };
        if (at.epoch, at.number) == (last.epoch, last.number + 1) {
            if self.rooms.watch.detects_loss(&request.room, result.incarnation) {
                self.rooms.lost_at.push(now);
            }
            let begun = self.rooms.begun.entry(request.room.clone()).or_insert(now);
            *begun = now.saturating_sub(time * MS).min(*begun);
            let earliest = *begun + time * MS;
            self.check_bans((earliest, now), &request.room, &result.changes);
            return self.observe_operation((now, time * MS), &request, &result, &state);
        }
        self.rooms.begun.insert(request.room.clone(), now.saturating_sub(time * MS));
        if self.rooms.watch.adopt(now, &request.room, &state, &result) {
            self.rooms.lost_at.push(now);
            self.counters.add("rooms: owners without the latest operations", 1);
        }
        if let Some(room) = number(request.room.as_str()).filter(|_| result.settling) {
            self.rooms.settled_after.insert(room, now);
        }
    }

    /// Returns `true` if a view lacks more than half of the members of another one: they may live,
    /// and have a majority of their own.
    fn lacks_most(&self, view: Option<usize>, other: Option<usize>) -> bool {
        let (view, other) = (self.members_seen_by(view), self.members_seen_by(other));
        2 * other.intersection(&view).count() < other.len()
    }

    /// Records the changes of an owner outside the view of a later one, which lacks them.
    fn observe_split(&mut self, room: &RoomName, result: &OpResult) {
        if !result.changes.is_empty() {
            let now = self.agenda.now();
            self.rooms.watch.split(now, room, result);
            self.rooms.lost_at.push(now);
            self.counters.add("rooms: operations of another majority", 1);
        }
    }

    /// Checks an operation at a room time, the next one of its room, which is in `state` behind it.
    fn observe_operation(&mut self, (now, time): (Micros, Micros), request: &Request, result: &OpResult, state: &Room) {
        let rooms = &mut self.rooms;
        let (admitted, wrong) = rooms.watch.observe((now, time), request, result);
        let moved = rooms.watch.take_seats(&request.room, state);
        if let Some(room) = number(request.room.as_str()).filter(|_| result.settling) {
            rooms.settled_after.insert(room, now);
        }
        self.counters.add("rooms: admitted from the queue", admitted);
        self.counters.add("rooms: seats moved to another node", moved);
        for what in wrong {
            self.ledger.broken("room admission", what);
        }
        for change in &result.changes {
            if let Change::Left { client, reason: LeftReason::Expired } = change {
                self.counters.add("rooms: members expired", 1);
                let (client, room) = (number(client.as_str()), number(request.room.as_str()));
                if let Some((client, room)) = client.zip(room) {
                    self.check_expired(client, room);
                }
            }
        }
    }

    /// Returns the room as its owner has it, or an empty room. Several owners are a violation.
    pub(super) fn owned_room(&mut self, room: &RoomName) -> Room {
        let alive = self.nodes.iter().filter(|node| node.server.alive);
        let rooms: Vec<_> = alive.filter_map(|node| node.core.rooms().owned(room.as_str())).cloned().collect();
        if rooms.len() > 1 {
            self.ledger.broken("room owners", format!("{} nodes own {room}", rooms.len()));
        }
        rooms.into_iter().next().unwrap_or_else(|| Room::new(1))
    }

    /// Returns the planned rooms, with the capacity that an operator sets. `None`: none is set.
    pub(crate) fn capacities(&self) -> Vec<(RoomName, Option<u32>)> {
        let capacities = self.rooms.plan.capacities.iter().enumerate();
        let named = |(room, capacity): (usize, &Option<u32>)| {
            RoomName::new(&format!("r{room}")).ok().map(|room| (room, *capacity))
        };
        capacities.filter_map(named).collect()
    }

    /// Sets the capacity of rooms that have their own, through the first live node, if any, like an
    /// operator.
    pub(super) fn give_capacities(&mut self) {
        for (room, capacity) in self.rooms.plan.capacities.clone().into_iter().enumerate() {
            if let (Some(capacity), Ok(room)) = (capacity, RoomName::new(&format!("r{room}"))) {
                let request = Request { room, op: Operation::SetCapacity { capacity: Some(capacity) } };
                self.agenda.schedule(CAPACITIES_AT, move |world: &mut Self| {
                    let Some(index) = world.nodes.iter().position(|node| node.server.alive) else { return };
                    world.nodes[index].core.rooms_mut().request_for_operator(0, request);
                    world.node_turn(index);
                });
            }
        }
    }
}

fn touch() -> Operation {
    Operation::Claim { seats: Vec::new() }
}

/// Returns the result of an operation as text for the log.
fn describe(result: &OpResult) -> String {
    let OpResult { incarnation, version, capacity, count, waiting, changes, queue_moved, statuses, .. } = result;
    format!(
        "version {incarnation}/{version}, {count} of {capacity:?}, {waiting} wait, {changes:?}, moved {queue_moved}, {statuses:?}"
    )
}
