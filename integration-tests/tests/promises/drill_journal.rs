//! Rooms come back from the journal when all nodes or both copies are lost. Clients notice nothing
//! of a journal that is away. One that lost writes or keys is right again after the next change.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::redis::Server;
use signaling_integration_tests::room_client::SeatStatus;
use signaling_integration_tests::{RoomClient, TestMesh, admin, eventually, operator, within};

const ROOM: &str = "full";
/// Two members, then the queue.
const CLIENTS: [&str; 5] = ["anna", "bert", "cora", "dora", "emil"];
/// Longer than a newcomer waits for the journal.
const PROMPT: Duration = Duration::from_millis(1_500);
/// Shorter than the interval of signs of life, which find what the journal lacks too.
const BEFORE_SIGN_OF_LIFE: Duration = Duration::from_secs(30);

async fn mesh(journal: &str) -> TestMesh {
    TestMesh::with_options(|options: &mut MeshOptions| {
        (options.nodes, options.balancers) = (3, 1);
        options.removal_delay = Duration::from_millis(500);
        options.node_args = vec![format!("--room-journal={journal}")];
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
    eventually("the journal has the room", async || has_room(redis, 0)).await;
}

/// Returns `true` if readers see the room from this client on: two members, then the queue.
fn has_room(redis: &Server, first: usize) -> bool {
    let clients = |command: &[&str]| redis.cli(command).lines().map(str::to_owned).collect::<Vec<_>>();
    let sorted = |command: &[&str]| {
        let mut clients = clients(command);
        clients.sort_unstable();
        clients
    };
    let (members, waiting) = CLIENTS[first..].split_at(2);
    sorted(&["zrange", "sig:{full}:members", "0", "-1"]) == members
        && sorted(&["hkeys", "sig:{full}:participants"]) == members
        && clients(&["zrange", "sig:{full}:waiting", "0", "-1"]) == waiting
        && sorted(&["hkeys", "sig:{full}:waiters"]) == waiting
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
async fn queue_capacity_and_blocks_come_back_after_a_restart_of_all() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis.url()).await;
    let clients = fill(&mesh).await;
    let body = Some(json!({ "for_ms": 600_000 }));
    assert_eq!(operator(&mesh.node_internal(0), "PUT", &format!("rooms/{ROOM}/blocks/eve"), body).await.0, 200);
    until_written(&redis).await;
    let is_blocked = async || redis.cli(&["hget", "sig:{full}:meta", "blocks"]).contains("eve");
    eventually("the journal has the block", is_blocked).await;
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
    let mut eve = RoomClient::connect(&mesh.url(), "eve").await;
    let refused = eve.ask(json!({ "type": "join", "room": ROOM })).await;
    assert_eq!(refused["code"], "forbidden", "{refused}");
    assert!(refused["retry_after_ms"].as_u64().is_some_and(|rest| rest < 600_000), "{refused}");
    for (client, seat) in clients.iter().zip([SeatStatus::Member, SeatStatus::Member]) {
        client.gets(ROOM, seat).await;
    }
    assert_is_as_before(&mesh, &mut clients).await;
}

#[tokio::test]
async fn room_is_complete_after_the_loss_of_both_copies() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis.url()).await;
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
    let mesh = mesh(&redis.url()).await;
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

#[tokio::test]
async fn lost_writes_of_a_failover_are_written_again() {
    let Some(primary) = Server::start() else { return };
    let replica = primary.start_replica();
    let sentinel = primary.start_sentinel();
    let is_known = || sentinel.cli(&["sentinel", "replicas", "rooms"]).contains(&replica.port.to_string());
    eventually("the sentinel has the replica", async || is_known()).await;
    let mesh = mesh(&sentinel.sentinel_url()).await;
    let mut clients = fill(&mesh).await;
    until_written(&primary).await;
    eventually("the replica has the room", async || has_room(&replica, 0)).await;

    // What the primary sends to a paused replica stays in its socket, unless that is closed.
    replica.pause();
    primary.cli(&["client", "kill", "type", "replica"]);
    clients[0].leave(ROOM).await;
    eventually("the primary has the change", async || has_room(&primary, 1)).await;
    drop(primary);
    replica.resume();
    eventually("the replica is the primary", async || replica.cli(&["role"]).starts_with("master")).await;
    // The owner writes another room to it, and does not detect the loss yet.
    let other = mesh.id_owned_by(&mesh.owner(ROOM), "other");
    clients[4].join(&other).await;
    let is_written = async || replica.cli(&["exists", &format!("sig:{{{other}}}:meta")]) == "1";
    eventually("the journal has another room", is_written).await;
    assert!(has_room(&replica, 0), "the change is lost");

    clients[1].leave(ROOM).await;
    within(BEFORE_SIGN_OF_LIFE, "the present room", async || has_room(&replica, 2).then_some(())).await;
    clients.iter().for_each(RoomClient::assert_no_faults);
}

#[tokio::test]
async fn evicted_keys_are_written_again() {
    let Some(redis) = Server::start() else { return };
    let mesh = mesh(&redis.url()).await;
    let mut clients = fill(&mesh).await;
    until_written(&redis).await;
    redis.cli(&["config", "set", "maxmemory-policy", "volatile-lru"]);
    let used = redis.cli(&["info", "memory"]).lines().find_map(|line| line.strip_prefix("used_memory:").map(parse));
    redis.cli(&["config", "set", "maxmemory", &(used.unwrap() + 1_000_000).to_string()]);
    // Other data, without an end, takes the place of the room.
    for number in 0.. {
        if redis.cli(&["exists", "sig:{full}:meta"]) == "0" {
            break;
        }
        assert!(number < 100, "nothing is evicted");
        redis.cli(&["setrange", &format!("other-{number}"), "50000", "x"]);
    }
    assert!(!has_room(&redis, 0), "the room is evicted");
    redis.cli(&["config", "set", "maxmemory", "0"]);

    clients[0].leave(ROOM).await;
    within(BEFORE_SIGN_OF_LIFE, "the present room", async || has_room(&redis, 1).then_some(())).await;
    clients.iter().for_each(RoomClient::assert_no_faults);
}

fn parse(number: &str) -> u64 {
    number.trim().parse().unwrap()
}
