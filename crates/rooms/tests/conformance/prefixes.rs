//! Two meshes on one server.

use signaling_rooms::Op;

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

    blue.write_heartbeat().await.unwrap();
    let keys = server.cli(&["keys", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("blue:") || key.starts_with("green:")), "{keys}");
}
