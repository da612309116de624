//! The room store in Redis or Valkey, as scripts. A node's shell sends it requests.

use std::time::Duration;

use redis::Cmd;

use super::connection::Connection;
use super::reply::result;
use super::scripts::Script;
use crate::rules::millis;
use crate::{Clock, KeyPrefix, Op, OpResult, Request, Requester, Rules, Seat, SeatStatus, StoreError};

/// Lifetime of the key that a heartbeat writes.
const HEARTBEAT_LIFETIME: Duration = Duration::from_secs(60);

/// Rooms in Redis or Valkey. Clones share the connection. Its async functions need a Tokio runtime.
#[derive(Clone)]
pub struct RedisStore {
    connection: Connection,
    clock: Clock,
    rules: Rules,
    prefix: KeyPrefix,
}

impl RedisStore {
    /// Creates a store at `redis://[user:password@]host:port[/database]`, in a cluster at
    /// `redis-cluster://host:port,host:port`, or behind sentinels at
    /// `redis-sentinel://[user:password@]host:port,host:port/master[/database]`, with
    /// `?sentinelUsername=USER&sentinelPassword=PASSWORD` if the sentinels need them.
    ///
    /// Connects at first use. Reconnects when the connection fails or the server is a replica.
    ///
    /// # Errors
    /// If `url` is no such address.
    pub fn new(url: &str, rules: Rules, clock: Clock) -> Result<Self, StoreError> {
        Ok(Self { connection: Connection::new(url, clock.clone())?, clock, rules, prefix: KeyPrefix::default() })
    }

    /// Begins all keys with `prefix` in place of `sig`.
    pub fn with_prefix(self, prefix: KeyPrefix) -> Self {
        Self { prefix, ..self }
    }

    /// Returns the number of established connections that failed since the start: broken, silent,
    /// or to a server that cannot serve writes.
    pub fn lost_connections(&self) -> u64 {
        self.connection.lost()
    }

    /// Writes a key without other use, to check that the server accepts writes. It expires in 60 s.
    ///
    /// # Errors
    /// If there is no connection within 2 s, or the server does not accept the write within 2 s.
    pub async fn write_heartbeat(&self) -> Result<(), StoreError> {
        let mut write = redis::cmd("SET");
        write.arg(format!("{}:heartbeat", self.prefix.as_str())).arg("").arg("PX").arg(millis(HEARTBEAT_LIFETIME));
        self.connection.ask(write).await
    }

    /// Treats the present server process as a new one, which may lack rooms: for 5 s, unknown rooms
    /// with a capacity admit no client. A connection does the same when it detects a new process.
    pub fn restarted(&self) {
        self.connection.restarted();
    }

    /// Applies operations in order, and returns the result of each. A batch costs little more than
    /// one operation. Operations fail without a connection in 2 s. Each 200 of them then fail
    /// without answers in 2 s; that is more if the server lacks scripts.
    pub async fn apply(&self, requests: Vec<Request>) -> Vec<Result<OpResult, StoreError>> {
        let commands = |replaced| requests.iter().map(|request| self.command(request, replaced)).collect();
        let answers = self.connection.send(commands).await;
        answers.into_iter().map(|answer| result(answer?)).collect()
    }

    fn command(&self, Request { room, op }: &Request, replaced_ago: Option<u64>) -> Cmd {
        let Rules { capacity, max_waiting, seals, idle, page, page_bytes, stale_at_once, .. } = self.rules.of(room);
        let mut call = Script::of(op).call();
        call.arg(6);
        for kind in ["members", "order", "waiting", "checkin", "info", "meta"] {
            call.arg(format!("{}:{{{room}}}:{kind}", self.prefix.as_str()));
        }
        call.arg(self.clock.given().unwrap_or(0)).arg(self.rules.stale_ms()).arg(capacity.unwrap_or(0));
        call.arg(millis(self.rules.remembered)).arg(millis(idle)).arg(page).arg(page_bytes).arg(stale_at_once);
        call.arg(replaced_ago.map_or_else(|| "-1".to_owned(), |ago| ago.to_string())).arg(u8::from(seals));
        match op {
            Op::Join { requester, data, .. } => add_requester(&mut call, requester)
                .arg(data.as_deref().unwrap_or_default())
                .arg(max_waiting.map_or(-1, i64::from)),
            Op::Leave { requester } | Op::Remove { requester } => add_requester(&mut call, requester),
            Op::Drop { requester, keep } => add_requester(&mut call, requester).arg(millis(*keep)),
            Op::Refresh { seats } => seats.iter().fold(&mut call, |call, seat| add_requester(call, &seat.requester)),
            Op::Restore { seats, version, .. } => seats.iter().fold(call.arg(*version), add_seat),
            Op::List { after } => call.arg(after.as_ref().map(AsRef::as_ref).unwrap_or_default()),
            Op::Find { client } => call.arg(client.as_str()),
            Op::SetCapacity { capacity } => call.arg(capacity.map(|capacity| capacity.to_string()).unwrap_or_default()),
        };
        call
    }
}

fn add_requester<'a>(call: &'a mut Cmd, requester: &Requester) -> &'a mut Cmd {
    let Requester { client, session, accepted_at_us, number, node, .. } = requester;
    call.arg(client.as_str()).arg(session.to_string()).arg(*accepted_at_us).arg(*number).arg(node.as_str())
}

fn add_seat<'a>(call: &'a mut Cmd, seat: &Seat) -> &'a mut Cmd {
    let (kind, place) = match seat.status {
        SeatStatus::Member { place } => ("m", place),
        SeatStatus::Waiting { place, .. } => ("w", place),
        SeatStatus::Out | SeatStatus::Unknown => ("o", 0),
    };
    add_requester(call, &seat.requester).arg(kind).arg(place).arg(seat.data.as_deref().unwrap_or_default())
}
