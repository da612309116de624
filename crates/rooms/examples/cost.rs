//! What rooms cost a Redis: `cost redis://127.0.0.1:6379` prints round trips' times and the server's own time per operation, for
//! 1,000 rooms of 10. Uses rooms named `cost-...` and the nodes `cost` and `cost-dead`; the server should have nothing else to do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a measurement"
)]

use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, NodeId, RoomName, SessionId};
use signaling_rooms::{
    Clock, Op, RedisRegistry, RedisStore, Registration, Registry as _, Request, RoomStore as _, Rules, Seat, Standing,
    Who,
};

const ROOMS: usize = 1_000;
const MEMBERS: usize = 10;
const ENTRIES: usize = 200_000;

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
    clean(&url).await;
}

async fn clean(url: &str) {
    let registry = RedisRegistry::new(url, Clock::Own).unwrap();
    let (dead, silent) = (NodeId::new("cost-dead").unwrap(), Duration::ZERO);
    let entry = |client| Registration { client: named("cost", client), session: SessionId([1; 16]), here: true };
    let (entries, start): (Vec<_>, _) = ((0..ENTRIES).map(entry).collect(), Instant::now());
    registry.register(&dead, &entries).await.unwrap();
    println!("register: {ENTRIES} clients in {:?}", start.elapsed());
    registry.beat(&dead).await.unwrap();
    let (before, start) = (server_time(url).await, Instant::now());
    let cleaned = registry.clean(&dead, silent).await.unwrap();
    let served = server_time(url).await - before;
    println!("clean: {cleaned:?} in {:?}, {served:.2} s of the server", start.elapsed());
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
        born: 1,
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
    let seats = people(number).map(|who| Seat { who, standing: Standing::Unknown, data: None }).collect();
    Request { room: room(number), op: Op::Refresh { seats } }
}
