//! Many clients in many rooms.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::room_client::Departure;
use crate::{RoomClient, SeatStatus, TestMesh, eventually};

const MAX_CONCURRENT: usize = 32;

/// Clients, each in one of several rooms.
pub struct Crowd {
    /// Clients by their numbers.
    pub clients: Vec<RoomClient>,
    rooms: usize,
    prefix: &'static str,
}

impl Crowd {
    /// As [`Crowd::join`], and waits until all clients have all members of their rooms. `clients`
    /// must be a multiple of `rooms`. Panics after 60 s.
    pub async fn gather(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let crowd = Self::join(mesh, prefix, rooms, clients).await;
        let all = async || {
            let mut rooms = crowd.clients.iter().enumerate().map(|(number, client)| client.room(&crowd.room(number)));
            rooms.all(|room| room.members.len() == clients / crowd.rooms)
        };
        eventually("all clients to have all members of their rooms", all).await;
        crowd
    }

    /// Connects `clients` clients to the balancers in turn, and adds them to `rooms` rooms in turn.
    /// Panics if one does not become a member. Their ids are `PREFIX-N`, from 0.
    pub async fn join(mesh: &TestMesh, prefix: &'static str, rooms: usize, clients: usize) -> Self {
        let mut crowd = Self { clients: Vec::new(), rooms, prefix };
        let balancers = mesh.state().balancers;
        let joining = stream::iter(0..clients).map(|number| {
            // Not in step with the rooms, so that each room has clients of every balancer.
            let url = balancers[(number / rooms) % balancers.len()].url.clone();
            let room = crowd.room(number);
            async move {
                let mut client = RoomClient::connect(&url, &format!("{prefix}-{number}")).await;
                assert_eq!(client.join(&room).await, SeatStatus::Member);
                client
            }
        });
        crowd.clients = joining.buffered(MAX_CONCURRENT).collect().await;
        crowd
    }

    /// Returns the name of the room of client `number`.
    pub fn room(&self, number: usize) -> String {
        format!("{}-room-{}", self.prefix, number % self.rooms)
    }

    /// Returns all departures, each with the id of the client that received it.
    pub fn departures(&self) -> impl Iterator<Item = (&str, Departure)> {
        self.clients.iter().enumerate().flat_map(|(number, client)| {
            client.room(&self.room(number)).departures.into_iter().map(|departure| (client.id.as_str(), departure))
        })
    }

    /// Asserts after `time` that no client was ever shown as leaving, was removed, or lost its
    /// socket. Visitors of the rooms, with an id `visitor-N`, may leave.
    pub async fn all_stay_for(&self, time: Duration) {
        sleep(time).await;
        let gone = self.departures().filter(|(_, departure)| !departure.client_id.starts_with("visitor-"));
        let gone: Vec<_> = gone.collect();
        assert!(gone.is_empty(), "{} shown as leaving, the first: {:?}", gone.len(), gone[0]);
        for (number, client) in self.clients.iter().enumerate() {
            let (room, closed) = (client.room(&self.room(number)), client.seen().closed.clone());
            assert_eq!((room.seat, room.left_reasons, closed), (SeatStatus::Member, Vec::new(), None), "{}", client.id);
        }
    }

    /// Asserts that no client received inconsistent room messages.
    pub fn assert_no_faults(&self) {
        self.clients.iter().for_each(RoomClient::assert_no_faults);
    }

    /// Asserts that a broadcast of the text `what` in each room reaches all its other members. No
    /// other clients may be in the rooms.
    pub async fn assert_broadcasts_arrive(&mut self, what: &str) {
        for number in 0..self.rooms {
            let (room, others) = (self.room(number), self.clients.len() / self.rooms - 1);
            let delivered = self.clients[number].broadcast(&room, what.into()).await;
            assert_eq!(delivered, others as u64, "{what} to {room}");
        }
    }
}
