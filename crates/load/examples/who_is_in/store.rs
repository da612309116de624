//! Rooms in a Redis of our own.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use signaling_protocol::{ClientId, NodeId, RoomName, SessionId};
use signaling_rooms::{Clock, Op, RedisStore, Request, RoomStore as _, Rules, Seat, Standing, Who};

use crate::server::Server;

/// Members that are put into the store by one operation.
const AT_ONCE: usize = 500;
/// Nothing of it is given up while it is asked for.
const LONG: Duration = Duration::from_secs(24 * 3_600);

/// It ends with this.
pub(crate) struct RoomsInRedis {
    connection: MultiplexedConnection,
    store: RedisStore,
    _server: Server,
}

impl RoomsInRedis {
    pub(crate) async fn start() -> Self {
        let server = Server::start();
        let rules = Rules { stale: LONG, remembered: LONG, idle: LONG * 2, ..Rules::default() };
        let store = RedisStore::new(&server.url(), rules, Clock::Own).unwrap();
        Self { connection: server.connect().await, store, _server: server }
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
