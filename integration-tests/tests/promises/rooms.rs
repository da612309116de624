//! The promises about rooms, on three real nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_integration_tests::room_client::SeatStatus;
use signaling_integration_tests::{Crowd, RoomClient, RoomTimes, TestMesh, admin, operator, stays};

/// Members of one answer at most.
const PAGE: usize = 500;
const SHORT: RoomTimes = RoomTimes::SHORT;
/// Seats outlast sessions.
const LONG_GRACE: RoomTimes = RoomTimes { seat_grace: Duration::from_secs(3), resume: Duration::from_secs(1), ..SHORT };

/// Added to times by settings, for checks and messages.
const SLACK: Duration = Duration::from_secs(2);

/// Starts a mesh with two balancers and three nodes.
async fn mesh(times: RoomTimes, flags: &[&str]) -> TestMesh {
    TestMesh::with_options(|options| {
        (options.nodes, options.balancers) = (3, 2);
        options.node_args = times.flags();
        options.node_args.extend(flags.iter().map(ToString::to_string));
    })
    .await
}

#[tokio::test]
async fn members_see_joins_broadcasts_and_leaves() {
    let mesh = mesh(SHORT, &[]).await;
    let mut alice = client(&mesh, 0, "alice").await;
    let mut bob = client(&mesh, 1, "bob").await;
    let mut carol = client(&mesh, 0, "carol").await;
    assert_eq!(alice.join("r").await, SeatStatus::Member);
    assert_eq!(alice.room("r").members.keys().collect::<Vec<_>>(), ["alice"]);

    assert_eq!(bob.join("r").await, SeatStatus::Member);
    assert_eq!(bob.room("r").members["alice"], json!({ "name": "alice" }));
    alice.until("bob", |seen| seen.room("r").members.contains_key("bob")).await;
    carol.join("r").await;
    for client in [&alice, &bob] {
        client.until("carol", |seen| seen.room("r").members.len() == 3).await;
    }

    assert_eq!(alice.broadcast("r", json!({ "muted": true })).await, 2);
    for client in [&bob, &carol] {
        client.until("the broadcast", |seen| !seen.broadcasts.is_empty()).await;
        let received = client.seen().broadcasts.clone();
        assert_eq!(received.len(), 1);
        assert_eq!((&received[0]["from"], &received[0]["room"]), (&json!("alice"), &json!("r")));
        assert_eq!(received[0]["data"], json!({ "muted": true }));
    }
    assert!(alice.seen().broadcasts.is_empty(), "not to the sender");

    bob.leave("r").await;
    bob.until("its own leaving", |seen| seen.room("r").left_reasons == ["left"]).await;
    for client in [&alice, &carol] {
        client.until("bob leaving", |seen| !seen.room("r").members.contains_key("bob")).await;
        assert_eq!(client.room("r").departures[0].reason, "left");
    }
    let refused = bob.ask(json!({ "type": "broadcast", "room": "r", "data": 1 })).await;
    assert_eq!((&refused["code"], &refused["room"]), (&json!("not_in_room"), &json!("r")));
    assert_eq!(alice.broadcast("r", json!("still here?")).await, 1);
    [&alice, &bob, &carol].into_iter().for_each(RoomClient::assert_no_faults);
}

#[tokio::test]
async fn members_of_a_large_room_are_listed_in_pages() {
    let mesh = mesh(SHORT, &[]).await;
    let crowd = Crowd::join(&mesh, "many", 1, PAGE + 20).await;
    let mut asker = client(&mesh, 0, "asker").await;
    asker.join("many-room-0").await;

    let first = asker.members("many-room-0", None).await;
    let names = |page: &Value| -> Vec<String> {
        let members = page["members"].as_array().unwrap();
        members.iter().map(|member| member["client_id"].as_str().unwrap().to_owned()).collect()
    };
    let second = asker.members("many-room-0", names(&first).last().map(String::as_str)).await;

    assert_eq!((first["count"].as_u64(), &first["more"]), (Some(PAGE as u64 + 21), &json!(true)));
    assert_eq!((names(&first).len(), names(&second).len(), &second["more"]), (PAGE, 21, &json!(false)));
    assert_eq!(names(&second).last().map(String::as_str), Some("asker"), "the oldest first");
    assert_eq!((&first["after"], second["after"].as_str()), (&Value::Null, names(&first).last().map(String::as_str)));
    let mut all = [names(&first), names(&second)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), PAGE + 21, "no client is in two pages");
    crowd.assert_no_faults();
}

