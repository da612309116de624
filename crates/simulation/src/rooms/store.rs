//! The store: the real rules behind a simulated network, with outages and data loss.

use signaling_core::node::Urgency;
use signaling_protocol::RoomName;
use signaling_rooms::{Change, LeftReason, Op, OpResult, Request, Room, StoreError};

use super::number;
use crate::agenda::{MS, Micros};
use crate::event::{Host, Kind, NodeProcess};
use crate::world::World;

/// Start of the world on the store's clock, in milliseconds.
pub(super) const EPOCH_MS: u64 = 1_700_000_000_000;
/// Time at which rooms that nodes own get their capacities: all nodes have a view.
const CAPACITIES_AT: Micros = 500 * MS;
/// Maximum time of a call to a store that does not answer.
const MAX_CALL: Micros = 2_000 * MS;

impl World {
    /// Sends a node's pending tasks to the store, one batch of each urgency at a time. If nodes own
    /// the rooms, checks what the node announced instead.
    pub(crate) fn ask_store(&mut self, index: usize) {
        if self.rooms.plan.mesh {
            return self.run_mesh_rooms(index);
        }
        let node = &mut self.nodes[index];
        let process = (index, node.server.generation);
        for urgency in Urgency::ALL {
            let asked = &mut node.asked[urgency as usize];
            if asked.is_some() || !node.core.wants_store(urgency) {
                continue;
            }
            let tasks = node.core.take_room_tasks(urgency);
            let requests: Vec<_> = tasks.iter().map(|task| task.request().clone()).collect();
            *asked = Some(tasks);
            let delay = self.rooms.rng.delay();
            self.agenda.after(delay, move |world: &mut Self| world.store_is_asked(process, urgency, &requests));
        }
    }

    fn store_is_asked(&mut self, (node, generation): NodeProcess, urgency: Urgency, requests: &[Request]) {
        let now = self.agenda.now();
        let away = !self.rooms.plan.away.covers_nothing(now, now + 1);
        let mut delay = self.rooms.rng.delay();
        let mut answers = Vec::new();
        // A failed operation may still have been executed.
        if !away || self.rooms.rng.percent(30) {
            answers = requests.iter().map(|request| self.answer_of(request)).collect();
        }
        if away {
            delay = self.rooms.rng.within(delay, MAX_CALL);
            answers = requests.iter().map(|_| Err(StoreError("away".into()))).collect();
        }
        let arrive = move |world: &mut Self| world.store_answers(node, urgency, answers);
        self.deliver(now + delay, (Host::Node(node), generation), Kind::Received, arrive);
    }

    fn answer_of(&mut self, request: &Request) -> Result<OpResult, StoreError> {
        Ok(self.store_applies(request))
    }

    fn store_answers(&mut self, index: usize, urgency: Urgency, answers: Vec<Result<OpResult, StoreError>>) {
        let node = &mut self.nodes[index];
        let Some(tasks) = node.asked[urgency as usize].take() else { return };
        for (task, answer) in tasks.into_iter().zip(answers) {
            node.core.room_answered(self.agenda.instant(), task, answer);
        }
    }

    /// Applies an operation to the store and checks its result.
    pub(super) fn store_applies(&mut self, request: &Request) -> OpResult {
        let now = self.agenda.now();
        let result = self.rooms.store.apply(EPOCH_MS + now / MS, request);
        self.trace.line(|| format!("store {}: {:?} -> {}", request.room, request.op, describe(&result)));
        let state = self.rooms.store.room(&request.room).cloned().unwrap_or_default();
        self.observe_operation(now, request, &result, &state);
        result
    }

    /// Checks an operation, the next one of its room, which is in `state` behind it.
    pub(super) fn observe_operation(&mut self, now: Micros, request: &Request, result: &OpResult, state: &Room) {
        let rooms = &mut self.rooms;
        let (admitted, wrong) = rooms.watch.observe(now, request, result);
        let moved = rooms.watch.take_seats(&request.room, state);
        rooms.changes += result.changes.len() as u64;
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

    /// Replaces the store by an empty one.
    pub(crate) fn store_is_emptied(&mut self) {
        let now = self.agenda.now();
        self.trace.line(|| "FAULT the room store loses everything".to_owned());
        self.counters.add("rooms: store emptied", 1);
        self.rooms.store.replaced(EPOCH_MS + now / MS);
        self.rooms.watch.clear(now);
    }

    /// Keeps a copy of the store for [`World::store_is_set_back`].
    pub(crate) fn store_is_copied(&mut self) {
        self.rooms.copy = Some((self.rooms.store.clone(), self.rooms.watch.clone(), self.rooms.changes));
    }

    /// Restarts the store from its copy: later changes are lost.
    pub(crate) fn store_is_set_back(&mut self) {
        let now = self.agenda.now();
        let Some((mut store, watch, changes)) = self.rooms.copy.take() else { return };
        let lost = self.rooms.changes - changes;
        self.trace.line(|| format!("FAULT the room store loses the last {lost} changes"));
        store.restarted(EPOCH_MS + now / MS);
        self.rooms.store = store;
        self.counters.add("rooms: store lost its last writes", u64::from(lost > 0));
        self.rooms.watch.is_set_back(now, watch);
    }

    /// Sets the capacity of rooms that have their own.
    pub(super) fn give_capacities(&mut self) {
        for (room, capacity) in self.rooms.plan.capacities.clone().into_iter().enumerate() {
            if let (Some(capacity), Ok(room)) = (capacity, RoomName::new(&format!("r{room}"))) {
                let request = Request { room, op: Op::SetCapacity { capacity: Some(capacity) } };
                match self.rooms.plan.mesh {
                    true => self.agenda.schedule(CAPACITIES_AT, move |world: &mut Self| world.give_capacity(request)),
                    false => drop(self.store_applies(&request)),
                }
            }
        }
    }
}

/// Returns the result of an operation as text for the log.
pub(super) fn describe(result: &OpResult) -> String {
    let OpResult { incarnation, version, capacity, count, waiting, changes, queue_moved, statuses, .. } = result;
    format!(
        "version {incarnation}/{version}, {count} of {capacity:?}, {waiting} wait, {changes:?}, moved {queue_moved}, {statuses:?}"
    )
}
