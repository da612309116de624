//! Operators, or the backend of an application, end seats, keep clients out and close rooms.

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::room_client::SeatStatus;
use signaling_integration_tests::{RoomClient, RoomTimes, TestMesh, admin, operator};

/// Starts three nodes with a client of each balancer in the room `r`, and one more in no room.
async fn mesh() -> (TestMesh, [RoomClient; 3]) {
    let mesh = TestMesh::with_options(|options| {
        (options.nodes, options.balancers) = (3, 2);
        options.node_args = RoomTimes::SHORT.flags();
    })
    .await;
    let url = |balancer: usize| mesh.state().balancers[balancer].url.clone();
    let mut alice = RoomClient::connect(&url(0), "alice").await;
    let mut bob = RoomClient::connect(&url(1), "bob").await;
    let carol = RoomClient::connect(&url(0), "carol").await;
    alice.join("r").await;
    bob.join("r").await;
    (mesh, [alice, bob, carol])
}

async fn has_left(client: &RoomClient, reasons: &[&str]) {
    client.until("its departure", |seen| seen.room("r").left_reasons == reasons).await;
    assert_eq!(client.room("r").seat, SeatStatus::Out);
}

async fn ask_to_join(client: &mut RoomClient) -> Value {
    client.ask(json!({ "type": "join", "room": "r" })).await
}

#[tokio::test]
async fn removed_client_may_join_again() {
    let (mesh, [alice, mut bob, _]) = mesh().await;
    let node = mesh.node_internal(0);
    let (status, answer) = operator(&node, "DELETE", "rooms/r/members/bob", None).await;
    assert_eq!((status, answer), (200, json!({ "room": "r", "client_id": "bob", "was_here": true })));
    has_left(&bob, &["removed"]).await;
    alice.until("bob's departure", |seen| !seen.room("r").members.contains_key("bob")).await;
    assert_eq!(alice.room("r").departures[0].reason, "removed");
    assert_eq!(bob.join("r").await, SeatStatus::Member);
    let (status, answer) = operator(&node, "DELETE", "rooms/r/members/eve", None).await;
    assert_eq!((status, &answer["was_here"]), (200, &json!(false)));
}

#[tokio::test]
async fn blocked_client_stays_out_until_it_is_unblocked() {
    let (mesh, [_, mut bob, mut carol]) = mesh().await;
    let node = mesh.node_internal(1);
    for client in ["bob", "carol"] {
        let body = json!({ "for_ms": 600_000 });
        let (status, answer) = operator(&node, "PUT", &format!("rooms/r/blocks/{client}"), Some(body)).await;
        assert_eq!((status, &answer["was_here"]), (200, &json!(client == "bob")));
    }
    has_left(&bob, &["removed"]).await;
    for client in [&mut bob, &mut carol] {
        let refused = ask_to_join(client).await;
        let wait = refused["retry_after_ms"].as_u64().unwrap();
        assert_eq!(refused["code"], "forbidden");
        assert!((500_000..=600_000).contains(&wait), "{refused}");
    }
    assert_eq!(admin(&node, "GET", "rooms/r").await["blocks"], 2);

    // The next owner has the blocks too.
    let owner = admin(&node, "GET", "rooms/r/explain").await["owner"].as_str().unwrap().to_owned();
    mesh.drain(&owner).await.unwrap();
    mesh.until_views_agree().await;
    assert_eq!(ask_to_join(&mut carol).await["code"], "forbidden");
    let node = mesh.node_internal(usize::from(owner == "node-0"));
    assert_eq!(operator(&node, "DELETE", "rooms/r/blocks/carol", None).await.1["blocks"], 1);
    assert_eq!(carol.join("r").await, SeatStatus::Member);
    for body in [json!({}), json!({ "for_ms": 0 }), json!({ "for_ms": 86_400_001 })] {
        assert_eq!(operator(&node, "PUT", "rooms/r/blocks/bob", Some(body)).await.0, 400);
    }
}

#[tokio::test]
async fn closed_room_has_no_members_until_it_opens() {
    let (mesh, [mut alice, bob, mut carol]) = mesh().await;
    let node = mesh.node_internal(2);
    let (status, closed) = operator(&node, "PUT", "rooms/r/closed", Some(json!({ "for_ms": 2_000 }))).await;
    assert_eq!((status, &closed["closed"], &closed["count"]), (200, &json!(true), &json!(0)));
    has_left(&alice, &["closed"]).await;
    has_left(&bob, &["closed"]).await;
    let refused = ask_to_join(&mut carol).await;
    assert!(refused["code"] == "forbidden" && refused["retry_after_ms"].as_u64() <= Some(2_000), "{refused}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(carol.join("r").await, SeatStatus::Member);

    let (_, closed) = operator(&node, "PUT", "rooms/r/closed", None).await;
    assert_eq!((&closed["closed"], &closed["closed_for_ms"]), (&json!(true), &Value::Null));
    has_left(&carol, &["closed"]).await;
    let refused = ask_to_join(&mut alice).await;
    assert!(refused["code"] == "forbidden" && refused.get("retry_after_ms").is_none(), "{refused}");
    assert_eq!(operator(&node, "DELETE", "rooms/r/closed", None).await.1["closed"], false);
    assert_eq!(alice.join("r").await, SeatStatus::Member);
}
