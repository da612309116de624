//! Rooms in a Redis of our own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use signaling_devmesh::hold_port;
use signaling_protocol::{ClientId, NodeId, RoomName, SessionId};
use signaling_rooms::{Clock, Op, RedisStore, Request, RoomStore as _, Rules, Seat, Standing, Who};

/// Members that are put into the store by one operation.
const AT_ONCE: usize = 500;
/// Nothing of it is given up while it is asked for.
const LONG: Duration = Duration::from_secs(24 * 3_600);

/// It ends with this.
pub(crate) struct RoomsInRedis {
    process: Child,
    connection: MultiplexedConnection,
    store: RedisStore,
}

impl RoomsInRedis {
    pub(crate) async fn start() -> Self {
        let port = hold_port("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap().port();
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let process = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
        let process = process.expect("redis-server is installed");
        let url = format!("redis://127.0.0.1:{port}");
        let rules = Rules { stale: LONG, remembered: LONG, idle: LONG * 2, ..Rules::default() };
        let store = RedisStore::new(&url, rules, Clock::Own).unwrap();
        Self { process, connection: connected(&url).await, store }
    }

    /// Puts a room of a size into it.
    pub(crate) async fn fill(&self, size: usize) {
        let places: Vec<usize> = (0..size).collect();
        for places in places.chunks(AT_ONCE) {
            let seats = places.iter().map(|place| seat(*place)).collect();
            self.ask(size, Op::Restore { seats, version: 1 }).await;
        }
    }

    /// The names alone, by one command on the sorted set.
    pub(crate) async fn names(&self, size: usize) -> usize {
        let mut range = redis::cmd("ZRANGE");
        range.arg(format!("sig:{{{}}}:members", room(size))).arg(0).arg(-1);
        let names: Vec<String> = range.query_async(&mut self.connection.clone()).await.unwrap();
        assert_eq!(names.len(), size);
        names.len()
    }

    /// What a client is told that joins: how many there are, and the oldest.
    pub(crate) async fn first_page(&self, size: usize) -> usize {
        let outcome = self.ask(size, Op::List { after: None }).await;
        assert_eq!(outcome.count, size as u64);
        outcome.members.len()
    }

    /// All members with what they show, page by page.
    pub(crate) async fn whole(&self, size: usize) -> usize {
        let (mut found, mut after) = (0, None);
        loop {
            let outcome = self.ask(size, Op::List { after }).await;
            found += outcome.members.len();
            after = outcome.members.last().map(|member| member.client.clone());
            if !outcome.more {
                assert_eq!(found, size);
                return found;
            }
        }
    }

    async fn ask(&self, size: usize, op: Op) -> signaling_rooms::Outcome {
        let request = Request { room: RoomName::new(&room(size)).unwrap(), op };
        self.store.apply(vec![request]).await.pop().unwrap().unwrap()
    }
}

impl Drop for RoomsInRedis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn connected(url: &str) -> MultiplexedConnection {
    let (client, begin) = (redis::Client::open(url).unwrap(), Instant::now());
    loop {
        match client.get_multiplexed_async_connection().await {
            Ok(connection) => return connection,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(10), "redis-server does not start: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn room(size: usize) -> String {
    format!("room-of-{size}")
}

pub(crate) fn name(place: usize) -> String {
    format!("client-{place}")
}

/// What a member shows.
pub(crate) fn data(place: usize) -> String {
    format!(r#"{{"name":"Member {place}"}}"#)
}

fn seat(place: usize) -> Seat {
    let who = Who {
        client: ClientId::new(&name(place)).unwrap(),
        session: SessionId([1; 16]),
        born: 1,
        number: 1,
        node: NodeId::new("node-0").unwrap(),
    };
    let standing = Standing::Member { place: 1 + place as u64 };
    Seat { who, standing, data: Some(data(place).into()) }
}
