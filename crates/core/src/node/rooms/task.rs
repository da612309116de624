//! What the store is asked, and for whom.

use std::time::Instant;

use signaling_protocol::RoomName;
use signaling_rooms::{Op, Outcome, Request, Stamp, StoreError};
use signaling_wire::SessionId;

use super::super::{NodeCore, SessionKey};
use super::Rooms;

/// Most operations of one batch: an answer to them takes a few milliseconds.
const BATCH: usize = 200;

/// Most that wait, but for what each session and room asks one of at a time. While the store stands
/// still, a batch is given up every two seconds, and clients come and go.
const MAX_WAITING: usize = 50_000;

/// Whether somebody waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A client does.
    Urgent,
    /// Nobody does: seats are kept alive.
    Background,
}

impl Urgency {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Urgent, Self::Background];
}

/// One operation on a room, and what its answer is for.
#[derive(Debug)]
pub struct RoomTask {
    pub(super) purpose: Purpose,
    request: Request,
}

#[derive(Debug)]
pub(super) enum Purpose {
    /// The first command of a session's queue.
    Command { session: SessionId, at: SessionKey, seq: u64 },
    /// Seats are kept alive, or given back: whose, the number of the last command that each of them
    /// knows, and the state of the room that was known here.
    Seats { seats: Vec<(SessionId, u64)>, known: Stamp },
    /// Whether the store still is what it was.
    Probe,
    /// Clients here are to be given the whole state.
    State,
    /// A seat is given up.
    Farewell,
    /// A room gets the capacity that the token of one who joins it says.
    Capacity,
}

impl RoomTask {
    pub(super) fn new(purpose: Purpose, room: RoomName, op: Op) -> Self {
        Self { purpose, request: Request { room, op } }
    }

    /// What the store is to carry out.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }
}

impl Rooms {
    /// Has the store asked something. What nobody waits for is left out when too much waits: a seat
    /// goes by itself in time, and the next round of refreshes has all that are here.
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
    /// Whether the store is to be asked anything.
    #[must_use]
    pub fn wants_store(&self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Urgent => !self.rooms.urgent.is_empty(),
            Urgency::Background => !self.rooms.background.is_empty(),
        }
    }

    /// Takes what the store is to be asked next. One batch of each urgency is under way at a time:
    /// a client's commands keep their order.
    pub fn take_room_tasks(&mut self, urgency: Urgency) -> Vec<RoomTask> {
        let tasks = match urgency {
            Urgency::Urgent => &mut self.rooms.urgent,
            Urgency::Background => &mut self.rooms.background,
        };
        tasks.drain(..tasks.len().min(BATCH)).collect()
    }

    /// The store has answered, or has not.
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
                // If the whole room may be lost, all who are here are given back.
                let may_restore = matches!(op, Op::Refresh { .. }) && !is_lost;
                let all_known = self.seats_answered(now, &room, &seats, &outcome, may_restore);
                if all_known || !outcome.changes.is_empty() {
                    self.room_changed(now, &room, outcome.stamp(), outcome.changes, outcome.line_moved);
                }
                // Of one that is let in it is known only now.
                self.ask_state(now, &room);
            }
            (Purpose::State, Ok(outcome)) => self.state_answered(now, &room, outcome),
            (Purpose::Farewell | Purpose::Capacity | Purpose::Probe, Ok(outcome)) => {
                self.room_changed(now, &room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            (Purpose::State, Err(_)) => self.state_unknown(now, &room),
            // Once the store answers they are refreshed, what is given up goes by itself, and who
            // wanted to join is told.
            (Purpose::Seats { .. } | Purpose::Farewell | Purpose::Capacity | Purpose::Probe, Err(_)) => {}
        }
    }

    /// Somebody else at this process has had the store change a room.
    pub fn room_was_changed(&mut self, now: Instant, room: &RoomName, outcome: Outcome) {
        self.tell_nodes(room, &outcome);
        self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
    }
}