#[tokio::test]
async fn waiting_queue_of_a_full_room_moves_up_in_order() {
    let mesh = mesh(SHORT, &["--room-capacity=2"]).await;
    let mut clients = joined(&mesh, 5).await;
    let waiting = |ahead, queue_length| SeatStatus::Waiting { ahead, queue_length };
    let seats = [SeatStatus::Member, SeatStatus::Member, waiting(0, 1), waiting(1, 2), waiting(2, 3)];
    for (client, seat) in clients.iter().zip(seats) {
        client.gets("r", seat).await;
    }
    let refused = clients[2].ask(json!({ "type": "broadcast", "room": "r", "data": 1 })).await;
    assert_eq!(refused["code"], "not_in_room", "a waiting client may not broadcast");

    clients[0].leave("r").await;
    clients[2].gets("r", SeatStatus::Member).await;
    clients[4].gets("r", waiting(1, 2)).await;
    clients[3].leave("r").await;
    clients[4].gets("r", waiting(0, 1)).await;
    assert_eq!(clients[0].join("r").await, waiting(1, 2), "a returning client queues at the end");

    clients[1].leave("r").await;
    clients[4].gets("r", SeatStatus::Member).await;
    clients[2].until("the newcomer", |seen| seen.room("r").members.contains_key("client-4")).await;
    assert_eq!(clients[2].room("r").members.len(), 2);
    assert!(matches!(clients[0].room("r").seat, SeatStatus::Waiting { .. }));
    clients.iter().for_each(RoomClient::assert_no_faults);
}

#[tokio::test]
async fn seat_of_a_lost_client_is_kept_for_the_grace_time() {
    let mesh = mesh(LONG_GRACE, &["--room-capacity=1"]).await;
    let RoomTimes { seat_grace, resume, .. } = LONG_GRACE;
    let mut alice = client(&mesh, 0, "alice").await;
    let mut bob = client(&mesh, 1, "bob").await;
    alice.join("r").await;
    assert_eq!(bob.join("r").await, SeatStatus::Waiting { ahead: 0, queue_length: 1 });
    let is_waiting = async || matches!(bob.room("r").seat, SeatStatus::Waiting { ahead: 0, .. });

    drop(alice);
    stays("bob waiting", resume + Duration::from_millis(700), is_waiting).await;
    let mut alice = client(&mesh, 1, "alice").await;
    assert_eq!(alice.join("r").await, SeatStatus::Member, "within the grace time, in another session");
    stays("bob waiting", seat_grace + SLACK, is_waiting).await;

    let gone = Instant::now();
    drop(alice);
    bob.gets("r", SeatStatus::Member).await;
    let waited = gone.elapsed();
    assert!(waited >= seat_grace, "given away after {waited:?}");
    assert!(waited <= seat_grace + SLACK * 2, "kept for {waited:?}");
    let mut alice = client(&mesh, 0, "alice").await;
    assert_eq!(alice.join("r").await, SeatStatus::Waiting { ahead: 0, queue_length: 1 }, "too late");
}

