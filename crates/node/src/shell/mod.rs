//! The node's I/O around its core, on one thread: trunks (`trunks`), lanes to other nodes (`lanes`), the internal
//! listener (`internal`), the edge for direct clients (`direct`), the way to the room store (`rooms`) and the registry
//! (`registry`), operators' routes (`operator`), and the node's report about itself (`report`).

mod direct;
mod internal;
mod lanes;
pub mod metrics;
mod operator;
mod registry;
mod report;
mod rooms;
mod trunks;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use reqwest::Url;
use signaling_protocol::NodeId;
use signaling_server::pause_detector::since_boot;
use signaling_server::{FlushSignal, PauseDetector};
use slotmap::SecondaryMap;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use self::report::EdgeName;
use signaling_core::node::{NodeCore, PeerKey, SWEEP_INTERVAL, TrunkKey, UndeliveredSender, Urgency};

pub use self::direct::DirectEdge;
pub use self::internal::{Internal, serve};
pub use self::lanes::{client, follow};
pub use self::operator::{OperatorApi, PeerQueries, learn_kicks, operators};
pub use self::registry::{register, watch_over};
pub use self::report::Floor;
pub use self::rooms::{ERRANDS, carry_tasks, run_errands};

/// A node. A cheap clone shares it; it stays on its thread.
#[derive(Clone)]
pub struct Node(Rc<RefCell<State>>);

/// How long closing trunks may take.
const HANG_UP: Duration = Duration::from_millis(200);
/// How often to look whether they are closed.
const HANG_UP_LOOK: Duration = Duration::from_millis(5);
/// Requests whose heads are read until so long after a pause of this process are refused: they may
/// have waited for its end.
const REFUSE_FOR: Duration = Duration::from_millis(200);

/// How often one of those who write to nobody is named in the log.
const BETWEEN_WRITERS: Duration = Duration::from_secs(10);

struct State {
    core: NodeCore,
    /// Beats at every call of the core: every few milliseconds, except during pauses.
    pauses: PauseDetector,
    refuse_until: Option<Instant>,
    /// Whom the log knows to be suspect.
    suspects: Vec<NodeId>,
    /// Until then nobody is named in the log who writes to nobody.
    quiet_until: Option<Instant>,
    trunks: SecondaryMap<TrunkKey, Rc<FlushSignal>>,
    /// Who is behind the trunks of other processes.
    edges: SecondaryMap<TrunkKey, EdgeName>,
    lanes: SecondaryMap<PeerKey, Lanes>,
    /// Announce what the room store is to be asked.
    urgent: Rc<FlushSignal>,
    background: Rc<FlushSignal>,
}

/// Who carries a peer's lanes.
struct Lanes {
    /// Where the peer takes batches, now.
    url: Rc<RefCell<Url>>,
    wakes: Box<[Rc<FlushSignal>]>,
    carriers: Box<[AbortHandle]>,
}

impl Node {
    /// A node around its core.
    #[must_use]
    pub fn new(core: NodeCore) -> Self {
        metrics::publish_limits(core.limits());
        Self(Rc::new(RefCell::new(State {
            core,
            pauses: PauseDetector::new(since_boot()),
            refuse_until: None,
            suspects: Vec::new(),
            quiet_until: None,
            trunks: SecondaryMap::new(),
            edges: SecondaryMap::new(),
            lanes: SecondaryMap::new(),
            urgent: Rc::default(),
            background: Rc::default(),
        })))
    }

    /// Tells the core something, then wakes whoever carries what it has to say.
    pub fn with_core<R>(&self, tell: impl FnOnce(&mut NodeCore) -> R) -> R {
        let mut state = self.0.borrow_mut();
        state.look_for_jump(Instant::now());
        let result = tell(&mut state.core);
        state.wake();
        result
    }

    /// Returns `true` if this node can forward: see [`NodeCore::has_view`].
    fn has_view(&self) -> bool {
        self.0.borrow().core.has_view()
    }

    /// Whether a request is refused whose head was read then, because it may be as old as a pause
    /// that this process has made.
    fn refuses(&self, asked: Instant) -> bool {
        let mut state = self.0.borrow_mut();
        state.look_for_jump(Instant::now());
        state.refuse_until.is_some_and(|until| asked < until)
    }

