//! A room in a store with a manual clock, and its clients.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{
    Change, Clock, LeftReason, Op, OpResult, RedisStore, Request, Requester, Rooms, Rules, Seat, SeatStatus, StoreError,
};
use signaling_wire::SessionId;

use crate::mesh::Mesh;
use crate::server::Server;

/// Time without a refresh after which seats expire, for [`rules`].
pub(crate) const STALE: Duration = Duration::from_secs(45);

/// An implementation of the rules.
#[derive(Clone)]
pub(crate) enum Store {
    /// The rules in Rust, with a clock in milliseconds since 1970.
    Core(Arc<Mutex<Rooms>>, Arc<AtomicU64>),
    /// The scripts in Redis.
    Redis(RedisStore),
    /// Nodes that own the rooms.
    Mesh(Rc<RefCell<Mesh>>),
}

impl Store {
    pub(crate) async fn apply(&self, requests: Vec<Request>) -> Vec<Result<OpResult, StoreError>> {
        match self {
            Self::Core(rooms, clock) => {
                let (mut rooms, now) = (rooms.lock().unwrap(), clock.load(Ordering::Relaxed));
                requests.iter().map(|request| Ok(rooms.apply(now, request))).collect()
            }
            Self::Redis(store) => store.apply(requests).await,
            Self::Mesh(mesh) => requests.iter().map(|request| Ok(mesh.borrow_mut().apply(request))).collect(),
        }
    }
}

/// One room in a store. `clock`: its time in ms since 1970. `server`: the own Redis, if any.
pub(crate) struct TestRoom {
    pub(crate) store: Store,
    pub(crate) name: RoomName,
    pub(crate) clock: Arc<AtomicU64>,
    numbers: u64,
    pub(crate) server: Option<Server>,
}

/// Returns rules for rooms of `capacity` members (0: no limit).
pub(crate) fn rules(capacity: u32) -> Rules {
    Rules { capacity: Some(capacity), stale: STALE, ..Rules::default() }
}

/// Runs a test on each store.
pub(crate) fn on_all<F: Future<Output = ()>>(rules: Rules, test: impl Fn(TestRoom) -> F) {
    on_both(rules, &test);
    [1, 3].into_iter().for_each(|nodes| block_on(test(TestRoom::mesh(rules, nodes))));
}

