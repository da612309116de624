//! Operations for the owners of rooms, and the handling of their answers.

use std::time::Instant;

use signaling_protocol::RoomName;
use signaling_wire::{Seq, SessionId};

use super::changes::STATE_RETRY;
use super::{LocalRooms, RoomAnswer};
use crate::{Context, OpResult, Operation, Request, Rooms, SocketKey, Stamp, Step, Unavailable};

/// Queued operations of one urgency at which operations on seats are skipped if no client waits for
/// them. The numbers of sessions and rooms bound the others.
const MAX_WAITING: usize = 50_000;

/// Priority of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Commands of clients, requests of operators, and states of rooms that clients lack.
    Urgent,
    /// Seats are claimed, restored or dropped, or the state of a room that may be lost is
    /// requested.
    Background,
}

impl Urgency {
    pub(super) const COUNT: usize = 2;
}

/// One operation on a room, and the purpose of its answer.
#[derive(Debug, Clone)]
pub(crate) struct RoomTask {
    pub(super) purpose: Purpose,
    pub(crate) request: Request,
}

/// Reason of an operation, which determines the use of its answer.
#[derive(Debug, Clone)]
pub(super) enum Purpose {
    /// The first command in the queue of the session: the uplink frame `seq` of the socket `key`.
    /// The answer finishes it only while it is the first.
    Command { session: SessionId, key: SocketKey, seq: Seq },
    /// Seats are claimed or restored. `known` is the state that this node followed before, and
    /// `sent` the latest one that their clients have, maybe from other nodes.
    Seats { known: Stamp, sent: Stamp },
    /// Clients here need the whole state, requested at this time.
    State { requested: Instant },
    /// An operator waits for the answer, by this number.
    Operator(u64),
    /// A seat is dropped, or a client that closed leaves.
    Upkeep,
}

impl RoomTask {
    /// Returns `true` if the operation is of a client or operator, and so fails after 2 s. Others
    /// are repeated until an answer comes.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.purpose, Purpose::Command { .. } | Purpose::Operator(_))
    }

    /// Returns `true` for a client's command that joins or leaves the room.
    pub(crate) fn is_move(&self) -> bool {
        matches!(self.purpose, Purpose::Command { .. })
            && matches!(self.request.op, Operation::Join { .. } | Operation::Leave { .. })
    }

    /// Returns the task without the seats of sessions for which `is_over` returns `true`; it can
    /// have none left. `None`: it has no such seat, or is no claim or restore.
    pub(crate) fn without_seats(&self, is_over: impl Fn(SessionId) -> bool) -> Option<Self> {
        let mut task = self.clone();
        let (Operation::Claim { seats } | Operation::Restore { seats, .. }) = &mut task.request.op else { return None };
        let before = seats.len();
        seats.retain(|seat| !is_over(seat.requester.session));
        (seats.len() < before).then_some(task)
    }

    /// Returns the task of a join without its data, which a late result does not need.
    pub(crate) fn without_data(&self) -> Self {
        let mut op = self.request.op.clone();
        if let Operation::Join { data, .. } = &mut op {
            *data = None;
        }
        Self { purpose: self.purpose.clone(), request: Request { room: self.request.room.clone(), op } }
    }
}

impl<M> LocalRooms<M> {
    /// Queues an operation for the owner. While 50,000 of its urgency are queued, work on seats is
    /// skipped and counts as a failure. A seat whose drop or leave is skipped stays until its owner
    /// unclaims it: once this node leaves, or the owner changes.
    pub(super) fn enqueue(&mut self, urgency: Urgency, purpose: Purpose, room: RoomName, op: Operation) {
        let tasks = &mut self.tasks[urgency as usize];
        if tasks.len() >= MAX_WAITING && matches!(purpose, Purpose::Seats { .. } | Purpose::Upkeep) {
            self.counts.failures += 1;
        } else {
            tasks.push_back(RoomTask { purpose, request: Request { room, op } });
        }
    }

