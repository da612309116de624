//! Rooms during faults: clients stay in them, and visitors join and leave all the time.
//! `DRILL_CLIENTS` (default: 500) is the number of clients that stay, and `DRILL_ROOMS` (50) that
//! of their rooms.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{Crowd, FullRoom, RoomClient, RoomTimes, TestMesh, setting};

const VISITORS: usize = 10;

/// Three nodes, two balancers, and clients in rooms.
pub struct RoomDrill {
    pub mesh: TestMesh,
    pub crowd: Crowd,
    /// The rooms of the crowd. The visitors find two free seats in each.
    pub rooms: Vec<String>,
    pub full: FullRoom,
}

/// An answered join or leave of a visitor.
struct Answer {
    began: Instant,
    ended: Instant,
    answer: Value,
}

impl RoomDrill {
    /// Time in which all operations succeed again after the end of a fault.
    pub const REPAIR: Duration = Duration::from_secs(1);

    /// Starts a mesh whose view drops a killed node after `removal_delay`, and gathers the clients.
    pub async fn start(removal_delay: Duration) -> Self {
        let (clients, rooms) = (setting("DRILL_CLIENTS", 500), setting("DRILL_ROOMS", 50));
        let capacity = clients / rooms + 2;
        let mesh = TestMesh::with_options(|options: &mut MeshOptions| {
            (options.nodes, options.balancers, options.removal_delay) = (3, 2, removal_delay);
            options.node_args = RoomTimes::SHORT.flags();
            options.node_args.push(format!("--room-capacity={capacity}"));
        })
        .await;
        let crowd = Crowd::gather(&mesh, "crowd", rooms, clients).await;
        let full = FullRoom::gather(&mesh, capacity).await;
        Self { mesh, rooms: (0..rooms).map(|number| crowd.room(number)).collect(), crowd, full }
    }

    /// Has visitors join and leave during `fault`, which returns the time of its end. All their
    /// operations that begin [`Self::REPAIR`] after it must succeed; without a time, all. Then the
    /// full room moves up, and a broadcast in each room must arrive.
    pub async fn run(&mut self, what: &str, fault: impl AsyncFnOnce(&TestMesh, &mut FullRoom) -> Option<Instant>) {
        let (answers, end) = while_visited(&self.mesh, &self.rooms, fault(&self.mesh, &mut self.full)).await;
        let (refused, done): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.answer["type"] == "error");
        let slowest = done.iter().map(|it| it.ended - it.began).max();
        println!("{what}: {} joins and leaves, {} refused, the slowest {slowest:?}", answers.len(), refused.len());
        let late: Vec<_> = refused.iter().filter(|it| end.is_none_or(|end| it.began > end + Self::REPAIR)).collect();
        assert!(late.is_empty(), "{what}: {} refused after the repair, the first: {}", late.len(), late[0].answer);
        self.full.move_up().await;
        self.crowd.assert_broadcasts_arrive(what).await;
    }

    /// Waits until seats that were not claimed have expired. Asserts that no client that stayed was
    /// shown as leaving, lost its seat or socket, or received inconsistent messages. Asserts also
    /// that each seat is at exactly one node.
    pub async fn assert_all_stayed(&self) {
        self.crowd.all_stay_for(RoomTimes::SHORT.max_unclaimed() + Duration::from_secs(2)).await;
        for client in &self.crowd.clients {
            // A visitor that joins and leaves within 0.2 s is only shown leaving.
            let seen = client.seen();
            let faults: Vec<_> = seen.faults().filter(|fault| !fault.contains("visitor-")).collect();
            assert!(faults.is_empty(), "{faults:?}");
        }
        self.full.assert_consistent();
        let seats: f64 = self.mesh.metrics("node-", "signaling_room_seats", "member").await.iter().sum();
        assert_eq!(seats, (self.crowd.clients.len() + self.full.capacity) as f64);
    }
}

/// Has visitors join and leave the rooms in turn during `event`. Returns their answers, and its
/// result.
async fn while_visited<T>(mesh: &TestMesh, rooms: &[String], event: impl Future<Output = T>) -> (Vec<Answer>, T) {
    let (stop, stopped) = watch::channel(false);
    let mut visitors = JoinSet::new();
    let balancers = mesh.state().balancers;
    for number in 0..VISITORS {
        let url = balancers[number % balancers.len()].url.clone();
        let (rooms, stopped) = (rooms.to_vec(), stopped.clone());
        visitors.spawn(async move {
            let mut visitor = RoomClient::connect(&url, &format!("visitor-{number}")).await;
            let mut answers = Vec::new();
            for room in rooms.iter().cycle().skip(number * rooms.len() / VISITORS) {
                for kind in ["join", "leave"] {
                    let began = Instant::now();
                    let answer = visitor.ask(json!({ "type": kind, "room": room })).await;
                    answers.push(Answer { began, ended: Instant::now(), answer });
                }
                if *stopped.borrow() {
                    break;
                }
            }
            visitor.close().await;
            answers
        });
    }
    sleep(Duration::from_millis(500)).await;
    let result = event.await;
    sleep(Duration::from_millis(500)).await;
    let _ = stop.send(true);
    (visitors.join_all().await.into_iter().flatten().collect(), result)
}
