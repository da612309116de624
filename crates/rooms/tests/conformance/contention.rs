//! Many tasks, many rooms, or two meshes on one server or cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use signaling_protocol::RoomName;
use signaling_rooms::{Clock, Op, RedisStore, Request, Requester, SeatStatus};

use crate::server::Server;
use crate::test_room::{Store, TestRoom, apply, redis_store, requester, rules, seat};

const CAPACITY: u32 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_joins_over_many_connections_fill_ten_seats() {
    let server = Server::start();
    let new_store = || redis_store(&server.url(), rules(CAPACITY));
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..12 {
        let store = new_store();
        tasks.spawn(async move {
            for number in 1..100 {
                let requester = Requester { number, ..requester(&format!("{connection}-{}", number % 20)) };
                let op = if number % 3 == 0 {
                    Op::Leave { requester }
                } else {
                    Op::Join { requester, data: None, capacity: None }
                };
                let request = Request { room: RoomName::new("ten").unwrap(), op };
                let result = store.apply(vec![request]).await.remove(0).unwrap();
                assert!(result.count <= u64::from(CAPACITY), "{result:?}");
                let is_full = result.count == u64::from(CAPACITY);
                assert!(is_full || result.waiting == 0, "a free seat and a waiting queue: {result:?}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let end = apply(&Store::Redis(new_store()), "ten", Op::List { after: None }).await.unwrap();
    assert_eq!(end.count, u64::from(CAPACITY));
    assert!(end.waiting > 0 && end.members.len() == CAPACITY as usize);
}

#[tokio::test]
async fn refresh_of_thousand_rooms_takes_few_round_trips() {
    let tested = TestRoom::redis(rules(0));
    let server = tested.server.as_ref().unwrap();
    let room = |number: usize| RoomName::new(&format!("r{number}")).unwrap();
    let people =
        |number: usize| (0..10).map(move |person| Requester { number: 1, ..requester(&format!("p{number}-{person}")) });
    let joins = (0..1000).flat_map(|number| people(number).map(move |requester| (number, requester)));
    let joins = joins.map(|(number, requester)| Request {
        room: room(number),
        op: Op::Join { requester, data: None, capacity: None },
    });
    tested.store.apply(joins.collect()).await.into_iter().for_each(|joined| drop(joined.unwrap()));
    let seat = |requester| seat(requester, SeatStatus::Unknown);
    let refreshes =
        |number| Request { room: room(number), op: Op::Refresh { seats: people(number).map(seat).collect() } };
    let packets = |info: String| {
        let field = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:")).unwrap().to_owned();
        field.trim().parse::<u64>().unwrap()
    };
    let before = packets(server.cli(&["info", "stats"]));

    let refreshed = tested.store.apply((0..1000).map(refreshes).collect()).await;

    let reads = packets(server.cli(&["info", "stats"])) - before;
    assert!(refreshed.iter().all(|result| result.as_ref().unwrap().count == 10));
    assert!(reads < 100, "{reads} reads for a thousand rooms");
}

#[tokio::test]
async fn cluster_accepts_every_script() {
    let server = Server::start_cluster().await;
    let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
    let store = RedisStore::new(&server.url(), rules(1), Clock::Given(Arc::clone(&clock))).unwrap();
    let mut room = TestRoom::new(Store::Redis(store), clock, Some(server));
    room.join_all(&["alice", "bob"]).await;
    assert_eq!(room.leave("alice").await.changes.len(), 2);
    assert_eq!(room.members().await, ["bob"]);
    let rooms = (0..50).map(|number| Request {
        room: RoomName::new(&format!("r{number}")).unwrap(),
        op: Op::Join { requester: Requester { number: 1, ..requester("carol") }, data: None, capacity: None },
    });
    assert!(room.store.apply(rooms.collect()).await.into_iter().all(|joined| joined.unwrap().count == 1));
}

#[tokio::test]
async fn meshes_with_different_prefixes_share_no_room() {
    let server = Server::start();
    let mesh = |prefix: &str| redis_store(&server.url(), rules(0)).with_prefix(prefix.parse().unwrap());
    let (blue, green) = (mesh("blue"), mesh("green"));
    let (in_blue, in_green) = (Store::Redis(blue.clone()), Store::Redis(green.clone()));
    apply(&in_blue, "lobby", Op::Join { requester: requester("alice"), data: None, capacity: None }).await.unwrap();
    assert_eq!(apply(&in_green, "lobby", Op::List { after: None }).await.unwrap().count, 0);
    assert_eq!(apply(&in_blue, "lobby", Op::List { after: None }).await.unwrap().count, 1);

    blue.write_heartbeat().await.unwrap();
    let keys = server.cli(&["keys", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("blue:") || key.starts_with("green:")), "{keys}");
}
