//! Requests of this node to the owners of rooms. Each is repeated until it is answered, so that the
//! crash of an owner, backup or lane loses none. For clients and operators it fails after 2 s.
//! A repeated operation has no second effect.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;
use signaling_wire::{Incarnation, RoomRequestId, codec};

use super::first_number;
use crate::seats::RoomTask;
use crate::{Context, OpRefusal, OpResult, Operation, Step, Unavailable};

/// Interval of repeated requests.
const REPEAT_INTERVAL: Duration = Duration::from_millis(300);
/// Time after which a request of a client or operator fails.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum joins that are kept because a further result may come.
const MAX_UNCERTAIN: usize = 10_000;
/// Pending requests above which operations in the background stay in their queue.
const MAX_BACKGROUND: usize = 10_000;

/// The node and number of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Requester {
    pub(super) node: NodeId,
    pub(super) id: RoomRequestId,
}

pub(super) struct Request {
    task: RoomTask,
    since: Instant,
    sent: Instant,
}

/// Requests without an answer.
#[derive(Default)]
pub(super) struct Requests {
    last: RoomRequestId,
    pub(super) pending: BTreeMap<RoomRequestId, Request>,
    /// Pending joins and leaves of clients.
    pub(super) moves: usize,
    /// Rooms with pending requests: their number, and the highest epoch announced meanwhile.
    rooms: BTreeMap<RoomName, (usize, u64)>,
    /// Joins of which a further result may come: they timed out, or were repeated.
    uncertain: BTreeMap<RoomRequestId, RoomTask>,
}

impl Requests {
    pub(super) fn new(incarnation: Incarnation) -> Self {
        Self { last: RoomRequestId(first_number(incarnation)), ..Self::default() }
    }

    /// Remembers a join whose result may still come. The oldest ones are forgotten.
    fn remember(&mut self, id: RoomRequestId, task: &RoomTask) {
        if let Operation::Join { .. } = task.request.op {
            self.uncertain.insert(id, task.without_data());
            if self.uncertain.len() > MAX_UNCERTAIN {
                self.uncertain.pop_first();
            }
        }
    }

    /// Records the epoch of an announced change. Pending requests have no result of an earlier one.
    pub(super) fn record_epoch(&mut self, room: &RoomName, epoch: u64) {
        if let Some((_, seen)) = self.rooms.get_mut(room) {
            *seen = epoch.max(*seen);
        }
    }

    /// Returns the highest epoch announced for a room with pending requests. 0: none.
    fn epoch(&self, room: &RoomName) -> u64 {
        self.rooms.get(room).map_or(0, |(_, epoch)| *epoch)
    }

    /// Returns the pending requests for which `is_wanted` returns `true`.
    fn ids(&self, is_wanted: impl Fn(&Request) -> bool) -> Vec<RoomRequestId> {
        self.pending.iter().filter(|(_, request)| is_wanted(request)).map(|(id, _)| *id).collect()
    }

    fn remove(&mut self, id: RoomRequestId) -> Option<Request> {
        let request = self.pending.remove(&id)?;
        self.moves -= usize::from(request.task.is_move());
        let room = &request.task.request.room;
        if let Some((pending, _)) = self.rooms.get_mut(room) {
            *pending -= 1;
            if *pending == 0 {
                self.rooms.remove(room);
            }
        }
        Some(request)
    }

