//! What rooms cost a Redis: `cost redis://127.0.0.1:6379` prints round trips' times and the server's own time per operation, for
//! 1,000 rooms of 10. Uses rooms named `cost-...` and the nodes `cost` and `cost-dead`; the server should have nothing else to do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::unreachable,
    reason = "a measurement"
)]

use std::cell::RefCell;
use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{
    Clock, Op, RedisRegistry, RedisStore, Registration, Registry as _, Request, RoomStore as _, Rules, Seat,
    SeatStatus, Who,
};
use signaling_wire::SessionId;

const ROOMS: usize = 1_000;
const MEMBERS: usize = 10;
const ENTRIES: usize = 200_000;
/// Of those, clients that another node has by now.
const MOVED: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::args().nth(1).expect("the address of a Redis, as redis://HOST:PORT");
    let store = RedisStore::new(&url, Rules::default(), Clock::Own).unwrap();
    let joins = |number| all(move |room, who| (room, Op::Join { who: Who { number, ..who }, data: None }));
    let leaves = all(|room, who| (room, Op::Leave { who: Who { number: 2, ..who } }));
    let refreshes: Vec<_> = (0..ROOMS).map(refresh).collect();

    for (what, requests) in
        [("join", joins(1)), ("refresh", refreshes.clone()), ("refresh", refreshes), ("leave", leaves)]
    {
        let (count, before, start) = (requests.len(), server_time(&url).await, Instant::now());
        store.apply(requests).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        let (took, served) = (start.elapsed(), server_time(&url).await - before);
        println!("{what}: {count} calls in {took:?}, {:.1} us of the server each", served * 1e6 / count as f64);
    }
    clean(&url, &store).await;
}

/// Cleans up behind a dead node, some of whose clients are elsewhere by now, while others join one after another.
async fn clean(url: &str, store: &RedisStore) {
    let registry = RedisRegistry::new(url, Clock::Own).unwrap();
    let (dead, alive) = (NodeId::new("cost-dead").unwrap(), NodeId::new("cost-alive").unwrap());
    let entry = |client| Registration { client: named("cost", client), session: SessionId([1; 16]), here: true };
    let entries = |count| (0..count).map(entry).collect::<Vec<_>>();
    let start = Instant::now();
    registry.register(&dead, &entries(ENTRIES)).await.unwrap();
    println!("register: {ENTRIES} clients in {:?}", start.elapsed());
    registry.beat(&dead).await.unwrap();
    registry.register(&alive, &entries(MOVED)).await.unwrap();

    let joins =
        (3..).flat_map(|number| all(move |room, who| (room, Op::Join { who: Who { number, ..who }, data: None })));
    let took = RefCell::new(Vec::new());
    let joining = async {
        for join in joins {
            let start = Instant::now();
            store.apply(vec![join]).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
            took.borrow_mut().push(start.elapsed());
        }
    };
    let (before, start) = (server_time(url).await, Instant::now());
    let cleaned = tokio::select! {
        cleaned = registry.clean(&dead, Duration::ZERO) => cleaned.unwrap().unwrap(),
        () = joining => unreachable!("there are joins without end"),
    };
    let served = server_time(url).await - before;
    let took = took.take();
    assert_eq!(cleaned.removed, (ENTRIES - MOVED) as u64);
    println!(
        "clean: {cleaned:?} in {:?}, {served:.2} s of the server; meanwhile {} joins, the slowest in {:?}",
        start.elapsed(),
        took.len(),
        took.iter().max().unwrap(),
    );
}

/// Seconds that the server has computed so far.
async fn server_time(url: &str) -> f64 {
    let mut connection = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await.unwrap();
    let times =
        info.lines().filter_map(|line| line.strip_prefix("used_cpu_user:").or(line.strip_prefix("used_cpu_sys:")));
    times.map(|time| time.trim().parse::<f64>().unwrap()).sum()
}

fn named(kind: &str, number: usize) -> ClientId {
    ClientId::new(&format!("{kind}-{number}")).unwrap()
}

fn people(room: usize) -> impl Iterator<Item = Who> {
    (0..MEMBERS).map(move |person| Who {
        client: named("cost", room * MEMBERS + person),
        session: SessionId([1; 16]),
        accepted_at_us: 1,
        number: 1,
        node: NodeId::new("cost").unwrap(),
    })
}

fn room(number: usize) -> RoomName {
    RoomName::new(&format!("cost-{number}-{}", std::process::id())).unwrap()
}

fn all(op: impl Fn(usize, Who) -> (usize, Op)) -> Vec<Request> {
    let everybody = (0..ROOMS).flat_map(|room| people(room).map(move |who| (room, who)));
    let requests = everybody.map(|(number, who)| op(number, who));
    requests.map(|(number, op)| Request { room: room(number), op }).collect()
}

fn refresh(number: usize) -> Request {
    let seats = people(number).map(|who| Seat { who, standing: SeatStatus::Unknown, data: None }).collect();
    Request { room: room(number), op: Op::Refresh { seats } }
}
