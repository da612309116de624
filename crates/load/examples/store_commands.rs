//! What each operation on a room asks of a Redis: round trips, commands within its script, and the server's own time.
//!
//!     cargo run --release -p signaling-load --example store_commands
//!
//! Starts a Redis of its own, and has the store's client, as nodes use it, carry out each operation for 10,000 members in 1,000 rooms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a measurement")]

#[path = "who_is_in/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use server::Server;
use signaling_protocol::{ClientId, NodeId, RoomName, SessionId};
use signaling_rooms::{Clock, Op, RedisStore, Request, RoomStore as _, Rules, Seat, Standing, Who};

const ROOMS: usize = 1_000;
const MEMBERS: usize = 10;
/// Most operations that the client sends in one go.
const PIPELINE: usize = 200;

/// What the server has counted so far.
struct Count {
    calls_by_command: BTreeMap<String, u64>,
    /// User and system time.
    cpu_us: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::start();
    let mut info = server.connect().await;
    let store = RedisStore::new(&server.url(), Rules::default(), Clock::Own).unwrap();
    let join = |room, number| Request { room: name(room), op: Op::Join { who: who(room, number, 1), data: None } };
    let leave = |room, number| Request { room: name(room), op: Op::Leave { who: who(room, number, 2) } };
    let list = |room, _| Request { room: name(room), op: Op::List { after: None } };
    let rounds = [
        ("join", each_member(join)),
        ("members", each_member(list)),
        ("refresh of 10", (0..ROOMS).map(refresh).collect()),
        ("leave", each_member(leave)),
    ];
    println!("| operation | scripts | commands in it | round trips for all | time of the server | time for all |");
    println!("|---|---|---|---|---|---|");
    for (what, requests) in rounds {
        let (count, before, begin) = (requests.len(), read(&mut info).await, Instant::now());
        store.apply(requests).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        let (took, after) = (begin.elapsed(), read(&mut info).await);
        let calls = |command: &str| after.of(command) - before.of(command);
        let all: u64 = after.calls_by_command.keys().map(|command| calls(command)).sum();
        let (scripts, own) = (calls("evalsha"), calls("info") + calls("script|load"));
        println!(
            "| {what} | {:.2} | {:.1} | {} | {:.0} us | {:.0} ms |",
            scripts as f64 / count as f64,
            (all - scripts - own) as f64 / count as f64,
            count.div_ceil(PIPELINE),
            (after.cpu_us - before.cpu_us) / count as f64,
            took.as_secs_f64() * 1e3
        );
    }
}

async fn read(info: &mut MultiplexedConnection) -> Count {
    let text: String = redis::cmd("INFO").arg("everything").query_async(info).await.unwrap();
    let fields = || text.lines().filter_map(|line| line.trim().split_once(':'));
    let calls = fields().filter_map(|(name, value)| {
        let calls = value.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
        Some((name.strip_prefix("cmdstat_")?.to_owned(), calls))
    });
    let cpu = fields().filter(|(name, _)| matches!(*name, "used_cpu_user" | "used_cpu_sys"));
    let cpu_us = cpu.map(|(_, seconds)| seconds.parse::<f64>().unwrap() * 1e6).sum();
    Count { calls_by_command: calls.collect(), cpu_us }
}

impl Count {
    fn of(&self, command: &str) -> u64 {
        self.calls_by_command.get(command).copied().unwrap_or(0)
    }
}

fn each_member(request: impl Fn(usize, usize) -> Request) -> Vec<Request> {
    (0..ROOMS * MEMBERS).map(|member| request(member / MEMBERS, member % MEMBERS)).collect()
}

fn refresh(room: usize) -> Request {
    let seat = |number| Seat { who: who(room, number, 1), standing: Standing::Unknown, data: None };
    Request { room: name(room), op: Op::Refresh { seats: (0..MEMBERS).map(seat).collect() } }
}

fn name(room: usize) -> RoomName {
    RoomName::new(&format!("room-{room}")).unwrap()
}

fn who(room: usize, member: usize, number: u64) -> Who {
    Who {
        client: ClientId::new(&format!("client-{room}-{member}")).unwrap(),
        session: SessionId([1; 16]),
        born: 1,
        number,
        node: NodeId::new("node-0").unwrap(),
    }
}