/// Runs a test on the stores that have refreshes and a server process.
pub(crate) fn on_both<F: Future<Output = ()>>(rules: Rules, test: impl Fn(TestRoom) -> F) {
    block_on(test(TestRoom::core(rules)));
    block_on(test(TestRoom::redis(rules)));
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Applies one operation to a room of any name.
pub(crate) async fn apply(store: &Store, room: &str, op: Op) -> Result<OpResult, StoreError> {
    store.apply(vec![Request { room: RoomName::new(room).unwrap(), op }]).await.pop().unwrap()
}

/// Creates a store at `url` with the server's clock.
pub(crate) fn redis_store(url: &str, rules: Rules) -> RedisStore {
    RedisStore::new(url, rules, Clock::Own).unwrap()
}

impl TestRoom {
    pub(crate) fn core(rules: Rules) -> Self {
        let clock = new_clock();
        let rooms = Arc::new(Mutex::new(Rooms::new(rules)));
        Self::new(Store::Core(rooms, Arc::clone(&clock)), clock, None)
    }

    pub(crate) fn redis(rules: Rules) -> Self {
        let (clock, server) = (new_clock(), Server::start());
        let store = RedisStore::new(&server.url(), rules, Clock::Given(Arc::clone(&clock))).unwrap();
        Self::new(Store::Redis(store), clock, Some(server))
    }

    /// Creates a room in a mesh of this number of nodes.
    pub(crate) fn mesh(rules: Rules, nodes: usize) -> Self {
        let clock = new_clock();
        let mesh = Mesh::new(nodes, rules, Arc::clone(&clock));
        Self::new(Store::Mesh(Rc::new(RefCell::new(mesh))), clock, None)
    }

    pub(crate) fn new(store: Store, clock: Arc<AtomicU64>, server: Option<Server>) -> Self {
        Self { store, name: RoomName::new("lobby").unwrap(), clock, numbers: 0, server }
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.clock.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Continues the room as another server process.
    pub(crate) fn fail_over(&self) {
        match &self.store {
            Store::Core(rooms, clock) => rooms.lock().unwrap().restarted(clock.load(Ordering::Relaxed)),
            Store::Redis(store) => {
                store.restarted();
                self.server.as_ref().unwrap().forget_run(self.name.as_str());
            }
            Store::Mesh(_) => panic!("nodes have no server process"),
        }
    }

    pub(crate) async fn apply(&self, op: Op) -> OpResult {
        apply(&self.store, self.name.as_str(), op).await.unwrap()
    }

    /// Returns the requester for the client's next command.
    pub(crate) fn requester(&mut self, name: &str) -> Requester {
        self.numbers += 1;
        Requester { number: self.numbers, ..requester(name) }
    }

    /// Joins a client by its next command, with its name as data.
    pub(crate) async fn join(&mut self, name: &str) -> OpResult {
        let requester = self.requester(name);
        self.apply(Op::Join { requester, data: Some(format!("{{\"name\":\"{name}\"}}").into()), capacity: None }).await
    }

    /// Joins clients one after the other.
    pub(crate) async fn join_all(&mut self, names: &[&str]) {
        for name in names {
            self.join(name).await;
        }
    }

    pub(crate) async fn leave(&mut self, name: &str) -> OpResult {
        let requester = self.requester(name);
        self.apply(Op::Leave { requester }).await
    }

    pub(crate) async fn end_session(&mut self, name: &str, keep: Duration) -> OpResult {
        let requester = self.requester(name);
        self.apply(Op::Drop { requester, keep }).await
    }

    pub(crate) async fn refresh(&self, names: &[&str]) -> OpResult {
        let seats = names.iter().map(|name| seat(requester(name), SeatStatus::Unknown));
        self.apply(Op::Refresh { seats: seats.collect() }).await
    }

    pub(crate) async fn restore(&self, seats: Vec<Seat>, version: u64) -> OpResult {
        self.apply(Op::Restore { seats, confirmed_in: (0, 0), version, capacity: None }).await
    }

    /// Continues as a store that has lost the room.
    pub(crate) fn lose(&mut self) {
        self.name = RoomName::new(&format!("{}-without-data", self.name)).unwrap();
    }

    /// Returns the members of the first page, oldest first.
    pub(crate) async fn members(&self) -> Vec<String> {
        let result = self.apply(Op::List { after: None }).await;
        result.members.iter().map(|member| member.client.as_str().to_owned()).collect()
    }
}

/// Repeats an operation every 20 ms until the store applies it, for at most `limit`.
pub(crate) async fn eventually(store: &Store, room: &str, op: Op, limit: Duration) -> OpResult {
    let start = Instant::now();
    loop {
        match apply(store, room, op.clone()).await {
            Ok(result) => return result,
            Err(error) => assert!(start.elapsed() < limit, "after {:?}: {error}", start.elapsed()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn new_clock() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_800_000_000_000))
}

/// Returns the only session of a client, at node-0.
pub(crate) fn requester(name: &str) -> Requester {
    let mut session = [0; 16];
    session.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    Requester {
        client: ClientId::new(name).unwrap(),
        session: SessionId(session),
        accepted_at_us: 1_800_000_000_000_000,
        turn: 0,
        number: 0,
        node: NodeId::new("node-0").unwrap(),
    }
}

pub(crate) fn seat(requester: Requester, status: SeatStatus) -> Seat {
    Seat { requester, status, data: None }
}

/// Returns `true` if the only status of a result is that of a member.
pub(crate) fn is_member(result: &OpResult) -> bool {
    matches!(result.statuses[..], [SeatStatus::Member { .. }])
}

/// Returns the clients ahead of the only client of a result, which must be waiting.
pub(crate) fn ahead(result: &OpResult) -> u64 {
    match result.statuses[..] {
        [SeatStatus::Waiting { ahead, .. }] => ahead,
        ref other => panic!("{other:?}"),
    }
}

/// Formats changes: `+name` for a join, `-name` for a leave, and `!name` for an expiry.
pub(crate) fn changes_of(result: &OpResult) -> Vec<String> {
    let change = |change: &Change| match change {
        Change::Joined(member) => format!("+{}", member.client),
        Change::Left { client, reason: LeftReason::Left | LeftReason::Forbidden } => format!("-{client}"),
        Change::Left { client, reason: LeftReason::Expired } => format!("!{client}"),
    };
    result.changes.iter().map(change).collect()
}
