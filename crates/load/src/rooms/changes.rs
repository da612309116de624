//! Each change of a room, its answer, and the residents that received it, for `clients`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::assignment::Assignment;
use crate::record::Record;

/// Joins and leaves, numbered from 0, and the clients that received them. Times are microseconds on
/// the run's clock.
#[derive(Debug, Default)]
pub(super) struct Changes {
    assignment: Assignment,
    seat_by_client: Vec<SeatState>,
    last_leave_by_client: Vec<Option<u64>>,
    /// Number of changes before the latest whole room state that a client received again.
    covered_by_client: Vec<u64>,
    open_by_number: BTreeMap<u64, Change>,
    next: u64,
    pub(super) totals: ChangeTotals,
    /// Record of the run, with the times of joins, leaves and their receipts.
    pub(super) record: Record,
}

/// Counts of joins and leaves. Answers to the joins before the run are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ChangeTotals {
    /// Scheduled changes that were requested.
    pub(super) begun: u64,
    /// Joins answered by the room's state, and leaves answered by an `ack`.
    pub(super) answered: u64,
    /// Changes that a server answered by an error.
    pub(super) refused: u64,
    /// Turns of visitors that were skipped, since the last change had no answer.
    pub(super) late: u64,
    /// Single changes that residents received, once per resident.
    pub(super) received: u64,
    /// Changes that a resident lacked when it received a whole room state, once per resident.
    pub(super) received_by_state: u64,
    /// Changes that a resident received only as a later change of the same client, once per
    /// resident.
    pub(super) merged: u64,
    /// Changes that a resident received again, after its latest whole room state.
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

