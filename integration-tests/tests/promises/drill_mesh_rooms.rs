//! Rooms that nodes own, on three real nodes without a store: visitors join and leave all the time
//! while nodes are killed, drained and paused.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::{
    Crowd, Relay, RoomClient, RoomTimes, SeatStatus, TestMesh, eventually, go_on, setting,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Time until the view drops a killed node.
const REMOVAL_DELAY: Duration = Duration::from_millis(500);
/// Time in which all joins succeed again after the view has dropped a node.
const REPAIR: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(5);
const VISITORS: usize = 10;

/// An answered join or leave of a visitor.
struct Answer {
    began: Instant,
    ended: Instant,
    answer: Value,
}

#[tokio::test]
async fn rooms_survive_kill_drain_and_pause_of_their_nodes() {
    let mesh = TestMesh::with(|options: &mut MeshOptions| {
        (options.nodes, options.balancers, options.removal_delay) = (3, 2, REMOVAL_DELAY);
        options.node_args = RoomTimes::SHORT.flags();
    })
    .await;
    let (clients, rooms) = (setting("DRILL_CLIENTS", 500), setting("DRILL_ROOMS", 50));
    let mut crowd = Crowd::gather(&mesh, "crowd", rooms, clients).await;
    let visited: Vec<_> = (0..rooms).map(|number| crowd.room(number)).collect();

    let answers = while_visited(&mesh, &visited, async {
        mesh.scale(4).await.unwrap();
        mesh.agrees().await;
        mesh.drain("node-2").await.unwrap();
        mesh.agrees().await;
    })
    .await;
    assert_all_succeed(&answers, "a node joined and a node drained");
    crowd.assert_broadcasts_arrive("a node drained").await;

    let mut killed = Instant::now();
    let answers = while_visited(&mesh, &visited, async {
        killed = Instant::now();
        mesh.kill("node-1").await.unwrap();
        go_on(Duration::from_secs(4)).await;
    })
    .await;
    assert_all_succeed_after(&answers, killed + REMOVAL_DELAY, "a node was killed");
    let slowest = answers.iter().filter(|answer| answer.is_success()).map(|answer| answer.ended - killed).min();
    println!("kill -9: {} joins and leaves, the first answered after {slowest:?}", answers.len());
    crowd.assert_broadcasts_arrive("a node was killed").await;

    let mut resumed = Instant::now();
    let answers = while_visited(&mesh, &visited, async {
        mesh.pause("node-0").await.unwrap();
        go_on(PAUSE).await;
        mesh.resume("node-0").await.unwrap();
        resumed = Instant::now();
        go_on(PAUSE).await;
    })
    .await;
    assert_all_succeed_after(&answers, resumed, "a node was paused");
    crowd.assert_broadcasts_arrive("a node was paused").await;

    assert_all_stayed(&crowd).await;
}

#[tokio::test]
async fn rooms_survive_a_partition_between_two_nodes() {
    let mesh = TestMesh::with(|options: &mut MeshOptions| {
        (options.nodes, options.balancers) = (3, 2);
        options.node_args = RoomTimes::SHORT.flags();
    })
    .await;
    let (clients, rooms) = (setting("DRILL_CLIENTS", 500), setting("DRILL_ROOMS", 50));
    let mut crowd = Crowd::gather(&mesh, "crowd", rooms, clients).await;
    let visited: Vec<_> = (0..rooms).map(|number| crowd.room(number)).collect();
    let (to_first, to_second) = (Relay::to_node(&mesh, "node-0").await, Relay::to_node(&mesh, "node-1").await);
    to_first.until_used(&mesh, "node-1", "node-0").await;
    to_second.until_used(&mesh, "node-0", "node-1").await;

    let mut healed = Instant::now();
    let answers = while_visited(&mesh, &visited, async {
        to_first.hold_lanes_of(&["node-1"]);
        to_second.hold_lanes_of(&["node-0"]);
        go_on(PAUSE).await;
        to_first.let_go();
        to_second.let_go();
        healed = Instant::now();
        go_on(PAUSE).await;
    })
    .await;
    assert_all_succeed_after(&answers, healed, "two nodes were parted");
    crowd.assert_broadcasts_arrive("two nodes were parted").await;
    assert_all_stayed(&crowd).await;
}

