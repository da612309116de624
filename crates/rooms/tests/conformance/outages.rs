//! Servers that lose data, fail or stall.

use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_rooms::{Clock, Op, RedisStore, Request, RoomStore as _, Rooms, SeatStatus, Who};

use crate::people::{House, eventually, is_member, rules, seat, who};
use crate::server::Server;

/// Longer than the restart of a server takes.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_loaded_again() {
    let mut house = House::redis(rules(0));
    house.join("alice").await;
    house.server.as_ref().unwrap().cli(&["script", "flush"]);
    assert_eq!(house.join("bob").await.count, 2);
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_found_again_and_knows_nobody() {
    let mut house = House::redis(rules(0));
    house.join("alice").await;
    house.server.as_mut().unwrap().restart_empty();
    let seats = vec![seat(who("alice"), SeatStatus::Unknown)];
    let known = eventually(&house.store, &house.room, Op::Refresh { seats }, SOON).await;
    assert_eq!(known.standings, [SeatStatus::Unknown]);
}

#[tokio::test]
async fn no_call_takes_longer_than_its_limit_when_the_server_stands_still() {
    let mut house = House::redis(rules(0));
    house.join("alice").await;
    let who = house.who("bob");
    let join = Request { room: house.room.clone(), op: Op::Join { who, data: None } };
    house.server.as_ref().unwrap().pause();
    let start = Instant::now();
    let refused = house.store.apply(vec![join.clone()]).await.pop().unwrap();
    assert!(refused.is_err() && start.elapsed() < Duration::from_secs(4), "{refused:?} after {:?}", start.elapsed());
    house.server.as_ref().unwrap().go_on();
    let done = eventually(&house.store, &house.room, join.op, SOON).await;
    // The operation takes effect once, also if its first attempt succeeded.
    assert_eq!((done.count, done.members.len()), (2, 2));
}

#[tokio::test]
async fn a_room_that_everybody_has_left_is_forgotten_after_a_while() {
    let mut rooms = Rooms::new(rules(0));
    let mut ask = |now, room: &str, op| {
        rooms.apply(now, &Request { room: RoomName::new(room).unwrap(), op });
        rooms.len()
    };
    let now = 1_800_000_000_000;
    for room in 0..1000 {
        let who = Who { number: 1, ..who("alice") };
        ask(now, &format!("r{room}"), Op::Join { who: who.clone(), data: None });
        ask(now, &format!("r{room}"), Op::Leave { who: Who { number: 2, ..who } });
    }
    assert_eq!(ask(now, "own", Op::SetCapacity { capacity: Some(3) }), 1001);
    let later = now + 16 * 60 * 1000;
    assert_eq!(ask(later, "another", Op::List { after: None }), 1, "only the one with a capacity of its own");

    let mut house = House::redis(rules(0));
    house.join("alice").await;
    house.leave("alice").await;
    let server = house.server.as_ref().unwrap();
    for key in server.cli(&["keys", "*"]).lines() {
        let left: i64 = server.cli(&["pttl", key]).parse().unwrap();
        assert!((1..=900_000).contains(&left), "{key} lives {left} ms");
    }
}

#[tokio::test]
async fn a_server_that_has_turned_a_newcomer_away_is_asked_again() {
    let server = Server::start();
    let url = server.url().replace("redis://", "redis://:secret@");
    let store = RedisStore::new(&url, rules(0), Clock::Own).unwrap();
    let list = Request { room: RoomName::new("r").unwrap(), op: Op::List { after: None } };
    for _ in 0..3 {
        assert!(store.apply(vec![list.clone()]).await.pop().unwrap().is_err(), "it has no password yet");
    }
    server.cli(&["config", "set", "requirepass", "secret"]);
    eventually(&store, &list.room, list.op, SOON).await;
}

#[tokio::test]
async fn server_with_an_old_snapshot_raises_the_incarnation() {
    let mut house = House::redis(rules(2));
    let alice = house.join("alice").await;
    assert_eq!(house.server.as_ref().unwrap().cli(&["save"]), "OK");
    let bob = house.join("bob").await;
    assert!(alice.incarnation > 0 && alice.incarnation == bob.incarnation && !bob.settling);
    house.server.as_mut().unwrap().restart_empty();
    let found = eventually(&house.store, &house.room, Op::List { after: None }, SOON).await;
    assert_eq!((found.version, found.count), (alice.version, 1), "the snapshot is loaded");
    assert!(found.incarnation > bob.incarnation && found.settling, "{found:?}");
    assert!(!is_member(&house.join("carol").await), "bob's seat is not given away");
}

#[tokio::test]
async fn server_without_its_data_keeps_an_unknown_room_closed() {
    let mut house = House::redis(rules(1));
    assert!(is_member(&house.join("alice").await), "a first server has no time to wait");
    house.server.as_mut().unwrap().restart_empty();
    eventually(&house.store, &house.room, Op::List { after: None }, SOON).await;
    let bob = house.join("bob").await;
    assert!(!is_member(&bob) && bob.settling, "alice may still say that she is in: {bob:?}");
}
