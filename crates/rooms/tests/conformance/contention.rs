//! Concurrent joins from many tasks and processes.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use signaling_protocol::RoomName;
use signaling_rooms::{Clock, Op, RedisStore, Request, RoomStore as _, Rules, SeatStatus, Who};

use crate::people::{House, rules, who};
use crate::server::Server;

const SERVER: &str = "ROOMS_TEST_SERVER";
const PART: &str = "ROOMS_TEST_PART";
const CAPACITY: u32 = 10;

async fn contend(url: &str, part: &str) {
    let room = RoomName::new("ten").unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..4 {
        let store = RedisStore::new(url, Rules { capacity: Some(CAPACITY), ..Rules::default() }, Clock::Own).unwrap();
        let (room, part) = (room.clone(), part.to_owned());
        tasks.spawn(async move {
            for number in 1..100 {
                let who = Who { number, ..who(&format!("{part}-{connection}-{}", number % 20)) };
                let op = if number % 3 == 0 { Op::Leave { who } } else { Op::Join { who, data: None } };
                let outcome = store.apply(vec![Request { room: room.clone(), op }]).await.pop().unwrap().unwrap();
                assert!(outcome.count <= u64::from(CAPACITY), "{outcome:?}");
                assert!(
                    outcome.waiting == 0 || outcome.count == u64::from(CAPACITY),
                    "a free seat and a line: {outcome:?}"
                );
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// One of several processes, started by the test below.
#[tokio::test]
#[ignore = "started by the test of contending processes"]
async fn part_of_the_contention() {
    contend(&std::env::var(SERVER).unwrap(), &std::env::var(PART).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_that_join_at_once_fill_ten_seats_exactly() {
    let server = Server::start();
    let start = |part: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "contention::part_of_the_contention"]);
        command.env(SERVER, server.url()).env(PART, part).spawn().unwrap()
    };
    let processes = ["a", "b", "c"].map(start);
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
    }
    let store = RedisStore::new(&server.url(), rules(CAPACITY), Clock::Own).unwrap();
    let list = Request { room: RoomName::new("ten").unwrap(), op: Op::List { after: None } };
    let end = store.apply(vec![list]).await.pop().unwrap().unwrap();
    assert_eq!(end.count, u64::from(CAPACITY));
    assert!(end.waiting > 0 && end.members.len() == CAPACITY as usize);
}

#[tokio::test]
async fn a_refresh_of_a_thousand_rooms_is_a_few_round_trips() {
    let house = House::redis(rules(0));
    let server = house.server.as_ref().unwrap();
    let room = |number: usize| RoomName::new(&format!("r{number}")).unwrap();
    let people = |number: usize| (0..10).map(move |person| Who { number: 1, ..who(&format!("p{number}-{person}")) });
    let joins = (0..1000).flat_map(|number| people(number).map(move |who| (number, who)));
    let joins = joins.map(|(number, who)| Request { room: room(number), op: Op::Join { who, data: None } });
    house.store.apply(joins.collect()).await.into_iter().for_each(|joined| drop(joined.unwrap()));
    let seat = |who| signaling_rooms::Seat { who, standing: SeatStatus::Unknown, data: None };
    let refreshes =
        |number| Request { room: room(number), op: Op::Refresh { seats: people(number).map(seat).collect() } };
    let packets = |info: String| {
        let field = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:")).unwrap().to_owned();
        field.trim().parse::<u64>().unwrap()
    };
    let before = packets(server.cli(&["info", "stats"]));

    let refreshed = house.store.apply((0..1000).map(refreshes).collect()).await;

    let reads = packets(server.cli(&["info", "stats"])) - before;
    assert!(refreshed.iter().all(|outcome| outcome.as_ref().unwrap().count == 10));
    assert!(reads < 100, "{reads} reads for a thousand rooms");
}

#[tokio::test]
async fn in_a_cluster_no_script_touches_two_slots() {
    let server = Server::start_cluster();
    let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
    let store = RedisStore::new(&server.url(), rules(1), Clock::Given(Arc::clone(&clock))).unwrap();
    let mut house = House::new(signaling_rooms::Store::Redis(store), clock, Some(server));
    house.join("alice").await;
    house.join("bob").await;
    assert_eq!(house.leave("alice").await.changes.len(), 2);
    assert_eq!(house.members().await, ["bob"]);
    let rooms = (0..50).map(|number| Request {
        room: RoomName::new(&format!("r{number}")).unwrap(),
        op: Op::Join { who: Who { number: 1, ..who("carol") }, data: None },
    });
    assert!(house.store.apply(rooms.collect()).await.into_iter().all(|joined| joined.unwrap().count == 1));
}
