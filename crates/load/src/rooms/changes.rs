//! Each change of a room, its answer, and the residents that received it, for `clients`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::assignment::Assignment;
use crate::latency::Latencies;

/// Joins and leaves, numbered from 0, and the clients that received them. Times are microseconds on
/// the run's clock.
#[derive(Debug, Default)]
pub(super) struct Changes {
    assignment: Assignment,
    seat_by_client: Vec<SeatState>,
    last_leave_by_client: Vec<Option<u64>>,
    open_by_number: BTreeMap<u64, Change>,
    next: u64,
    measured_from_us: u64,
    pub(super) totals: ChangeTotals,
    /// Times from a visitor's intended join to its answer.
    pub(super) joins: Latencies,
    /// Times from a visitor's intended leave to its answer.
    pub(super) leaves: Latencies,
    /// Times from the intended join or leave to its receipt by a resident of the room.
    pub(super) events: Latencies,
}

/// Counts of changes, also those before the run if they are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ChangeTotals {
    /// Scheduled changes that were requested.
    pub(super) begun: u64,
    pub(super) answered: u64,
    /// Changes that a server answered by an error.
    pub(super) refused: u64,
    /// Turns of visitors whose last change had no answer.
    pub(super) late: u64,
    /// Single changes that residents received.
    pub(super) received: u64,
    /// Changes that residents received only with a whole room state.
    pub(super) received_by_state: u64,
    /// Changes that a resident received again.
    pub(super) duplicated: u64,
    /// Whole room states received by clients that were in the room already.
    pub(super) resyncs: u64,
    /// Clients that were removed from a room without a request.
    pub(super) removed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeatState {
    Out,
    In,
    /// Joining by the change of this number.
    Joining(u64),
    Leaving(u64),
}

#[derive(Clone, Debug)]
struct Change {
    client: usize,
    act: Act,
    begun_us: u64,
    is_answered: bool,
    unreceived: BTreeSet<usize>,
}

/// Members of a room, each with the change by which it joined.
pub(super) type Members = BTreeMap<usize, Option<u64>>;

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Join,
    Leave,
}

impl Changes {
    pub(super) fn new(assignment: Assignment) -> Self {
        let clients = assignment.clients();
        Self {
            assignment,
            seat_by_client: vec![SeatState::Out; clients],
            last_leave_by_client: vec![None; clients],
            measured_from_us: u64::MAX,
            ..Self::default()
        }
    }

    /// Measures the times of changes that begin from now on.
    pub(super) fn measure_from(&mut self, now_us: u64) {
        self.measured_from_us = now_us;
    }

    /// Records a join before the run and returns its number. Its receipt by others is not counted.
    pub(super) fn joins_first(&mut self, client: usize, at_us: u64) -> u64 {
        self.open(client, Act::Join, at_us, BTreeSet::new())
    }

    /// Records the next join or leave of a visitor and returns its number. Returns `None` if the
    /// last one has no answer yet.
    pub(super) fn begin(&mut self, client: usize, at_us: u64) -> Option<(u64, Act)> {
        let act = match self.seat_by_client[client] {
            SeatState::Out => Act::Join,
            SeatState::In => Act::Leave,
            SeatState::Joining(_) | SeatState::Leaving(_) => {
                self.totals.late += 1;
                return None;
            }
        };
        let residents = self.assignment.residents(self.assignment.room(client)).collect();
        let number = self.open(client, act, at_us, residents);
        self.totals.begun += 1;
        if act == Act::Leave {
            self.last_leave_by_client[client] = Some(number);
        }
        Some((number, act))
    }

    fn open(&mut self, client: usize, act: Act, begun_us: u64, unreceived: BTreeSet<usize>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.seat_by_client[client] =
            if act == Act::Join { SeatState::Joining(number) } else { SeatState::Leaving(number) };
        self.open_by_number.insert(number, Change { client, act, begun_us, is_answered: false, unreceived });
        number
    }

    /// Records the room state that a client received. `members` is `None` for an incomplete state.
    pub(super) fn joined(&mut self, client: usize, members: Option<&Members>, now_us: u64) {
        match self.seat_by_client[client] {
            SeatState::Joining(number) => {
                self.seat_by_client[client] = SeatState::In;
                self.answered(number, now_us);
            }
            SeatState::In => self.resync(client, members),
            SeatState::Out | SeatState::Leaving(_) => {}
        }
    }

