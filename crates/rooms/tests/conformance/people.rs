//! Stores with a manual clock, and clients that act in one room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{
    Change, Clock, MemoryStore, Op, Outcome, Reason, RedisStore, Request, RoomStore, Rules, Seat, SeatStatus, Store,
    Who,
};
use signaling_wire::SessionId;

use crate::server::Server;

pub(crate) const STALE: Duration = Duration::from_secs(45);

/// One room in a store.
pub(crate) struct House {
    pub(crate) store: Store,
    pub(crate) room: RoomName,
    pub(crate) clock: Arc<AtomicU64>,
    numbers: u64,
    pub(crate) server: Option<Server>,
}

pub(crate) fn rules(capacity: u32) -> Rules {
    Rules { capacity: Some(capacity), stale: STALE, ..Rules::default() }
}

/// Runs a test on each store.
pub(crate) async fn on_both<F: Future<Output = ()>>(rules: Rules, test: impl Fn(House) -> F) {
    test(House::memory(rules)).await;
    test(House::redis(rules)).await;
}

impl House {
    pub(crate) fn memory(rules: Rules) -> Self {
        let clock = a_clock();
        Self::new(Store::Memory(MemoryStore::new(rules, Clock::Given(Arc::clone(&clock)))), clock, None)
    }

    pub(crate) fn redis(rules: Rules) -> Self {
        let (clock, server) = (a_clock(), Server::start());
        let store = RedisStore::new(&server.url(), rules, Clock::Given(Arc::clone(&clock))).unwrap();
        Self::new(Store::Redis(store), clock, Some(server))
    }

    pub(crate) fn new(store: Store, clock: Arc<AtomicU64>, server: Option<Server>) -> Self {
        Self { store, room: RoomName::new("lobby").unwrap(), clock, numbers: 0, server }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Continues the room as another server process.
    pub(crate) fn fails_over(&self) {
        match &self.store {
            Store::Memory(store) => store.restarted(),
            Store::Redis(store) => {
                store.restarted();
                self.server.as_ref().unwrap().forget_run(self.room.as_str());
            }
        }
    }

    pub(crate) async fn ask(&self, op: Op) -> Outcome {
        self.store.apply(vec![Request { room: self.room.clone(), op }]).await.pop().unwrap().unwrap()
    }

    /// Returns the requester for the client's next command.
    pub(crate) fn who(&mut self, name: &str) -> Who {
        self.numbers += 1;
        Who { number: self.numbers, ..who(name) }
    }

    pub(crate) async fn join(&mut self, name: &str) -> Outcome {
        let who = self.who(name);
        self.ask(Op::Join { who, data: Some(format!("{{\"name\":\"{name}\"}}").into()) }).await
    }

    pub(crate) async fn leave(&mut self, name: &str) -> Outcome {
        let who = self.who(name);
        self.ask(Op::Leave { who }).await
    }

    pub(crate) async fn lose(&mut self, name: &str, keep: Duration) -> Outcome {
        let who = self.who(name);
        self.ask(Op::Drop { who, keep }).await
    }

    pub(crate) async fn refresh(&self, names: &[&str]) -> Outcome {
        self.ask(Op::Refresh { seats: names.iter().map(|name| seat(who(name), SeatStatus::Unknown)).collect() }).await
    }

    pub(crate) async fn members(&self) -> Vec<String> {
        let outcome = self.ask(Op::List { after: None }).await;
        outcome.members.iter().map(|member| member.client.as_str().to_owned()).collect()
    }
}

/// Repeats an operation every 20 ms until the store applies it, for at most `limit`.
pub(crate) async fn eventually(store: &impl RoomStore, room: &RoomName, op: Op, limit: Duration) -> Outcome {
    let start = Instant::now();
    loop {
        match store.apply(vec![Request { room: room.clone(), op: op.clone() }]).await.pop().unwrap() {
            Ok(outcome) => return outcome,
            Err(error) => assert!(start.elapsed() < limit, "after {:?}: {error}", start.elapsed()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn a_clock() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_800_000_000_000))
}

/// Returns the only session of a client, at node-0.
pub(crate) fn who(name: &str) -> Who {
    let mut session = [0; 16];
    session.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    Who {
        client: ClientId::new(name).unwrap(),
        session: SessionId(session),
        accepted_at_us: 1_800_000_000_000_000,
        number: 0,
        node: NodeId::new("node-0").unwrap(),
    }
}

pub(crate) fn seat(who: Who, standing: SeatStatus) -> Seat {
    Seat { who, standing, data: None }
}

pub(crate) fn is_member(outcome: &Outcome) -> bool {
    matches!(outcome.standings[..], [SeatStatus::Member { .. }])
}

pub(crate) fn ahead(outcome: &Outcome) -> u64 {
    match outcome.standings[..] {
        [SeatStatus::Waiting { ahead, .. }] => ahead,
        ref other => panic!("{other:?}"),
    }
}

/// Formats changes: `+name` for a join, `-name` for a leave, and `!name` for an expiry.
pub(crate) fn told(outcome: &Outcome) -> Vec<String> {
    let change = |change: &Change| match change {
        Change::Joined(member) => format!("+{}", member.client),
        Change::Left { client, reason: Reason::Left } => format!("-{client}"),
        Change::Left { client, reason: Reason::Expired } => format!("!{client}"),
    };
    outcome.changes.iter().map(change).collect()
}
