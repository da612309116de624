use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::seating::Seating;
use crate::latency::Latencies;

/// Joins and leaves, and the clients that received them. Has no I/O or clock; times are arguments.
#[derive(Debug, Default)]
pub(super) struct Book {
    seating: Seating,
    stand_by_client: Vec<Stand>,
    last_leave_by_client: Vec<Option<u64>>,
    open_by_number: BTreeMap<u64, Change>,
    next: u64,
    measured_from_us: u64,
    pub(super) counts: Counts,
    /// Times from a visitor's intended join to its answer.
    pub(super) joins: Latencies,
    /// Times from a visitor's intended leave to its answer.
    pub(super) leaves: Latencies,
    /// Times from the intended join or leave to its receipt by a resident of the room.
    pub(super) events: Latencies,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) begun: u64,
    pub(super) answered: u64,
    pub(super) refused: u64,
    /// Turns of visitors whose last change had no answer.
    pub(super) late: u64,
    pub(super) heard: u64,
    /// Changes that residents learned only from a whole room state.
    pub(super) heard_by_state: u64,
    pub(super) doubled: u64,
    /// Whole room states received by clients that were in the room already.
    pub(super) healed: u64,
    /// Clients that were removed from a room without a request.
    pub(super) put_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
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
    /// Residents that have not received the change.
    unheard: BTreeSet<usize>,
}

/// Members of a room, each with the change by which it joined.
pub(super) type Members = BTreeMap<usize, Option<u64>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Join,
    Leave,
}

impl Book {
    pub(super) fn new(seating: Seating) -> Self {
        let clients = seating.clients();
        Self {
            seating,
            stand_by_client: vec![Stand::Out; clients],
            last_leave_by_client: vec![None; clients],
            measured_from_us: u64::MAX,
            ..Self::default()
        }
    }

    /// Counts the times of changes that begin from now on.
    pub(super) fn measure_from(&mut self, now_us: u64) {
        self.measured_from_us = now_us;
    }

    /// Records a join before the run. Its receipt by others is not counted.
    pub(super) fn enters(&mut self, client: usize, at_us: u64) -> u64 {
        self.open(client, Act::Join, at_us, BTreeSet::new())
    }

    /// Lets a visitor join or leave. Returns `None` if its last change has no answer yet.
    pub(super) fn turn(&mut self, client: usize, at_us: u64) -> Option<(u64, Act)> {
        let act = match self.stand_by_client[client] {
            Stand::Out => Act::Join,
            Stand::In => Act::Leave,
            Stand::Joining(_) | Stand::Leaving(_) => {
                self.counts.late += 1;
                return None;
            }
        };
        let residents = self.seating.residents(self.seating.room(client)).collect();
        let number = self.open(client, act, at_us, residents);
        self.counts.begun += 1;
        if act == Act::Leave {
            self.last_leave_by_client[client] = Some(number);
        }
        Some((number, act))
    }

    fn open(&mut self, client: usize, act: Act, begun_us: u64, unheard: BTreeSet<usize>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.stand_by_client[client] = if act == Act::Join { Stand::Joining(number) } else { Stand::Leaving(number) };
        self.open_by_number.insert(number, Change { client, act, begun_us, is_answered: false, unheard });
        number
    }

    /// Records the room state that a client received. `members` is `None` for an incomplete state.
    pub(super) fn joined(&mut self, client: usize, members: Option<&Members>, now_us: u64) {
        match self.stand_by_client[client] {
            Stand::Joining(number) => {
                self.stand_by_client[client] = Stand::In;
                self.answered(number, now_us);
            }
            Stand::In => self.healed(client, members),
            Stand::Out | Stand::Leaving(_) => {}
        }
    }

    /// Records a successful request. For a join the room state counts instead.
    pub(super) fn acked(&mut self, number: u64, now_us: u64) {
        let Some(client) = self.open_by_number.get(&number).map(|change| change.client) else { return };
        if self.stand_by_client[client] == Stand::Leaving(number) {
            self.stand_by_client[client] = Stand::Out;
            self.answered(number, now_us);
        }
    }

    fn answered(&mut self, number: u64, now_us: u64) {
        let Some(change) = self.open_by_number.get_mut(&number) else { return };
        change.is_answered = true;
        self.counts.answered += 1;
        if change.begun_us >= self.measured_from_us {
            let times = if change.act == Act::Join { &mut self.joins } else { &mut self.leaves };
            times.record_us(now_us.saturating_sub(change.begun_us));
        }
        self.close_if_done(number);
    }

    /// Records a refused request, which changes nothing.
    pub(super) fn refused(&mut self, number: u64) {
        let Some(change) = self.open_by_number.remove(&number) else { return };
        let stand = &mut self.stand_by_client[change.client];
        *stand = if matches!(stand, Stand::Leaving(_)) { Stand::In } else { Stand::Out };
        self.counts.refused += 1;
    }

    /// Records a client's exit from its room. An exit on request is not counted.
    pub(super) fn left(&mut self, client: usize) {
        if matches!(self.stand_by_client[client], Stand::In | Stand::Joining(_)) {
            self.stand_by_client[client] = Stand::Out;
            self.counts.put_out += 1;
        }
    }

    /// Records a received leave: the client's first leave that the listener has not received.
    pub(super) fn heard_leave(&mut self, listener: usize, who: usize, now_us: u64) {
        let is_news =
            |change: &Change| (change.client, change.act) == (who, Act::Leave) && change.unheard.contains(&listener);
        let news = self.open_by_number.iter().find(|(_, change)| is_news(change)).map(|(number, _)| *number);
        if let Some(number) = news.or_else(|| self.last_leave_by_client.get(who).copied().flatten()) {
            self.heard(listener, number, now_us);
        }
    }

