//! Many clients in many rooms.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};

use crate::drill::go_on;
use crate::guest::{Departure, Standing};
use crate::{Guest, TestMesh, eventually};

/// Clients that connect or join at the same time.
const AT_ONCE: usize = 32;
/// Until all know of all.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// Clients, each in one of some rooms.
pub struct Crowd {
    /// In the order of their numbers.
    pub guests: Vec<Guest>,
    rooms: usize,
    prefix: &'static str,
}

impl Crowd {
    /// The same as [`Crowd::come_in`], and waits until each has heard of all others in its room.
    pub async fn gather(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let crowd = Self::come_in(mesh, prefix, rooms, clients).await;
        crowd.knows_all(clients / rooms).await;
        crowd
    }

    /// Connects so many clients, in turn to each balancer, and has them join the rooms in turn.
    pub async fn come_in(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let balancers = mesh.mesh.state().balancers;
        let guests = stream::iter(0..clients).map(|number| {
            // Not in step with the rooms: each has clients of every balancer.
            let url = balancers[(number / rooms) % balancers.len()].url.clone();
            async move {
                let mut guest = Guest::connect(&url, &format!("{prefix}-{number}")).await;
                assert_eq!(guest.join(&room_of(prefix, number, rooms)).await, Standing::Member);
                guest
            }
        });
        Self { guests: guests.buffered(AT_ONCE).collect().await, rooms, prefix }
    }

    /// Waits until each client knows of so many members of its room.
    pub async fn knows_all(&self, members: usize) {
        let all = || async {
            let mut rooms = self.guests.iter().enumerate().map(|(number, guest)| guest.room(&self.room(number)));
            rooms.all(|room| room.members.len() == members).then_some(())
        };
        eventually(&format!("all to know of {members} members"), TOLD_WITHIN, all).await;
    }

    /// The room of a client, by its number.
    pub fn room(&self, number: usize) -> String {
        room_of(self.prefix, number, self.rooms)
    }

    /// All that were shown as leaving: to whom, and what.
    pub fn departures(&self) -> impl Iterator<Item = (&str, Departure)> {
        let guests = self.guests.iter().enumerate();
        guests.flat_map(|(number, guest)| {
            guest.room(&self.room(number)).departures.into_iter().map(|departure| (guest.id.as_str(), departure))
        })
    }

    /// Asserts that since a moment nobody was shown as leaving, was put out, or lost its socket.
    ///
    /// # Panics
    /// If somebody was.
    pub fn assert_nobody_left_since(&self, begin: Instant) {
        let gone: Vec<_> = self.departures().filter(|(_, departure)| departure.at >= begin).collect();
        assert!(gone.is_empty(), "{} shown as leaving, the first: {:?}", gone.len(), gone[0]);
        for (number, guest) in self.guests.iter().enumerate() {
            let (room, closed) = (guest.room(&self.room(number)), guest.seen().closed.clone());
            assert_eq!((room.standing, &room.put_out[..], closed), (Standing::Member, &[][..], None), "{}", guest.id);
        }
    }

    /// Lets so much time pass, and asserts that since a moment before it nobody left.
    ///
    /// # Panics
    /// If somebody did.
    pub async fn nobody_leaves_for(&self, time: Duration, since: Instant) {
        go_on(time).await;
        self.assert_nobody_left_since(since);
    }

    /// Asserts that nothing made no sense in what clients were told.
    ///
    /// # Panics
    /// If something did.
    pub fn assert_no_faults(&self) {
        let faults: Vec<_> = self.guests.iter().flat_map(|guest| guest.seen().faults().collect::<Vec<_>>()).collect();
        assert!(faults.is_empty(), "{} faults, the first: {}", faults.len(), faults[0]);
    }

    /// One of each room says something, and all others there get it.
    ///
    /// # Panics
    /// If somebody does not.
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