    /// Takes the next operation, an urgent one first, a background one only `with_background`.
    /// `None`: none is queued.
    pub(crate) fn next_task(&mut self, with_background: bool) -> Option<RoomTask> {
        let [urgent, background] = &mut self.tasks;
        urgent.pop_front().or_else(|| background.pop_front_if(|_| with_background))
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Handles the answer of the owner to a task: answers its client or operator. The answer has no
    /// changes: the node that announces the operation sends them separately. `Err`: no result; the
    /// operation may have been applied or not. A client's command is then refused as
    /// `room_unavailable`; earlier answers can decide a signal.
    pub(crate) fn room_answered(&mut self, task: RoomTask, answer: Result<OpResult, Unavailable>) {
        let RoomTask { purpose, request: Request { room, op } } = task;
        self.local.counts.failures += u64::from(answer.is_err());
        if let Purpose::Operator(number) = purpose {
            self.local.operator_answers.push((number, answer.clone()));
        }
        let Ok(result) = answer else { return self.owner_failed(&room, &purpose, op) };
        if let (Some(why), &Purpose::Command { session, key, seq }) = (result.refused, &purpose) {
            return self.join_refused((session, key, seq), &room, why);
        }
        if let (Some(above), &Purpose::Command { session, key, seq }) = (result.outranked, &purpose) {
            return self.outranked((session, key, seq), above);
        }
        self.charge(&purpose, (&room, &op), &result);
        let is_state = matches!(purpose, Purpose::State { .. });
        let is_lost = !is_state && self.detect_loss(&room, &purpose, result.stamp());
        let is_valid = match (&purpose, &op) {
            (Purpose::Seats { sent, .. }, Operation::Claim { seats }) => {
                // If the whole room may be lost, this answer is outdated: all seats are restored.
                is_lost
                    || !self.local.restore_later(&room, seats, *sent, result.stamp())
                        && self.seats_answered(&room, seats, &result, true)
            }
            (Purpose::Seats { .. }, Operation::Restore { seats, .. }) => {
                self.seats_answered(&room, seats, &result, false)
            }
            (&Purpose::State { requested }, _) => self.state_answered(requested, &room, &result),
            (&Purpose::Command { session, key, seq }, _) => {
                self.command_answered((session, key, seq), &room, &result);
                if let Operation::Join { requester, .. } = &op {
                    self.drop_unknown_seat(session, &room, requester.clone());
                    self.claim_joined_seat_again(&room, requester);
                }
                true
            }
            _ => true,
        };
        if !is_lost && !result.settling {
            self.local.record_capacity(&room, result.capacity);
        }
        if is_valid {
            self.room_changed(&room, result.stamp(), Vec::new(), false);
        }
        if matches!(purpose, Purpose::Seats { .. }) {
            // A member that was just admitted from the queue needs the state.
            self.request_state(&room);
        }
    }

    /// Handles a further result of a join, which was answered before or failed after 2 s. A seat by
    /// it expires, unless the session has the seat here or claims it again. No effect for other
    /// tasks.
    pub(crate) fn joined_late(&mut self, task: &RoomTask, result: &OpResult) {
        self.charge(&task.purpose, (&task.request.room, &task.request.op), result);
        let has_seat = result.statuses.first().is_some_and(|status| status.is_present());
        if let (Purpose::Command { session, .. }, Operation::Join { requester, .. }) = (&task.purpose, &task.request.op)
            && has_seat
        {
            // Later operations of the session have a later attachment or number.
            self.local.drop_seat(*session, &task.request.room, requester.clone());
        }
    }

    /// Handles a request without a result. Dropped seats expire, and a client's command fails.
    fn owner_failed(&mut self, room: &RoomName, purpose: &Purpose, op: Operation) {
        match *purpose {
            Purpose::Command { session, key, seq } => {
                match op {
                    Operation::Join { requester, .. } => self.drop_unknown_seat(session, room, requester),
                    // The command may be carried out later.
                    Operation::Leave { .. } => self.local.schedule_claim(room, session),
                    _ => {}
                }
                self.command_failed((session, key, seq));
            }
            Purpose::State { .. } => self.local.retry_state(room, self.now + STATE_RETRY),
            Purpose::Seats { .. } | Purpose::Operator(_) | Purpose::Upkeep => {}
        }
    }
}

impl<M> Rooms<M> {
    /// Returns `true` if operations wait for [`Step::send_room_tasks`].
    #[inline]
    pub fn has_unsent_tasks(&self) -> bool {
        self.local.tasks.iter().any(|tasks| !tasks.is_empty())
    }

    /// Queues an operation for an operator. [`Self::take_operator_answers`] returns its answer by
    /// this number.
    pub fn request_for_operator(&mut self, number: u64, Request { room, op }: Request) {
        self.local.enqueue(Urgency::Urgent, Purpose::Operator(number), room, op);
    }

    /// Takes the answers for operators, each with the number of its request. `Err`: no result; the
    /// operation may have been applied or not.
    pub fn take_operator_answers(&mut self) -> Vec<RoomAnswer> {
        std::mem::take(&mut self.local.operator_answers)
    }
}
