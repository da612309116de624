//! The waiting queue of a room and its order of admission, for `clients`. Pure.

use std::collections::VecDeque;

use serde::Serialize;

use crate::latency::{Latencies, Percentiles};

/// Minimum lead that counts as overtaking, in microseconds.
const OVERTAKEN_US: u64 = 1_000_000;

/// The waiting queue of a room with few seats. Clients are numbered as they joined.
#[derive(Debug, Default)]
pub(super) struct WaitingQueue {
    seat_by_client: Vec<SeatState>,
    /// Admissions of waiting clients, in order of time.
    admissions: Vec<(usize, u64)>,
    /// Times of leaves whose seats are still free.
    free_since_us: VecDeque<u64>,
    seated: VecDeque<usize>,
    left: usize,
    pushes: u64,
    shortest_gap_us: Option<u64>,
    /// Time from which freed seats are timed, in microseconds on the run's clock; at first never.
    pub(super) measured_from_us: u64,
    waits: Latencies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeatState {
    Out,
    /// Waiting, with the time of the latest unrequested queue position in microseconds, if any.
    Waiting(Option<u64>),
    Seated,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct QueueTotals {
    /// Members that left the room.
    pub(super) left: usize,
    /// Clients admitted after waiting.
    pub(super) admitted: usize,
    /// Clients admitted more than 1 s before an earlier client, or while an earlier one still
    /// waits.
    pub(super) overtook: usize,
    /// `true` if the room has more members than seats at the end.
    pub(super) above_capacity: bool,
    /// Number of unrequested messages with a queue position.
    pub(super) pushes: u64,
    /// Minimum time between two unrequested positions to one client, in milliseconds; `None`
    /// without two.
    pub(super) shortest_gap_ms: Option<u64>,
    /// Times from an intended leave in the measured time to the admission of the next client, in
    /// microseconds.
    pub(super) admission_us: Percentiles,
}

impl WaitingQueue {
    pub(super) fn new(clients: usize) -> Self {
        Self { seat_by_client: vec![SeatState::Out; clients], measured_from_us: u64::MAX, ..Self::default() }
    }

    /// Returns `true` if the client is a member or waits.
    pub(super) fn has_seat(&self, client: usize) -> bool {
        self.seat_by_client[client] != SeatState::Out
    }

    /// Records a queue position that a client received: the answer to its join, or unrequested.
    pub(super) fn waiting(&mut self, client: usize, now_us: u64) {
        let SeatState::Waiting(reported_us) = self.seat_by_client[client] else {
            // The answer to its join.
            self.seat_by_client[client] = SeatState::Waiting(None);
            return;
        };
        if let Some(reported_us) = reported_us {
            let gap_us = now_us.saturating_sub(reported_us);
            self.shortest_gap_us = Some(self.shortest_gap_us.map_or(gap_us, |shortest| shortest.min(gap_us)));
        }
        self.pushes += 1;
        self.seat_by_client[client] = SeatState::Waiting(Some(now_us));
    }

    /// Records a client's admission to the room. A member's repeated one has no effect.
    pub(super) fn joined(&mut self, client: usize, now_us: u64) {
        match self.seat_by_client[client] {
            SeatState::Seated => return,
            SeatState::Waiting(_) => {
                self.admissions.push((client, now_us));
                if let Some(free_us) = self.free_since_us.pop_front()
                    && free_us >= self.measured_from_us
                {
                    self.waits.record_us(now_us.saturating_sub(free_us));
                }
            }
            SeatState::Out => {}
        }
        self.seat_by_client[client] = SeatState::Seated;
        self.seated.push_back(client);
    }

    /// Removes and returns the oldest member, which leaves at `at_us`; `None` if there is none.
    pub(super) fn leaver(&mut self, at_us: u64) -> Option<usize> {
        let client = self.seated.pop_front()?;
        self.seat_by_client[client] = SeatState::Out;
        self.free_since_us.push_back(at_us);
        self.left += 1;
        Some(client)
    }

    /// Returns `true` if no free seat awaits an admission.
    pub(super) fn is_settled(&self) -> bool {
        self.free_since_us.is_empty()
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admissions.len() as u64
    }

    /// Returns the results so far, for a room of this capacity.
    pub(super) fn totals(&self, seats: u32) -> QueueTotals {
        QueueTotals {
            left: self.left,
            admitted: self.admissions.len(),
            overtook: self.overtook(),
            above_capacity: self.seated.len() > seats as usize || self.admissions.len() > self.left,
            pushes: self.pushes,
            shortest_gap_ms: self.shortest_gap_us.map(|us| us / 1_000),
            admission_us: self.waits.percentiles(),
        }
    }

    /// Returns the number of clients admitted long before an earlier one, which may still wait.
    fn overtook(&self) -> usize {
        let earliest_waiting = self.seat_by_client.iter().position(|it| matches!(it, SeatState::Waiting(_)));
        let mut latest_in_front = 0;
        let mut by_position = self.admissions.clone();
        by_position.sort_unstable();
        let overtakes = |(client, at_us): &(usize, u64)| {
            let has = latest_in_front > at_us + OVERTAKEN_US || earliest_waiting.is_some_and(|first| first < *client);
            latest_in_front = latest_in_front.max(*at_us);
            has
        };
        by_position.iter().map(overtakes).filter(|has| *has).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    /// Admitted clients, or `None` for a leave, with their times.
    type Turns<'a> = &'a [(Option<usize>, u64)];

    /// Returns a queue of five clients for two seats: 0 and 1 are in, 2, 3 and 4 wait.
    fn queue() -> WaitingQueue {
        let mut queue = WaitingQueue::new(5);
        (0..2).for_each(|client| queue.joined(client, 0));
        (2..5).for_each(|client| queue.waiting(client, 0));
        queue.measured_from_us = S;
        queue
    }

    #[test]
    fn seat_is_given_to_the_first_waiting_client_and_timed() {
        let mut queue = queue();
        assert_eq!(queue.leaver(2 * S), Some(0));
        assert!(!queue.is_settled());
        queue.joined(2, 2 * S + 700);
        assert_eq!(queue.leaver(5 * S), Some(1));
        queue.joined(3, 5 * S + 900);

        let found = queue.totals(2);

        assert!(queue.is_settled());
        assert_eq!((found.admitted, found.overtook, found.above_capacity), (2, 0, false));
        assert_eq!((found.admission_us.count, found.admission_us.max), (2, 900));
    }

    #[test]
    fn clients_let_in_long_before_one_in_front_overtook() {
        let cases: [(&str, Turns<'_>, usize); 4] = [
            ("2 waits still", &[(None, 2 * S), (Some(3), 2 * S)], 1),
            ("2 came long after", &[(None, 2 * S), (Some(3), 2 * S), (None, 5 * S), (Some(2), 5 * S)], 1),
            ("almost at once", &[(None, 2 * S), (None, 2 * S), (Some(3), 2 * S + 100), (Some(2), 2 * S + 200)], 0),
            ("above the capacity", &[(Some(2), 2 * S)], 0),
        ];
        for (what, turns, overtook) in cases {
            let mut queue = queue();
            for (admitted, at_us) in turns {
                match admitted {
                    Some(client) => queue.joined(*client, *at_us),
                    None => assert!(queue.leaver(*at_us).is_some()),
                }
            }
            let found = queue.totals(2);
            assert_eq!((found.overtook, found.above_capacity), (overtook, found.left == 0), "{what}");
        }
    }

    #[test]
    fn shortest_gap_of_two_queue_positions_is_kept() {
        let mut queue = queue();
        queue.waiting(4, 500);
        queue.waiting(4, 3 * S + 500);
        queue.waiting(4, 4 * S + 500);
        queue.waiting(3, 9 * S);

        let found = queue.totals(2);
        assert_eq!((found.pushes, found.shortest_gap_ms), (4, Some(1_000)));
    }
}
