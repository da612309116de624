//! Rooms that nodes own: the operations that nodes announce, checked like those of a store.

use signaling_core::node::RoomCommit;
use signaling_protocol::RoomName;
use signaling_rooms::{Op, Request, Room};

use super::number;
use crate::agenda::MS;
use crate::world::World;

impl World {
    /// Checks the operations that a node announced. Drops its answers to operators.
    pub(super) fn run_mesh_rooms(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.core.take_operator_answers();
        for commit in node.core.take_room_commits() {
            self.observe_commit(index, commit);
        }
    }

    /// Checks an announced operation. Former backups announce some again, which members ignore.
    fn observe_commit(&mut self, index: usize, commit: RoomCommit) {
        let now = self.agenda.now();
        let RoomCommit { room, at, clock, op, result, state } = commit;
        self.trace.line(|| {
            let Request { room, op } = Request { room: room.clone(), op: op.clone().unwrap_or(touch()) };
            format!("n{index} announces {room} {at:?}: {op:?} -> {}", super::store::describe(&result))
        });
        if signaling_protocol::ids::is_reserved(room.as_str()) {
            // The model has rooms of native clients only.
            self.subscribers.announces_were_lost |= result.settling;
            if result.capacity.is_some_and(|capacity| result.count >= u64::from(capacity)) {
                self.players.group_is_full(&state);
            }
            return;
        }
        let last = self.rooms.observed.get(&room).copied().unwrap_or_default();
        if at <= last {
            return;
        }
        self.rooms.observed.insert(room.clone(), at);
        let request = Request { room, op: op.unwrap_or(touch()) };
        if (at.epoch, at.number) == (last.epoch, last.number + 1) {
            if self.rooms.watch.detects_loss(&request.room, result.incarnation) {
                self.rooms.lost_at.push(now);
            }
            let then = clock.saturating_sub(super::store::EPOCH_MS) * MS;
            return self.observe_operation(then, &request, &result, &state);
        }
        if self.rooms.watch.adopt(now, &request.room, &state, &result) {
            self.rooms.lost_at.push(now);
            self.counters.add("rooms: owners without the latest operations", 1);
        }
        if let Some(room) = number(request.room.as_str()).filter(|_| result.settling) {
            self.rooms.settled_after.insert(room, now);
        }
    }

    /// Returns the room as its owner has it, or an empty room. Several owners are a violation.
    pub(super) fn owned_room(&mut self, room: &RoomName) -> Room {
        let alive = self.nodes.iter().filter(|node| node.server.alive);
        let rooms: Vec<_> = alive.filter_map(|node| node.core.owned_room(room.as_str())).cloned().collect();
        if rooms.len() > 1 {
            self.ledger.broken("room owners", format!("{} nodes own {room}", rooms.len()));
        }
        rooms.into_iter().next().unwrap_or_default()
    }

    /// Sets a room's capacity through the first live node, if any, like an operator.
    pub(super) fn give_capacity(&mut self, request: Request) {
        let Some(index) = self.nodes.iter().position(|node| node.server.alive) else { return };
        self.nodes[index].core.request_for_operator(0, request);
        self.node_turn(index);
    }
}

fn touch() -> Op {
    Op::Refresh { seats: Vec::new() }
}