    fn add(&mut self, now: Instant, task: RoomTask) -> RoomRequestId {
        self.last = self.last.plus(1);
        self.moves += usize::from(task.is_move());
        self.rooms.entry(task.request.room.clone()).or_default().0 += 1;
        self.pending.insert(self.last, Request { task, since: now, sent: now });
        self.last
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Sends the queued operations to the owners of their rooms. Background ones stay queued while
    /// 10,000 requests have no answer.
    pub fn send_room_tasks(&mut self) {
        while let Some(task) = self.local.next_task(self.mesh.requests.pending.len() < MAX_BACKGROUND) {
            let id = self.mesh.requests.add(self.now, task);
            self.send_request(id);
        }
    }

    /// Sends a request again, without seats that have ended meanwhile.
    fn send_again(&mut self, id: RoomRequestId) {
        let Some(Request { task, .. }) = self.mesh.requests.pending.get(&id) else { return };
        let room = &task.request.room;
        let Some(task) = task.without_seats(|session| !self.local.has_seat(session, room)) else {
            return self.send_request(id);
        };
        // Answers to the former request name other seats.
        let next = self.mesh.requests.add(self.now, task);
        self.mesh.requests.remove(id);
        self.send_request(next);
    }

    fn send_request(&mut self, id: RoomRequestId) {
        let Some(Request { task, sent, .. }) = self.mesh.requests.pending.get_mut(&id) else { return };
        *sent = self.now;
        let request = task.request.clone();
        let Some(owner) = self.mesh.owner_of(&request.room).and_then(|owner| NodeId::new(owner).ok()) else { return };
        let epoch = self.local.epoch(&request.room).max(self.mesh.requests.epoch(&request.room));
        if owner == self.mesh.id {
            let requester = Requester { node: owner, id };
            return self.room_requested(requester, (request.room, epoch), request.op);
        }
        let op = codec::to_bytes(&request.op);
        let item = Item::RoomRequest { id, room: request.room.as_str(), epoch, op: &op };
        // A lane without progress would deliver the request too late, and each repetition of it.
        if !self.cx.is_stalled(self.now, owner.as_str()) {
            self.send_item(&owner, &item, true);
        }
    }

    /// Sends the pending requests again to those owners for which `wanted` returns `true`.
    pub(super) fn resend_requests(&mut self, wanted: impl Fn(&str) -> bool) {
        let owner = |request: &Request| self.mesh.owner_of(&request.task.request.room);
        for id in self.mesh.requests.ids(|request| owner(request).is_some_and(&wanted)) {
            self.send_again(id);
        }
    }

    /// Ends requests of clients and operators after 2 s, and repeats the others every 300 ms.
    pub(super) fn repeat_requests(&mut self) {
        let is_over = |request: &Request| {
            request.task.is_awaited() && self.now.saturating_duration_since(request.since) >= TIMEOUT
        };
        let overdue = self.mesh.requests.ids(is_over);
        let overdue: Vec<_> = overdue.into_iter().filter_map(|id| Some((id, self.mesh.requests.remove(id)?))).collect();
        self.mesh.counts.timeouts += overdue.len() as u64;
        let is_due = |request: &Request| self.now.saturating_duration_since(request.sent) >= REPEAT_INTERVAL;
        let due = self.mesh.requests.ids(is_due);
        for (id, request) in &overdue {
            self.mesh.requests.remember(*id, &request.task);
        }
        for (_, request) in overdue {
            self.room_answered(request.task, Err(Unavailable("its owner does not answer".into())));
        }
        for id in due {
            self.send_again(id);
        }
    }

    /// Handles the request of a peer.
    pub(crate) fn room_requested_by(
        &mut self,
        sender: &NodeId,
        id: RoomRequestId,
        (room, seen): (&str, u64),
        op: &[u8],
    ) {
        match (RoomName::new(room), codec::from_bytes(op)) {
            (Ok(room), Ok::<Operation, _>(op)) if self.receive_number(op.highest_number()) => {
                self.room_requested(Requester { node: sender.clone(), id }, (room, seen), op);
            }
            _ => self.local.dropped += 1,
        }
    }

    /// Handles the result of a request of this node.
    pub(crate) fn room_result(&mut self, id: RoomRequestId, result: &[u8]) {
        match codec::from_bytes(result) {
            Ok(result) if self.receive_number(OpResult::highest_number(&result)) => self.request_answered(id, result),
            _ => self.local.dropped += 1,
        }
    }

    /// Handles the result of a request. A repeated one has no effect.
    pub(super) fn request_answered(&mut self, id: RoomRequestId, result: OpResult) {
        let pending = self.mesh.requests.pending.get(&id).map(|request| &request.task.request.room);
        let is_outdated =
            |room| self.local.is_outdated(room, result.epoch) || result.epoch < self.mesh.requests.epoch(room);
        if pending.is_some_and(is_outdated) {
            // The present owner gets the request again.
            return;
        }
        if let Some(Request { task, since, sent }) = self.mesh.requests.remove(id) {
            // A refused join leaves no trace in the room. Another process of the owner may get it
            // once more, and admit it then.
            if sent != since || result.refused.is_some() {
                self.mesh.requests.remember(id, &task);
            }
            if result.refused != Some(OpRefusal::NoBytes) {
                self.follow_epoch(&task.request.room, (result.epoch, result.base), result.stamp());
            }
            self.room_answered(task, Ok(result));
        } else if let Some(task) = self.mesh.requests.uncertain.get(&id).cloned() {
            self.joined_late(&task, &result);
        }
    }

    pub(super) fn send_result(&mut self, requester: &Requester, result: &OpResult) {
        let result = codec::to_bytes(result);
        self.send_item(&requester.node, &Item::RoomResult { id: requester.id, result: &result }, true);
    }
}
