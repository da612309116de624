//! Servers that lose data, fail or stall, and rooms that are forgotten.

use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_rooms::{Op, Request, Requester, Rooms};

use crate::server::Server;
use crate::test_room::{Store, TestRoom, apply, eventually, is_member, redis_store, requester, rules};

/// Time limit for the restart of a server.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn script_is_loaded_again_when_the_server_forgot_it() {
    let mut room = TestRoom::redis(rules(0));
    room.join("alice").await;
    room.server.as_ref().unwrap().cli(&["script", "flush"]);
    assert_eq!(room.join("bob").await.count, 2);
}

#[tokio::test]
async fn call_fails_within_its_limit_when_the_server_hangs() {
    let mut room = TestRoom::redis(rules(0));
    room.join("alice").await;
    let requester = room.requester("bob");
    let join = Op::Join { requester, data: None, capacity: None };
    room.server.as_ref().unwrap().pause();
    let start = Instant::now();
    let refused = apply(&room.store, "lobby", join.clone()).await;
    assert!(refused.is_err() && start.elapsed() < Duration::from_secs(4), "{refused:?} after {:?}", start.elapsed());
    room.server.as_ref().unwrap().resume();
    let done = eventually(&room.store, "lobby", join, RESTART_TIMEOUT).await;
    // The operation takes effect once, also if its first attempt succeeded.
    assert_eq!((done.count, done.members.len()), (2, 2));
}

#[tokio::test]
async fn empty_room_is_forgotten_after_its_idle_time() {
    let mut rooms = Rooms::new(rules(0));
    let now = 1_800_000_000_000;
    let alice = |number| Requester { number, ..requester("alice") };
    for (time, room, op, known) in [
        (now, "r", Op::Join { requester: alice(1), data: None, capacity: None }, [true, false, false]),
        (now, "r", Op::Leave { requester: alice(2) }, [true, false, false]),
        (now, "own", Op::SetCapacity { capacity: Some(3) }, [true, true, false]),
        // A room with a capacity of its own is kept.
        (now + 16 * 60 * 1000, "other", Op::List { after: None }, [false, true, false]),
    ] {
        let name = |room: &str| RoomName::new(room).unwrap();
        rooms.apply(time, &Request { room: name(room), op: op.clone() });
        assert_eq!(["r", "own", "other"].map(|room| rooms.room(&name(room)).is_some()), known, "{op:?}");
    }

    let mut room = TestRoom::redis(rules(0));
    room.join("alice").await;
    room.leave("alice").await;
    let server = room.server.as_ref().unwrap();
    for key in server.cli(&["keys", "*"]).lines() {
        let left: i64 = server.cli(&["pttl", key]).parse().unwrap();
        assert!((1..=900_000).contains(&left), "{key} lives {left} ms");
    }
}

#[tokio::test]
async fn store_connects_once_the_server_accepts_its_password() {
    let server = Server::start();
    let url = server.url().replace("redis://", "redis://:secret@");
    let store = Store::Redis(redis_store(&url, rules(0)));
    for _ in 0..3 {
        assert!(apply(&store, "r", Op::List { after: None }).await.is_err(), "it has no password yet");
    }
    server.cli(&["config", "set", "requirepass", "secret"]);
    eventually(&store, "r", Op::List { after: None }, RESTART_TIMEOUT).await;
}

#[tokio::test]
async fn server_with_an_old_snapshot_raises_the_incarnation() {
    let mut room = TestRoom::redis(rules(2));
    let alice = room.join("alice").await;
    assert_eq!(room.server.as_ref().unwrap().cli(&["save"]), "OK");
    let bob = room.join("bob").await;
    assert!(alice.incarnation > 0 && alice.incarnation == bob.incarnation && !bob.settling);
    room.server.as_mut().unwrap().restart();
    let found = eventually(&room.store, "lobby", Op::List { after: None }, RESTART_TIMEOUT).await;
    assert_eq!((found.version, found.count), (alice.version, 1), "the snapshot is loaded");
    assert!(found.incarnation > bob.incarnation && found.settling, "{found:?}");
    assert!(!is_member(&room.join("carol").await), "bob's seat is not given away");
}