    /// Records a successful request. For a join the room state counts instead.
    pub(super) fn acked(&mut self, number: u64, now_us: u64) {
        let Some(client) = self.open_by_number.get(&number).map(|change| change.client) else { return };
        if self.seat_by_client[client] == SeatState::Leaving(number) {
            self.seat_by_client[client] = SeatState::Out;
            self.answered(number, now_us);
        }
    }

    fn answered(&mut self, number: u64, now_us: u64) {
        let Some(change) = self.open_by_number.get_mut(&number) else { return };
        change.is_answered = true;
        self.totals.answered += 1;
        if change.begun_us >= self.measured_from_us {
            let times = if change.act == Act::Join { &mut self.joins } else { &mut self.leaves };
            times.record_us(now_us.saturating_sub(change.begun_us));
        }
        self.close_if_done(number);
    }

    /// Records a refused request, which changes nothing.
    pub(super) fn refused(&mut self, number: u64) {
        let Some(change) = self.open_by_number.remove(&number) else { return };
        let seat = &mut self.seat_by_client[change.client];
        *seat = if matches!(seat, SeatState::Leaving(_)) { SeatState::In } else { SeatState::Out };
        self.totals.refused += 1;
    }

    /// Records a client's exit from its room. An exit on request is not counted.
    pub(super) fn left(&mut self, client: usize) {
        if matches!(self.seat_by_client[client], SeatState::In | SeatState::Joining(_)) {
            self.seat_by_client[client] = SeatState::Out;
            self.totals.removed += 1;
        }
    }

    /// Records a received leave: the first leave of `leaver` that `receiver` has not received.
    pub(super) fn received_leave(&mut self, receiver: usize, leaver: usize, now_us: u64) {
        let is_new = |change: &Change| {
            (change.client, change.act) == (leaver, Act::Leave) && change.unreceived.contains(&receiver)
        };
        let new = self.open_by_number.iter().find(|(_, change)| is_new(change)).map(|(number, _)| *number);
        if let Some(number) = new.or_else(|| self.last_leave_by_client.get(leaver).copied().flatten()) {
            self.received(receiver, number, now_us);
        }
    }

    /// Records a received join of another client.
    pub(super) fn received(&mut self, receiver: usize, number: u64, now_us: u64) {
        let open = self.open_by_number.get_mut(&number);
        let new = open.and_then(|change| change.unreceived.remove(&receiver).then_some(change.begun_us));
        let Some(begun_us) = new else {
            // A duplicate, a receiver that is no resident, or a change of another run.
            self.totals.duplicated += u64::from(number < self.next && self.assignment.is_resident(receiver));
            return;
        };
        self.totals.received += 1;
        if begun_us >= self.measured_from_us {
            self.events.record_us(now_us.saturating_sub(begun_us));
        }
        self.close_if_done(number);
    }

    /// Records a whole state that a member received. Changes that it does not show are still open.
    fn resync(&mut self, resident: usize, members: Option<&Members>) {
        self.totals.resyncs += 1;
        let mut shown = Vec::new();
        for (number, change) in &mut self.open_by_number {
            let has_left_since =
                || self.last_leave_by_client.get(change.client).is_some_and(|last| *last > Some(*number));
            let is_shown = match (members, members.and_then(|members| members.get(&change.client)), change.act) {
                (None, ..) => true,
                (_, Some(by), Act::Join) => by.is_some_and(|by| by >= *number),
                (_, None, Act::Join) => has_left_since(),
                (_, Some(by), Act::Leave) => by.is_some_and(|by| by > *number),
                (_, None, Act::Leave) => true,
            };
            if is_shown && change.unreceived.remove(&resident) {
                shown.push(*number);
            }
        }
        self.totals.received_by_state += shown.len() as u64;
        shown.into_iter().for_each(|number| self.close_if_done(number));
    }

    fn close_if_done(&mut self, number: u64) {
        if self.open_by_number.get(&number).is_some_and(|change| change.is_answered && change.unreceived.is_empty()) {
            self.open_by_number.remove(&number);
        }
    }