    /// Lets the core look at the time, at its interval. Ends when dropped.
    pub async fn sweep(self) {
        let mut ticks = interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.with_core(|core| {
                let now = Instant::now();
                core.set_clock((now, SystemTime::now()));
                core.sweep(now);
            });
            let mut state = self.0.borrow_mut();
            metrics::publish(&state.core);
            state.tell_suspects();
            state.tell_writers_to_nobody(Instant::now());
        }
    }

    /// Adds an edge's connection, whose batches the wake announces.
    fn trunk_up(&self, add: impl FnOnce(&mut NodeCore) -> TrunkKey) -> (TrunkKey, Rc<FlushSignal>) {
        let wake = Rc::new(FlushSignal::default());
        let mut state = self.0.borrow_mut();
        let trunk = add(&mut state.core);
        state.trunks.insert(trunk, Rc::clone(&wake));
        state.wake();
        (trunk, wake)
    }

    /// Closes all trunks in good order, so that edges do not take this node's end for a failure. Returns once they are closed,
    /// or have had time for it.
    pub async fn hang_up(&self) {
        self.with_core(|core| core.hang_up(Instant::now()));
        self.0.borrow().trunks.values().for_each(|wake| wake.flush_now());
        let all_closed = async {
            while self.0.borrow().trunks.keys().any(|trunk| !self.0.borrow().core.has_trunk(trunk)) {
                sleep(HANG_UP_LOOK).await;
            }
        };
        // Whoever does not take it will see the end of the process.
        let _ = timeout(HANG_UP, all_closed).await;
    }

    /// An edge has connected, and perhaps says who it is.
    fn edge_up(&self, name: Option<EdgeName>) -> (TrunkKey, Rc<FlushSignal>) {
        let (trunk, wake) = self.trunk_up(NodeCore::trunk_up);
        if let Some(name) = name {
            let mut state = self.0.borrow_mut();
            state.core.name_edge(trunk, name.id.as_str());
            state.edges.insert(trunk, name);
        }
        (trunk, wake)
    }

    fn trunk_down(&self, trunk: TrunkKey) {
        {
            let mut state = self.0.borrow_mut();
            state.trunks.remove(trunk);
            state.edges.remove(trunk);
        }
        self.with_core(|core| core.trunk_down(Instant::now(), trunk));
    }
}

impl State {
    /// Notices that this process did nothing for a while (it was stopped, or starved): what waits unread is as old.
    fn look_for_jump(&mut self, now: Instant) {
        let Some(paused) = self.pauses.beat(since_boot()) else { return };
        warn!(?paused, "this process was paused: its trunks are closed and waiting requests refused");
        self.core.on_process_pause(now);
        self.refuse_until = Some(now + REFUSE_FOR);
        self.trunks.values().for_each(|wake| wake.flush_now());
    }

    /// Names those in the log who write to nobody, of many only some.
    fn tell_writers_to_nobody(&mut self, now: Instant) {
        let writers = self.core.take_undelivered_senders();
        if let Some(UndeliveredSender { client, session, messages }) = writers.into_iter().next()
            && self.quiet_until.is_none_or(|until| now >= until)
        {
            info!(%client, %session, messages, "a client writes to peers that are not there");
            self.quiet_until = Some(now + BETWEEN_WRITERS);
        }
    }

    /// Says in the log whom the core has come to suspect, and whom to trust again.
    fn tell_suspects(&mut self) {
        let suspects: Vec<_> = self.core.suspects().cloned().collect();
        for node in suspects.iter().filter(|node| !self.suspects.contains(node)) {
            if self.core.is_leaving(node) {
                debug!(%node, "a node that drains does not answer any more");
            } else {
                warn!(%node, "a node does not answer: others stand in for it");
            }
        }
        for node in self.suspects.iter().filter(|node| !suspects.contains(node)) {
            info!(%node, "a node that did not answer is relied on again, or gone");
        }
        self.suspects = suspects;
    }

    fn wake(&self) {
        for (trunk, signal) in &self.trunks {
            signal.request(self.core.trunk_wants(trunk));
        }
        for (peer, lanes) in &self.lanes {
            for (lane, signal) in lanes.wakes.iter().enumerate() {
                signal.request(self.core.lane_wants(peer, lane));
            }
        }
        for (urgency, wake) in [(Urgency::Urgent, &self.urgent), (Urgency::Background, &self.background)] {
            if self.core.wants_store(urgency) {
                wake.flush_now();
            }
        }
    }
}