impl Change {
    fn is_done(&self) -> bool {
        self.is_answered && self.unreceived.is_empty()
    }
}

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
            covered_by_client: vec![0; clients],
            ..Self::default()
        }
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
        let room = self.assignment.room_by_client[client];
        let residents = self.assignment.residents_by_room[room].clone().collect();
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

    /// Records the room state that a client received: the answer to its join, or a resync.
    pub(super) fn joined(&mut self, client: usize, now_us: u64) {
        match self.seat_by_client[client] {
            SeatState::Joining(number) => {
                self.seat_by_client[client] = SeatState::In;
                self.answered(number, now_us);
            }
            SeatState::In => self.resync(client),
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
        let took_us = now_us.saturating_sub(change.begun_us);
        match change.act {
            Act::Join => self.record.time(|times| &mut times.join, change.begun_us, took_us),
            Act::Leave => self.record.time(|times| &mut times.leave, change.begun_us, took_us),
        }
        if change.is_done() {
            self.open_by_number.remove(&number);
        }
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

    /// Records a received leave: the first open leave of `leaver` that `receiver` lacks, else a
    /// duplicate of its latest leave.
    pub(super) fn received_leave(&mut self, receiver: usize, leaver: usize, now_us: u64) {
        let is_new = |change: &Change| {
            (change.client, change.act) == (leaver, Act::Leave) && change.unreceived.contains(&receiver)
        };
        let new = self.open_by_number.iter().find(|(_, change)| is_new(change)).map(|(number, _)| *number);
        if let Some(number) = new.or_else(|| self.last_leave_by_client.get(leaver).copied().flatten()) {
            self.received(receiver, number, now_us);
        }
    }

    /// Records that `receiver` received the change of this number. Servers gather changes for 0.2 s
    /// and report the last one of a client, so its earlier ones count as merged.
    pub(super) fn received(&mut self, receiver: usize, number: u64, now_us: u64) {
        let open = self.open_by_number.get_mut(&number);
        let new =
            open.and_then(|change| change.unreceived.remove(&receiver).then_some((change.client, change.begun_us)));
        let Some((client, begun_us)) = new else {
            // A duplicate, a receiver that is no resident, or a change of another run.
            let is_duplicate = self.assignment.is_resident(receiver)
                && (self.covered_by_client[receiver]..self.next).contains(&number);
            self.totals.duplicated += u64::from(is_duplicate);
            return;
        };
        self.totals.received += 1;
        self.record.time(|times| &mut times.event, begun_us, now_us.saturating_sub(begun_us));
        for (_, change) in self.open_by_number.range_mut(..number).filter(|(_, change)| change.client == client) {
            self.totals.merged += u64::from(change.unreceived.remove(&receiver));
        }
        self.open_by_number.retain(|_, change| !change.is_done());
    }

    /// Records a whole state that a member received. It covers the changes that are open now: the
    /// member may receive them again or not.
    fn resync(&mut self, resident: usize) {
        self.totals.resyncs += 1;
        self.covered_by_client[resident] = self.next;
        for change in self.open_by_number.values_mut() {
            self.totals.received_by_state += u64::from(change.unreceived.remove(&resident));
        }
        self.open_by_number.retain(|_, change| !change.is_done());
    }

    /// Returns the number of changes without an answer or not yet received by all residents.
    pub(super) fn open_changes(&self) -> usize {
        self.open_by_number.len()
    }

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
            changes.joined(client, 10);
        }
        changes.record.measured_us = 1_000..u64::MAX;
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
        assert_eq!((changes.open_changes(), changes.record.times.event.percentiles().count), (0, 2));
        for receiver in [1, 3] {
            changes.received_leave(receiver, 2, 2_800);
        }
        assert_eq!(changes.totals.duplicated, 1, "only residents have to receive it, once");

        let (join, act) = changes.begin(2, 9_000).unwrap();
        assert_eq!(act, Act::Join);
        changes.joined(2, 9_400);
        changes.received(0, join, 9_500);
        changes.received(1, join, 9_600);

        assert_eq!(changes.open_changes(), 0);
        let expected = ChangeTotals { begun: 2, answered: 6, received: 4, duplicated: 1, ..ChangeTotals::default() };
        assert_eq!(changes.totals, expected);
        let times = &changes.record.times;
        assert_eq!((times.join.percentiles().count, times.leave.percentiles().max), (1, 300));
    }

    #[test]
    fn early_turns_refusals_and_removals_are_counted() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        assert_eq!(changes.begin(2, 2_100), None);
        changes.refused(leave);
        let (leave, act) = changes.begin(2, 3_000).unwrap();
        assert_eq!(act, Act::Leave, "a refusal changes nothing");
        changes.left(2);
        changes.acked(leave, 3_300);
        changes.left(3);

        assert_eq!((changes.totals.late, changes.totals.refused, changes.totals.removed), (1, 1, 1));
        assert_eq!(changes.begin(3, 6_000).unwrap().1, Act::Join);
    }

    #[test]
    fn later_change_of_a_client_covers_its_earlier_ones() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        changes.acked(leave, 2_100);
        let (join, _) = changes.begin(2, 2_200).unwrap();
        changes.joined(2, 2_300);
        changes.received(0, join, 2_400);
        assert_eq!((changes.unreceived(), changes.totals.merged), (2, 1), "the other resident lacks both");
        changes.received_leave(1, 2, 2_400);
        changes.received(1, join, 2_500);
        assert_eq!((changes.open_changes(), changes.totals.merged), (0, 1));
    }

    #[test]
    fn room_state_covers_open_changes_for_a_member() {
        let mut changes = changes();
        let (leave, _) = changes.begin(2, 2_000).unwrap();
        changes.acked(leave, 2_300);
        changes.received_leave(1, 2, 2_400);
        changes.joined(0, 5_000);
        changes.received_leave(0, 2, 5_100);
        assert_eq!(changes.open_changes(), 0);

        let (join, _) = changes.begin(2, 6_000).unwrap();
        changes.joined(2, 6_100);
        for receiver in [0, 1, 1] {
            changes.received(receiver, join, 6_200);
        }

        let expected = ChangeTotals {
            begun: 2,
            answered: 6,
            received: 3,
            received_by_state: 1,
            resyncs: 1,
            duplicated: 1,
            ..ChangeTotals::default()
        };
        assert_eq!((changes.open_changes(), changes.totals), (0, expected));
    }
}
