//! Many clients in many rooms.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};

use crate::drill::go_on;
use crate::guest::{Departure, Standing};
use crate::{Guest, TestMesh, eventually};

/// Maximum clients that connect or join at the same time.
const AT_ONCE: usize = 32;
/// Time limit until all members are known to all.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// Clients, each in one of several rooms.
pub struct Crowd {
    pub guests: Vec<Guest>,
    rooms: usize,
    prefix: &'static str,
}

impl Crowd {
    pub async fn gather(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let crowd = Self::come_in(mesh, prefix, rooms, clients).await;
        crowd.knows_all(clients / rooms).await;
        crowd
    }

    /// Connects clients to the balancers in turn, and adds them to the rooms in turn.
    pub async fn come_in(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let balancers = mesh.mesh.state().balancers;
        let guests = stream::iter(0..clients).map(|number| {
            // Not in step with the rooms, so that each room has clients of every balancer.
            let url = balancers[(number / rooms) % balancers.len()].url.clone();
            async move {
                let mut guest = Guest::connect(&url, &format!("{prefix}-{number}")).await;
                assert_eq!(guest.join(&room_of(prefix, number, rooms)).await, Standing::Member);
                guest
            }
        });
        Self { guests: guests.buffered(AT_ONCE).collect().await, rooms, prefix }
    }

    pub async fn knows_all(&self, members: usize) {
        let all = || async {
            let mut rooms = self.guests.iter().enumerate().map(|(number, guest)| guest.room(&self.room(number)));
            rooms.all(|room| room.members.len() == members).then_some(())
        };
        eventually(&format!("all to know of {members} members"), TOLD_WITHIN, all).await;
    }

    pub fn room(&self, number: usize) -> String {
        room_of(self.prefix, number, self.rooms)
    }

    pub fn departures(&self) -> impl Iterator<Item = (&str, Departure)> {
        let guests = self.guests.iter().enumerate();
        guests.flat_map(|(number, guest)| {
            guest.room(&self.room(number)).departures.into_iter().map(|departure| (guest.id.as_str(), departure))
        })
    }

    /// Asserts that since `begin` no client was shown as leaving, was removed, or lost its socket.
    pub fn assert_nobody_left_since(&self, begin: Instant) {
        let gone: Vec<_> = self.departures().filter(|(_, departure)| departure.at >= begin).collect();
        assert!(gone.is_empty(), "{} shown as leaving, the first: {:?}", gone.len(), gone[0]);
        for (number, guest) in self.guests.iter().enumerate() {
            let (room, closed) = (guest.room(&self.room(number)), guest.seen().closed.clone());
            assert_eq!((room.standing, &room.put_out[..], closed), (Standing::Member, &[][..], None), "{}", guest.id);
        }
    }

    pub async fn nobody_leaves_for(&self, time: Duration, since: Instant) {
        go_on(time).await;
        self.assert_nobody_left_since(since);
    }

    pub fn assert_no_faults(&self) {
        let faults: Vec<_> = self.guests.iter().flat_map(|guest| guest.seen().faults().collect::<Vec<_>>()).collect();
        assert!(faults.is_empty(), "{} faults, the first: {}", faults.len(), faults[0]);
    }

    pub async fn assert_all_hear(&mut self, what: &str) {
        for number in 0..self.rooms {
            let (room, others) = (self.room(number), self.guests.len() / self.rooms - 1);
            let delivered = self.guests[number].broadcast(&room, what.into()).await;
            assert_eq!(delivered, others as u64, "{what} to {room}");
        }
    }
}

fn room_of(prefix: &str, number: usize, rooms: usize) -> String {
    format!("{prefix}-room-{}", number % rooms)
}
