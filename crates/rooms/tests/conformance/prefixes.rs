//! Two meshes on one server.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{Clock, Op, RedisStore, Registration, Request, RoomStore as _};
use signaling_wire::SessionId;

use crate::server::Server;
use crate::test_room::{requester, rules};

#[tokio::test]
async fn meshes_with_different_prefixes_share_no_room() {
    let server = Server::start();
    let mesh = |prefix: &str| {
        let store = RedisStore::new(&server.url(), rules(0), Clock::Own).unwrap();
        store.with_prefix(prefix.parse().unwrap())
    };
    let (blue, green) = (mesh("blue"), mesh("green"));
    let apply = async |store: &RedisStore, op| {
        let request = Request { room: RoomName::new("lobby").unwrap(), op };
        store.apply(vec![request]).await.pop().unwrap().unwrap()
    };
    apply(&blue, Op::Join { requester: requester("alice"), data: None }).await;
    assert_eq!(apply(&green, Op::List { after: None }).await.count, 0);
    assert_eq!(apply(&blue, Op::List { after: None }).await.count, 1);

    let (node, client) = (NodeId::new("node-0").unwrap(), ClientId::new("alice").unwrap());
    let session = SessionId([1; 16]);
    let here = Registration { client: client.clone(), session, here: true };
    blue.registry().register(&node, &[here]).await.unwrap();
    blue.registry().beat(&node).await.unwrap();
    assert_eq!(green.registry().find(&client).await.unwrap(), None);
    assert!(green.registry().silent_nodes(Duration::ZERO).await.unwrap().is_empty());
    assert!(blue.registry().find(&client).await.unwrap().is_some());

    let keys = server.cli(&["keys", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("blue:") || key.starts_with("green:")), "{keys}");
}
