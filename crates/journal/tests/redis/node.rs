//! A node of a mesh of one, and its journal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use signaling_core::node::{NodeCore, Settings, TrunkKey};
use signaling_journal::{Journal, JournalStatus, KeyPrefix, Owner};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{
    JournalOutcome, JournalRead, JournalWrite, Operation, Registrations, Request, Requester, RoomSettings, Rules,
};
use signaling_wire::trunk::{Attach, DetachReason, ToNode};
use signaling_wire::{Incarnation, Rank, RateDebts, SessionId, SocketId, resume};
use tokio::sync::Notify;
use tokio::time::sleep;

/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(20);

/// A node whose rooms have two members.
#[derive(Clone)]
pub(crate) struct Node(Rc<State>);

struct State {
    core: RefCell<NodeCore>,
    trunk: TrunkKey,
    /// Time by which the node's clock is ahead.
    ahead: Cell<Duration>,
    wake: Notify,
    status: RefCell<JournalStatus>,
    incarnation: Incarnation,
}

impl Node {
    /// Starts process number `process` of node `n0`, `age` ago.
    pub(crate) fn start(process: u8, age: Duration) -> Self {
        let (now, incarnation) = (Instant::now(), Incarnation([process; 8]));
        let id = NodeId::new("n0").unwrap();
        let rules = Rules { capacity: Some(2), ..Rules::default() };
        let rooms = RoomSettings { has_journal: true, rules, ..RoomSettings::default() };
        let epoch = (now, SystemTime::now());
        let mut core = NodeCore::new(Settings { rooms, ..Settings::new(id.clone(), incarnation, key(), epoch) });
        let entry = NodeEntry { id, address: "n0:1".parse().unwrap(), draining: false, zone: None };
        core.set_view(now, Arc::new(View::new([entry]).unwrap()));
        let trunk = core.trunk_up(now);
        let (core, status) = (RefCell::new(core), RefCell::default());
        Self(Rc::new(State { core, trunk, ahead: Cell::new(age), wake: Notify::new(), status, incarnation }))
    }

    /// Runs its journal under the prefix `sig` while `test` runs.
    pub(crate) async fn with_journal(&self, url: &str, test: impl Future<Output = ()>) {
        let at = (NodeId::new("n0").unwrap(), self.0.incarnation);
        let identities = || vec!["this mesh".to_owned(), "its former secret".to_owned()];
        let journal = Journal::new(url.parse().unwrap(), KeyPrefix::default(), at, identities).unwrap();
        tokio::select! {
            _ = journal.run(self, &self.0.wake) => unreachable!("it runs until it is dropped"),
            () = test => {}
        }
    }

    fn now(&self) -> Instant {
        Instant::now() + self.0.ahead.get()
    }

    pub(crate) fn with_core<R>(&self, call: impl FnOnce(&mut NodeCore, Instant) -> R) -> R {
        let now = self.now();
        let mut core = self.0.core.borrow_mut();
        let result = call(&mut core, now);
        core.send_room_tasks(now);
        if core.has_journal_reads() {
            self.0.wake.notify_one();
        }
        result
    }

    /// Lets time pass on the node's clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.0.ahead.set(self.0.ahead.get() + time);
        // A sweep after a long pause leaves its work.
        self.with_core(NodeCore::sweep);
        self.with_core(NodeCore::sweep);
    }

    pub(crate) fn apply(&self, room: &str, op: Operation) {
        let request = Request { room: RoomName::new(room).unwrap(), op };
        self.with_core(|core, _| core.rooms_mut().request_for_operator(1, request));
    }

    pub(crate) fn join(&self, room: &str, client: &str) {
        self.join_with(room, client, format!(r#"{{"name":"{client}"}}"#).into());
    }

    pub(crate) fn join_with(&self, room: &str, client: &str, data: Box<str>) {
        self.apply(room, Operation::Join { requester: requester(client, 1), data: Some(data), capacity: None });
    }

    pub(crate) fn leave(&self, room: &str, client: &str) {
        self.apply(room, Operation::Leave { requester: requester(client, 2) });
    }

    /// Returns the members of a room by name, and of its queue.
    pub(crate) fn seats(&self, room: &str) -> (Vec<String>, Vec<String>) {
        let (core, rules) = (self.0.core.borrow(), Rules::default());
        let seats = core.rooms().owned(room).into_iter().flat_map(|room| room.seats(&rules));
        let (members, waiting): (Vec<_>, Vec<_>) = seats.partition(|(seat, _)| seat.status.is_member());
        let names = |seats: Vec<(&signaling_rooms::Seat, _)>| {
            seats.into_iter().map(|(seat, _)| seat.requester.client.to_string()).collect()
        };
        (names(members), names(waiting))
    }

    /// Attaches a client, by its slot.
    pub(crate) fn attach(&self, slot: u8, client: &str) {
        let session = SessionId([slot; 16]);
        let attach =
            Attach { state: Some(b"admitted"), ..Attach::newcomer(slot.into(), session, client, SocketId([1; 8])) };
        self.send(&ToNode::Attach(attach));
    }

    pub(crate) fn detach(&self, slot: u8) {
        self.send(&ToNode::Detach { slot: slot.into(), cause: DetachReason::Left, debts: RateDebts::default() });
    }

    fn send(&self, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        self.with_core(|core, now| core.trunk_frames(now, self.0.trunk, &bytes)).unwrap();
    }

    pub(crate) fn status(&self) -> JournalStatus {
        self.0.status.borrow().clone()
    }
}

fn key() -> resume::Key {
    resume::Key::new([1; 32])
}

fn requester(client: &str, number: u64) -> Requester {
    Requester {
        client: ClientId::new(client).unwrap(),
        session: SessionId([client.as_bytes()[0]; 16]),
        socket: SocketId([1; 8]),
        rank: Rank(1),
        attachment: 1,
        number,
        node: NodeId::new("n0").unwrap(),
    }
}

/// Waits until a condition holds. Panics with `what` after 20 s.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

impl Owner for Node {
    fn take_writes(&self, max_bytes: usize) -> Vec<JournalWrite> {
        self.with_core(|core, now| core.take_journal(now, max_bytes))
    }

    fn has_writes(&self) -> bool {
        self.0.core.borrow().rooms().has_journal_writes()
    }

    fn written(&self, room: &RoomName, number: u64, outcome: JournalOutcome) {
        self.with_core(|core, now| core.journal_written(now, room, number, outcome));
    }

    fn take_reads(&self) -> Vec<RoomName> {
        self.with_core(|core, _| core.take_journal_reads())
    }

    fn answer(&self, read: JournalRead) {
        self.with_core(|core, now| core.journal_read(now, read));
    }

    fn take_registrations(&self, max: usize) -> Registrations {
        self.with_core(|core, _| core.take_registrations(max))
    }

    fn forget_registrations(&self) {
        self.with_core(|core, _| core.forget_registrations());
    }

    fn clients(&self) -> usize {
        self.0.core.borrow().sessions()
    }

    fn is_former_process(&self, node: &str, incarnation: Incarnation) -> bool {
        self.0.core.borrow().is_former_process(node, incarnation)
    }

    fn cleans(&self, node: &str) -> bool {
        self.0.core.borrow().cleans(node)
    }

    fn is_left_over(&self, room: &RoomName) -> bool {
        self.0.core.borrow().rooms().is_left_over(room)
    }

    fn set_status(&self, status: JournalStatus) {
        self.with_core(|core, now| core.set_journal_up(now, status.is_up));
        self.0.status.replace(status);
    }
}
