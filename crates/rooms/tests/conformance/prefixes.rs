//! Two meshes on one server.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Op, Registration};
use signaling_wire::SessionId;

use crate::server::Server;
use crate::test_room::{Store, apply, redis_store, requester, rules};

#[tokio::test]
async fn meshes_with_different_prefixes_share_no_room() {
    let server = Server::start();
    let mesh = |prefix: &str| redis_store(&server.url(), rules(0)).with_prefix(prefix.parse().unwrap());
    let (blue, green) = (mesh("blue"), mesh("green"));
    let (in_blue, in_green) = (Store::Redis(blue.clone()), Store::Redis(green.clone()));
    apply(&in_blue, "lobby", Op::Join { requester: requester("alice"), data: None }).await.unwrap();
    assert_eq!(apply(&in_green, "lobby", Op::List { after: None }).await.unwrap().count, 0);
    assert_eq!(apply(&in_blue, "lobby", Op::List { after: None }).await.unwrap().count, 1);

    let (node, client) = (NodeId::new("node-0").unwrap(), ClientId::new("alice").unwrap());
    let session = SessionId([1; 16]);
    let here = Registration { client: client.clone(), session, here: true };
    blue.registry().register(&node, &[here]).await.unwrap();
    blue.registry().record_heartbeat(&node).await.unwrap();
    assert_eq!(green.registry().find(&client).await.unwrap(), None);
    assert!(green.registry().silent_nodes(Duration::ZERO).await.unwrap().is_empty());
    assert!(blue.registry().find(&client).await.unwrap().is_some());

    let keys = server.cli(&["keys", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("blue:") || key.starts_with("green:")), "{keys}");
}
