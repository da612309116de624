//! A full room with a waiting queue, whose clients leave in the order in which they joined.

use serde_json::json;

use crate::{RoomClient, SeatStatus, TestMesh, operator, until_some};

/// A full room and all clients that joined it.
pub struct FullRoom {
    /// Number of seats of the room: the `--room-capacity` of the mesh.
    pub capacity: usize,
    /// In the order of their joins.
    clients: Vec<RoomClient>,
    /// Number of clients that have left.
    left: usize,
}

impl FullRoom {
    /// Name of the room.
    pub const NAME: &str = "full";

    /// Has three times as many clients join as the room has seats. Panics unless the first third
    /// gets the seats.
    pub async fn gather(mesh: &TestMesh, capacity: usize) -> Self {
        let mut clients = Vec::new();
        for number in 0..3 * capacity {
            let mut client = RoomClient::connect(&mesh.url(), &format!("c{number}")).await;
            let seat = client.join(Self::NAME).await;
            assert_eq!(seat == SeatStatus::Member, number < capacity, "{seat:?}");
            clients.push(client);
        }
        Self { capacity, clients, left: 0 }
    }

    /// Has the oldest member leave. Asserts that the first waiting client gets the seat. Panics
    /// without a waiting client: after twice `capacity` calls.
    pub async fn move_up(&mut self) {
        self.clients[self.left].leave(Self::NAME).await;
        self.left += 1;
        let next = self.left + self.capacity - 1;
        self.clients[next].gets(Self::NAME, SeatStatus::Member).await;
        let list = self.clients[next].members(Self::NAME, None).await;
        let members: Vec<_> = list["members"].as_array().unwrap().iter().map(|member| &member["client_id"]).collect();
        let expected: Vec<_> = (self.left..=next).map(|member| json!(format!("c{member}"))).collect();
        assert_eq!(members, expected.iter().collect::<Vec<_>>());
    }

    /// Asserts that the members received no inconsistent messages, and saw no client leave that did
    /// not leave.
    pub fn assert_consistent(&self) {
        let left: Vec<_> = self.clients[..self.left].iter().map(|client| client.id.as_str()).collect();
        for client in &self.clients[self.left..] {
            client.assert_no_faults();
            let departures = client.room(Self::NAME).departures;
            assert!(departures.iter().all(|it| left.contains(&it.client_id.as_str())), "{}: {departures:?}", client.id);
        }
    }

    /// Returns the room's incarnation at its owner, which is higher after a rebuild. Panics if no
    /// node owns the room within 60 s.
    pub async fn incarnation(&self, mesh: &TestMesh) -> u64 {
        let owned = async || {
            let path = format!("rooms/{}/explain", Self::NAME);
            let explained = operator(&mesh.node_internal(0), "GET", &path, None).await.1;
            explained["nodes"].as_array()?.iter().find_map(|node| node["owned"]["incarnation"].as_u64())
        };
        until_some("a node to own the room", owned).await
    }
}