/// Waits until seats that were not claimed have expired, and checks that no client of the crowd has
/// left, lost its socket or seen a fault.
async fn assert_all_stayed(crowd: &Crowd) {
    go_on(RoomTimes::SHORT.max_seat_without_refresh() + Duration::from_secs(2)).await;
    let gone: Vec<_> = crowd.departures().filter(|(_, departure)| departure.client_id.starts_with("crowd-")).collect();
    assert!(gone.is_empty(), "{} shown as leaving, the first: {:?}", gone.len(), gone[0]);
    for (number, client) in crowd.clients.iter().enumerate() {
        let (seat, closed) = (client.room(&crowd.room(number)).seat, client.seen().closed.clone());
        assert_eq!((seat, closed), (SeatStatus::Member, None), "{}", client.id);
        // A visitor that joins and leaves within 0.2 s is only shown leaving.
        let seen = client.seen();
        let faults: Vec<_> = seen.faults().filter(|fault| !fault.contains("visitor-")).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[tokio::test]
async fn full_room_keeps_order_when_owner_and_backup_change() {
    const SEATS: usize = 4;
    let mesh = TestMesh::with(|options: &mut MeshOptions| {
        (options.nodes, options.balancers, options.removal_delay) = (4, 1, REMOVAL_DELAY);
        options.node_args = RoomTimes::SHORT.flags();
        options.node_args.push(format!("--room-capacity={SEATS}"));
    })
    .await;
    let mut clients = Vec::new();
    for number in 0..3 * SEATS {
        let mut client = RoomClient::connect(&mesh.url(), &format!("c{number}")).await;
        let seat = client.join("full").await;
        assert_eq!(seat == SeatStatus::Member, number < SEATS, "{seat:?}");
        clients.push(client);
    }

    for number in 0..2 * SEATS {
        // The owner is killed, then a backup, then an owner again.
        if number % 3 == 1 {
            let lost = mesh.ranked("full").remove(usize::from(number == 4));
            mesh.kill(&lost).await.unwrap();
            let is_dropped = async || (!mesh.ranked("full").contains(&lost)).then_some(());
            eventually("the view to drop the node", is_dropped).await;
            go_on(REPAIR).await;
        }
        clients[number].leave("full").await;
        clients[number + SEATS].gets("full", SeatStatus::Member).await;
        let list = clients[number + SEATS].members("full", None).await;
        let members: Vec<_> = list["members"].as_array().unwrap().iter().map(|member| &member["client_id"]).collect();
        let expected: Vec<_> = (number + 1..=number + SEATS).map(|member| json!(format!("c{member}"))).collect();
        assert_eq!(members, expected.iter().collect::<Vec<_>>());
    }
}

impl Answer {
    fn is_success(&self) -> bool {
        self.answer["type"] != "error"
    }
}

fn assert_all_succeed(answers: &[Answer], what: &str) {
    let refused: Vec<_> = answers.iter().filter(|answer| !answer.is_success()).collect();
    assert!(refused.is_empty(), "{what}: {} of {} refused, e.g. {}", refused.len(), answers.len(), refused[0].answer);
    let slowest = answers.iter().map(|answer| answer.ended - answer.began).max();
    println!("{what}: {} joins and leaves, the slowest {slowest:?}", answers.len());
}

/// Checks that all that began 1 s after the end of a fault, or later, succeed.
fn assert_all_succeed_after(answers: &[Answer], end: Instant, what: &str) {
    let refused: Vec<_> = answers.iter().filter(|answer| !answer.is_success()).collect();
    println!("{what}: {} joins and leaves, {} refused", answers.len(), refused.len());
    let late: Vec<_> = refused.iter().filter(|answer| answer.began > end + REPAIR).collect();
    assert!(late.is_empty(), "{} refused after the repair, the first: {}", late.len(), late[0].answer);
}

/// Has visitors join and leave the rooms in turn during `event`. Returns their answers.
async fn while_visited(mesh: &TestMesh, rooms: &[String], event: impl Future<Output = ()>) -> Vec<Answer> {
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
    go_on(Duration::from_millis(500)).await;
    event.await;
    go_on(Duration::from_millis(500)).await;
    let _ = stop.send(true);
    visitors.join_all().await.into_iter().flatten().collect()
}