    /// Returns the number of changes without an answer or not yet received by all residents.
    pub(super) fn open_changes(&self) -> usize {
        self.open_by_number.len()
    }

    /// Returns the number of changes without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.open_by_number.values().filter(|change| !change.is_answered).count()
    }

    /// Returns the number of outstanding receipts: changes times residents that lack them.
    pub(super) fn unreceived(&self) -> u64 {
        self.open_by_number.values().map(|change| change.unreceived.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    /// Returns the changes of one room: 0 and 1 are residents, 2 and 3 visitors, all inside.
    fn changes() -> Changes {
        let mut changes = Changes::new(Assignment::new(4, &options(&["--rooms=1"]).unwrap()));
        for client in 0..4 {
            changes.joins_first(client, 0);
            changes.joined(client, None, 10);
        }
        changes.measure_from(1_000);
        changes
    }

    #[test]
    fn change_ends_when_answered_and_received_by_all_members() {
        let mut changes = changes();
        let (leave, act) = changes.begin(2, 2_000).unwrap();
        assert_eq!(act, Act::Leave);
        changes.received_leave(0, 2, 2_500);
        changes.received_leave(3, 2, 2_500);
        changes.acked(leave, 2_300);
        assert_eq!((changes.open_changes(), changes.unreceived(), changes.unanswered()), (1, 1, 0));
        changes.received_leave(1, 2, 2_700);
        assert_eq!((changes.open_changes(), changes.events.percentiles().count), (0, 2));
        for receiver in [1, 3] {
            changes.received_leave(receiver, 2, 2_800);
        }
        assert_eq!(changes.totals.duplicated, 1, "only residents have to receive it, once");

        let (join, act) = changes.begin(2, 9_000).unwrap();
        assert_eq!(act, Act::Join);
        changes.joined(2, None, 9_400);
        changes.received(0, join, 9_500);
        changes.received(1, join, 9_600);

        assert_eq!(changes.open_changes(), 0);
        assert_eq!(
            changes.totals,
            ChangeTotals { begun: 2, answered: 6, received: 4, duplicated: 1, ..ChangeTotals::default() }
        );
        assert_eq!((changes.joins.percentiles().count, changes.leaves.percentiles().max), (1, 300));
    }

    #[test]
    fn early_turn_is_late_and_refusal_changes_nothing() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        assert_eq!(changes.begin(2, 2_100), None);
        changes.refused(leave);

        assert_eq!(changes.begin(2, 3_000).unwrap().1, Act::Leave);
        assert_eq!((changes.totals.late, changes.totals.refused), (1, 1));
    }

    #[test]
    fn removed_members_and_repeated_states_are_counted() {
        let mut changes = changes();
        changes.left(3);
        changes.joined(0, None, 5_000);
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        changes.left(2);
        changes.acked(leave, 2_300);

        assert_eq!((changes.totals.removed, changes.totals.resyncs), (1, 1));
        assert_eq!(changes.begin(3, 6_000).unwrap().1, Act::Join);
    }

    #[test]
    fn room_state_covers_all_changes_for_a_member() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        changes.acked(leave, 2_300);
        changes.received_leave(1, 2, 2_400);
        changes.joined(0, None, 5_000);

        assert_eq!((changes.open_changes(), changes.totals.received, changes.totals.received_by_state), (0, 1, 1));
    }

    #[test]
    fn change_missing_in_the_room_state_follows_it() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        let still_in = Members::from([(0, None), (1, None), (2, None), (3, None)]);
        changes.joined(0, Some(&still_in), 2_100);
        assert_eq!(changes.unreceived(), 2);
        changes.acked(leave, 2_300);
        for receiver in [0, 1] {
            changes.received_leave(receiver, 2, 2_400);
        }
        let (join, _) = changes.begin(2, 3_000).unwrap();
        changes.joined(1, Some(&Members::from([(0, None), (1, None), (3, None)])), 3_100);
        changes.joined(0, Some(&Members::from([(0, None), (1, None), (2, Some(join)), (3, None)])), 3_200);
        changes.received(1, join, 3_300);
        changes.joined(2, None, 3_400);

        assert_eq!((changes.open_changes(), changes.totals.duplicated, changes.totals.received_by_state), (0, 0, 1));
    }
}
