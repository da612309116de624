//! Operations for the room store, and the handling of its answers.

use std::time::Instant;

use signaling_protocol::RoomName;
use signaling_rooms::{Op, Outcome, Request, Stamp, StoreError};
use signaling_wire::SessionId;

use super::super::{NodeCore, SessionKey};
use super::Rooms;

/// Maximum operations of one batch. The store needs a few milliseconds for it.
const BATCH: usize = 200;

/// Maximum queued operations. Beyond it, refreshes, probes and drops are skipped. While the store
/// hangs, each batch fails after 2 s and clients attach and detach meanwhile.
const MAX_WAITING: usize = 50_000;

/// Priority of a store operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A client waits for the answer.
    Urgent,
    /// No client waits for the answer: the operation keeps seats alive.
    Background,
}

impl Urgency {
    /// All priorities.
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Background];
}

/// One operation on a room, and the purpose of its answer.
#[derive(Debug)]
pub struct RoomTask {
    pub(super) purpose: Purpose,
    request: Request,
}

#[derive(Debug)]
pub(super) enum Purpose {
    /// The first command in the queue of a session.
    Command { session: SessionId, at: SessionKey, seq: u64 },
    /// Seats are refreshed or restored. `seats` has the sessions with the number of the last
    /// command for each seat. `known` is the room's state at this node.
    Seats { seats: Vec<(SessionId, u64)>, known: Stamp },
    /// Checks that the store has not lost the room.
    Probe,
    /// Clients here need the whole state.
    State,
    /// A seat is dropped.
    Farewell,
    /// The token of a joining client sets the capacity of the room.
    Capacity,
}

impl RoomTask {
    pub(super) fn new(purpose: Purpose, room: RoomName, op: Op) -> Self {
        Self { purpose, request: Request { room, op } }
    }

    /// Returns the request for the store.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }
}

impl Rooms {
    /// Queues an operation for the store. A full queue skips background work: dropped seats expire
    /// in time, and the next refresh includes all seats.
    pub(super) fn ask(&mut self, urgency: Urgency, task: RoomTask) {
        let tasks = match urgency {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Background => &mut self.background,
        };
        if tasks.len() >= MAX_WAITING
            && matches!(task.purpose, Purpose::Seats { .. } | Purpose::Farewell | Purpose::Probe)
        {
            self.counts.failures += 1;
        } else {
            tasks.push_back(task);
        }
    }
}

impl NodeCore {
    /// Returns `true` if operations are queued for the store.
    #[must_use]
    pub fn wants_store(&self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Urgent => !self.rooms.urgent.is_empty(),
            Urgency::Background => !self.rooms.background.is_empty(),
        }
    }

    /// Takes the next batch for the store. The caller runs one batch of each urgency at a time,
    /// which keeps a client's commands in order.
    pub fn take_room_tasks(&mut self, urgency: Urgency) -> Vec<RoomTask> {
        let tasks = match urgency {
            Urgency::Urgent => &mut self.rooms.urgent,
            Urgency::Background => &mut self.rooms.background,
        };
        tasks.drain(..tasks.len().min(BATCH)).collect()
    }

    /// Takes in the store's answer to a task.
    pub fn room_answered(&mut self, now: Instant, task: RoomTask, answer: Result<Outcome, StoreError>) {
        let RoomTask { purpose, request: Request { room, op } } = task;
        self.rooms.counts.failures += u64::from(answer.is_err());
        self.rooms.store_answered(now, answer.is_ok());
        let mut is_lost = false;
        if let Ok(outcome) = &answer {
            self.tell_nodes(&room, outcome);
            is_lost = !matches!(purpose, Purpose::State) && self.look_for_loss(now, &room, &purpose, outcome.stamp());
        }
        match (purpose, answer) {
            (Purpose::Command { session, at, seq }, answer) => {
                self.command_answered(now, (session, at, seq), &room, answer);
            }
            (Purpose::Seats { seats, .. }, Ok(outcome)) => {
                // If the whole room may be lost, all seats of this node are restored.
                let may_restore = matches!(op, Op::Refresh { .. }) && !is_lost;
                let all_known = self.seats_answered(now, &room, &seats, &outcome, may_restore);
                if all_known || !outcome.changes.is_empty() {
                    self.room_changed(now, &room, outcome.stamp(), outcome.changes, outcome.line_moved);
                }
                // A member that was just let in from the queue needs the state.
                self.ask_state(now, &room);
            }
            (Purpose::State, Ok(outcome)) => self.state_answered(now, &room, outcome),
            (Purpose::Farewell | Purpose::Capacity | Purpose::Probe, Ok(outcome)) => {
                self.room_changed(now, &room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            (Purpose::State, Err(_)) => self.state_unknown(now, &room),
            // The next refresh repeats this, dropped seats expire, and the joining client receives
            // the error.
            (Purpose::Seats { .. } | Purpose::Farewell | Purpose::Capacity | Purpose::Probe, Err(_)) => {}
        }
    }

    /// Takes in a room change that another part of this process made.
    pub fn room_was_changed(&mut self, now: Instant, room: &RoomName, outcome: Outcome) {
        self.tell_nodes(room, &outcome);
        self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
    }
}
