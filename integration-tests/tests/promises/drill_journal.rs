//! Rooms come back from the journal when all nodes or both copies are lost. Clients notice nothing
//! of a journal that is away. Other programs read rooms by plain commands.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::redis::Server;
use signaling_integration_tests::room_client::SeatStatus;
use signaling_integration_tests::{RoomClient, TestMesh, admin, eventually, operator};

const ROOM: &str = "full";
/// Two members, then the queue.
const CLIENTS: [&str; 5] = ["anna", "bert", "cora", "dora", "emil"];
/// Longer than a newcomer waits for the journal.
const PROMPT: Duration = Duration::from_millis(1_500);

async fn mesh(redis: &Server) -> TestMesh {
    TestMesh::with_options(|options: &mut MeshOptions| {
        (options.nodes, options.balancers) = (3, 1);
        options.removal_delay = Duration::from_millis(500);
        options.node_args = vec![format!("--room-journal={}", redis.url())];
    })
    .await
}

/// Gives the room two seats, and has all clients join in order.
async fn fill(mesh: &TestMesh) -> Vec<RoomClient> {
    let body = Some(json!({ "capacity": 2 }));
    let (status, answer) = operator(&mesh.node_internal(0), "PUT", &format!("rooms/{ROOM}/capacity"), body).await;
    assert_eq!(status, 200, "{answer}");
    let mut clients = Vec::new();
    for id in CLIENTS {
        let mut client = RoomClient::connect(&mesh.url(), id).await;
        client.join(ROOM).await;
        clients.push(client);
    }
    clients
}

async fn until_written(redis: &Server) {
    let is_written = async || {
        let waiting = redis.cli(&["zrange", "sig:{full}:waiting", "0", "-1"]);
        let members = redis.cli(&["hlen", "sig:{full}:participants"]);
        waiting.lines().eq(["cora", "dora", "emil"]) && members == "2"
    };
    eventually("the journal has the room", is_written).await;
}

/// Checks that the room has its capacity, and that the queue moves up in order.
async fn assert_is_as_before(mesh: &TestMesh, clients: &mut [RoomClient]) {
    let room: Value = admin(&mesh.node_internal(0), "GET", &format!("rooms/{ROOM}")).await;
    assert_eq!((&room["capacity"], &room["count"], &room["waiting"]), (&json!(2), &json!(2), &json!(3)), "{room}");
    for left in 0..3 {
        clients[left].leave(ROOM).await;
        let is_member = |client: &RoomClient| client.room(ROOM).seat == SeatStatus::Member;
        eventually("the next client is in", async || is_member(&clients[left + 2])).await;
        let later = clients[left + 3..].iter().filter(|client| is_member(client)).count();
        assert_eq!(later, 0, "{}", clients[left + 2].id);
    }
}

#[tokio::test]
async fn queue_and_capacity_come_back_after_a_restart_of_all() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis).await;
    let clients = fill(&mesh).await;
    until_written(&redis).await;
    let servers = ["balancer-0", "node-0", "node-1", "node-2"];
    for server in servers {
        mesh.kill(server).await.unwrap();
    }
    drop(clients);
    for server in ["node-0", "node-1", "node-2", "balancer-0"] {
        mesh.restart(server).await.unwrap();
    }
    mesh.until_views_agree().await;

    // New sessions, in another order.
    let mut clients = Vec::new();
    for id in CLIENTS.iter().rev() {
        let mut client = RoomClient::connect(&mesh.url(), id).await;
        client.join(ROOM).await;
        clients.insert(0, client);
    }
    for (client, seat) in clients.iter().zip([SeatStatus::Member, SeatStatus::Member]) {
        client.gets(ROOM, seat).await;
    }
    assert_is_as_before(&mesh, &mut clients).await;
}

#[tokio::test]
async fn room_is_complete_after_the_loss_of_both_copies() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis).await;
    let mut clients = fill(&mesh).await;
    until_written(&redis).await;
    let ranked = mesh.ranked(ROOM);
    let (owner, backup) = tokio::join!(mesh.kill(&ranked[0]), mesh.kill(&ranked[1]));
    owner.and(backup).unwrap();
    for node in &ranked[..2] {
        mesh.restart(node).await.unwrap();
    }
    mesh.until_views_agree().await;
    let is_back = async || {
        let (status, room) = operator(&mesh.node_internal(0), "GET", &format!("rooms/{ROOM}"), None).await;
        status == 200 && room["count"] == 2 && room["waiting"] == 3
    };
    eventually("the room is back", is_back).await;
    assert_is_as_before(&mesh, &mut clients).await;
}

#[tokio::test]
async fn clients_notice_nothing_while_the_journal_is_away() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis).await;
    let clients = fill(&mesh).await;
    until_written(&redis).await;
    redis.pause();
    let mut late = RoomClient::connect(&mesh.url(), "late").await;
    for number in 0..50 {
        let (room, begin) = (format!("other-{number}"), Instant::now());
        // Until the journal counts as down, a newcomer waits for at most 1 s.
        late.join(&room).await;
        late.gets(&room, SeatStatus::Member).await;
        assert!(begin.elapsed() < PROMPT, "{room}: {:?}", begin.elapsed());
    }
    redis.resume();
    let are_listed = async || redis.cli(&["zcard", "sig:rooms"]) == "51";
    eventually("the journal has all rooms", are_listed).await;
    let process = async || redis.cli(&["hget", "{sig}:registry", "late"]);
    eventually("the registry has the client", async || process().await.starts_with("node-")).await;
    clients.iter().for_each(RoomClient::assert_no_faults);
    late.leave("other-0").await;
    late.close().await;
}