#[tokio::test]
async fn resumed_member_has_not_left() {
    let mesh = mesh(SHORT, &[]).await;
    let mut crowd = Crowd::gather(&mesh, "back", 1, 4).await;

    let mut back = crowd.clients.remove(3).resume(&mesh.state().balancers[1].url).await;

    assert!(back.resumed);
    assert_eq!(crowd.clients[0].broadcast("back-room-0", json!("welcome back")).await, 3);
    back.until("the broadcast", |seen| seen.broadcasts.len() == 1).await;
    assert_eq!(crowd.clients[1].seen().broadcasts.len(), 1);
    assert_eq!(back.broadcast("back-room-0", json!("thank you")).await, 3, "it does not join again");
    crowd.all_stay_for(SHORT.resume + SHORT.seat_grace + SHORT.max_unclaimed()).await;
    crowd.assert_no_faults();
    assert_eq!(back.join("back-room-0").await, SeatStatus::Member);
    assert_eq!(back.room("back-room-0").members.len(), 4);
}

#[tokio::test]
async fn raised_capacity_admits_the_waiting_queue_in_order() {
    let mesh = mesh(SHORT, &["--room-capacity=1"]).await;
    let mut clients = joined(&mesh, 4).await;
    let node = mesh.node_internal(0);
    let shown = admin(&node, "GET", "rooms/r").await;
    assert_eq!((&shown["capacity"], &shown["count"], &shown["waiting"]), (&json!(1), &json!(1), &json!(3)));
    assert_eq!(shown["members"][0]["client_id"], "client-0");

    operator(&node, "PUT", "rooms/r/capacity", Some(json!({ "capacity": 3 }))).await;

    clients[1].until("the seat", |seen| seen.room("r").members.len() == 3).await;
    clients[2].gets("r", SeatStatus::Member).await;
    clients[3].until("to be first", |seen| matches!(seen.room("r").seat, SeatStatus::Waiting { ahead: 0, .. })).await;
    let shown = admin(&node, "GET", "rooms/r").await;
    let names: Vec<_> = shown["members"].as_array().unwrap().iter().map(|member| &member["client_id"]).collect();
    assert_eq!(names, ["client-0", "client-1", "client-2"]);
    operator(&node, "DELETE", "rooms/r/capacity", None).await;
    clients[0].leave("r").await;
    clients[1].leave("r").await;
    stays("client-3 waiting, by the capacity of all rooms", SLACK, async || {
        matches!(clients[3].room("r").seat, SeatStatus::Waiting { .. })
    })
    .await;
    clients[2].leave("r").await;
    clients[3].gets("r", SeatStatus::Member).await;
}

#[tokio::test]
async fn members_stay_unchanged_while_nodes_come_and_go() {
    let mesh = mesh(SHORT, &[]).await;
    let mut crowd = Crowd::gather(&mesh, "scale", 10, 100).await;
    let versions = |crowd: &Crowd| -> Vec<u64> {
        (0..crowd.clients.len()).map(|number| crowd.clients[number].room(&crowd.room(number)).version).collect()
    };
    let before = versions(&crowd);

    mesh.scale(5).await.unwrap();
    mesh.until_views_agree().await;
    crowd.assert_broadcasts_arrive("five nodes").await;
    mesh.scale(2).await.unwrap();
    mesh.until_views_agree().await;
    crowd.assert_broadcasts_arrive("two nodes").await;

    crowd.all_stay_for(SHORT.max_unclaimed() + Duration::from_secs(1)).await;
    assert_eq!(versions(&crowd), before, "nothing has changed");
    crowd.assert_no_faults();
}

async fn client(mesh: &TestMesh, balancer: usize, id: &str) -> RoomClient {
    RoomClient::connect(&mesh.state().balancers[balancer].url, id).await
}

/// Connects clients to the balancers in turn, each of which joins the room `r`.
async fn joined(mesh: &TestMesh, count: usize) -> Vec<RoomClient> {
    let mut clients = Vec::new();
    for number in 0..count {
        clients.push(client(mesh, number % 2, &format!("client-{number}")).await);
        clients[number].join("r").await;
    }
    clients
}
