//! Assignment of clients to rooms, from the options of `rooms`. Pure.

use std::ops::Range;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::Options;

/// Assignment of clients to rooms, split into residents and visitors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Number of each client's room, from 0.
    pub(super) room_by_client: Vec<usize>,
    /// Clients of each room that stay in it.
    pub(super) residents_by_room: Vec<Range<usize>>,
    /// Visitors, in the order of their turns.
    pub(super) visitors: Vec<usize>,
}

impl Assignment {
    /// Assigns clients to rooms of about equal size. `--visitors` percent of a room are visitors,
    /// but one client always stays. The seed of the options shuffles visitors.
    pub(super) fn new(clients: usize, options: &Options) -> Self {
        let (mut room_by_client, mut residents_by_room) = (Vec::new(), Vec::new());
        for (room, size) in sizes(clients, options.rooms as usize).enumerate() {
            let visitors = (size * options.visitors as usize / 100).min(size.saturating_sub(1));
            room_by_client.extend(std::iter::repeat_n(room, size));
            let first = room_by_client.len() - size;
            residents_by_room.push(first..first + size - visitors);
        }
        let mut assignment = Self { room_by_client, residents_by_room, visitors: Vec::new() };
        assignment.visitors = (0..clients).filter(|client| !assignment.is_resident(*client)).collect();
        assignment.visitors.shuffle(&mut StdRng::seed_from_u64(options.run.seed));
        assignment
    }

    pub(super) fn clients(&self) -> usize {
        self.room_by_client.len()
    }

    /// Returns `true` if a client stays in its room and must receive all its events.
    pub(super) fn is_resident(&self, client: usize) -> bool {
        self.room_by_client.get(client).is_some_and(|room| self.residents_by_room[*room].contains(&client))
    }
}

/// Returns the number of clients of each room, which are about equal.
fn sizes(clients: usize, rooms: usize) -> impl Iterator<Item = usize> {
    (0..rooms).map(move |room| clients * (room + 1) / rooms - clients * room / rooms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    #[test]
    fn every_client_belongs_to_a_room_and_rooms_are_alike() {
        for (clients, rooms) in [(1_000, 100), (1_000, 7), (10, 10), (50_000, 999)] {
            let sizes: Vec<usize> = sizes(clients, rooms).collect();

            assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (rooms, clients));
            assert!(sizes.iter().all(|size| size.abs_diff(clients / rooms) <= 1));
        }
    }

    #[test]
    fn each_room_has_a_resident_and_the_rest_visit_once() {
        let assignment = Assignment::new(100, &options(&["--rooms=40", "--visitors=100"]).unwrap());

        let residents = &assignment.residents_by_room;
        assert!(residents.len() == 40 && residents.iter().all(|residents| residents.len() == 1));
        assert!(residents.iter().cloned().flatten().all(|client| assignment.is_resident(client)));
        let mut visitors = assignment.visitors.clone();
        visitors.sort_unstable();
        let others: Vec<usize> = (0..100).filter(|client| !assignment.is_resident(*client)).collect();
        assert_eq!((visitors.len(), visitors), (60, others));
    }
}