    /// Records a received join of another client.
    pub(super) fn heard(&mut self, listener: usize, number: u64, now_us: u64) {
        let open = self.open_by_number.get_mut(&number);
        let news = open.and_then(|change| change.unheard.remove(&listener).then_some(change.begun_us));
        let Some(begun_us) = news else {
            // A duplicate, a listener that is no resident, or a change of another run.
            self.counts.doubled += u64::from(number < self.next && self.seating.is_resident(listener));
            return;
        };
        self.counts.heard += 1;
        if begun_us >= self.measured_from_us {
            self.events.record_us(now_us.saturating_sub(begun_us));
        }
        self.close_if_done(number);
    }

    /// Records a whole state that a member received. Changes that it does not show are still open.
    fn healed(&mut self, listener: usize, members: Option<&Members>) {
        self.counts.healed += 1;
        let mut told = Vec::new();
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
            if is_shown && change.unheard.remove(&listener) {
                told.push(*number);
            }
        }
        self.counts.heard_by_state += told.len() as u64;
        told.into_iter().for_each(|number| self.close_if_done(number));
    }

    fn close_if_done(&mut self, number: u64) {
        if self.open_by_number.get(&number).is_some_and(|change| change.is_answered && change.unheard.is_empty()) {
            self.open_by_number.remove(&number);
        }
    }

    /// Returns the number of changes without an answer or not yet received by all residents.
    pub(super) fn open_changes(&self) -> usize {
        self.open_by_number.len()
    }

    pub(super) fn unanswered(&self) -> usize {
        self.open_by_number.values().filter(|change| !change.is_answered).count()
    }

    /// Returns the number of changes that residents have not received.
    pub(super) fn unheard(&self) -> u64 {
        self.open_by_number.values().map(|change| change.unheard.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    /// Returns a book of one room: 0 and 1 are residents, 2 and 3 visitors, all inside.
    fn book() -> Book {
        let mut book = Book::new(Seating::new(4, &options(&["--rooms=1"]).unwrap()));
        for client in 0..4 {
            book.enters(client, 0);
            book.joined(client, None, 10);
        }
        book.measure_from(1_000);
        book
    }

    #[test]
    fn change_ends_when_answered_and_received_by_all_members() {
        let mut book = book();
        let (leave, act) = book.turn(2, 2_000).unwrap();
        assert_eq!(act, Act::Leave);
        book.heard_leave(0, 2, 2_500);
        book.heard_leave(3, 2, 2_500);
        book.acked(leave, 2_300);
        assert_eq!((book.open_changes(), book.unheard(), book.unanswered()), (1, 1, 0));
        book.heard_leave(1, 2, 2_700);
        assert_eq!((book.open_changes(), book.events.percentiles().count), (0, 2));
        for listener in [1, 3] {
            book.heard_leave(listener, 2, 2_800);
        }
        assert_eq!(book.counts.doubled, 1, "residents alone have to hear of it once");

        let (join, act) = book.turn(2, 9_000).unwrap();
        assert_eq!(act, Act::Join);
        book.joined(2, None, 9_400);
        book.heard(0, join, 9_500);
        book.heard(1, join, 9_600);

        assert_eq!(book.open_changes(), 0);
        assert_eq!(book.counts, Counts { begun: 2, answered: 6, heard: 4, doubled: 1, ..Counts::default() });
        assert_eq!((book.joins.percentiles().count, book.leaves.percentiles().max), (1, 300));
    }

    #[test]
    fn early_turn_is_late_and_refusal_changes_nothing() {
        let mut book = book();
        let (leave, _) = book.turn(2, 2_000).unwrap();
        assert_eq!(book.turn(2, 2_100), None);
        book.refused(leave);

        assert_eq!(book.turn(2, 3_000).unwrap().1, Act::Leave);
        assert_eq!((book.counts.late, book.counts.refused), (1, 1));
    }

    #[test]
    fn removed_members_and_repeated_states_are_counted() {
        let mut book = book();
        book.left(3);
        book.joined(0, None, 5_000);
        let (leave, _) = book.turn(2, 2_000).unwrap();
        book.left(2);
        book.acked(leave, 2_300);

        assert_eq!((book.counts.put_out, book.counts.healed), (1, 1));
        assert_eq!(book.turn(3, 6_000).unwrap().1, Act::Join);
    }

    #[test]
    fn room_state_covers_all_changes_for_a_member() {
        let mut book = book();
        let (leave, _) = book.turn(2, 2_000).unwrap();
        book.acked(leave, 2_300);
        book.heard_leave(1, 2, 2_400);
        book.joined(0, None, 5_000);

        assert_eq!((book.open_changes(), book.counts.heard, book.counts.heard_by_state), (0, 1, 1));
    }

    #[test]
    fn change_missing_in_the_room_state_follows_it() {
        let mut book = book();
        let (leave, _) = book.turn(2, 2_000).unwrap();
        let still_in = Members::from([(0, None), (1, None), (2, None), (3, None)]);
        book.joined(0, Some(&still_in), 2_100);
        assert_eq!(book.unheard(), 2);
        book.acked(leave, 2_300);
        for listener in [0, 1] {
            book.heard_leave(listener, 2, 2_400);
        }
        let (join, _) = book.turn(2, 3_000).unwrap();
        book.joined(1, Some(&Members::from([(0, None), (1, None), (3, None)])), 3_100);
        book.joined(0, Some(&Members::from([(0, None), (1, None), (2, Some(join)), (3, None)])), 3_200);
        book.heard(1, join, 3_300);
        book.joined(2, None, 3_400);

        assert_eq!((book.open_changes(), book.counts.doubled, book.counts.heard_by_state), (0, 0, 1));
    }
}
