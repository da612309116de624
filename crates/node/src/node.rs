//! The node's I/O around its core, on one thread: [`Node`] calls the core, and signals the tasks
//! that write its output.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use signaling_protocol::NodeId;
use signaling_server::clock::{next_multiple, ticks, until};
use signaling_server::coalescer::Coalescer;
use signaling_server::pause_detector::since_boot;
use signaling_server::telemetry::publish_on_scrape;
use signaling_server::{FlushSignal, MeshSecret, PauseDetector};
use slotmap::SecondaryMap;
use tokio::sync::Notify;
use tokio::time::timeout_at;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use crate::inbound_lanes::InboundLane;
use crate::journal::JournalView;
use crate::lanes::{LaneClient, Route};
use crate::metrics;
use crate::operator::OperatorReply;
use crate::report::EdgeServer;
use signaling_core::node::{IDLE_SWEEP_INTERVAL, NodeCore, PeerKey, SWEEP_INTERVAL, TrunkKey, UndeliveredSender};

/// A node. Clones share one state, on one thread. A call within another one panics.
#[derive(Clone)]
pub struct Node(pub(crate) Rc<RefCell<State>>);

/// Maximum time to close trunks.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Minimum time between two log entries about undelivered senders.
const SENDER_LOG_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct State {
    pub(crate) core: NodeCore,
    /// Beats at every call of the core, at least every 250 ms except during pauses.
    pub(crate) pauses: PauseDetector,
    /// Nodes that were logged as suspect.
    pub(crate) suspects: Vec<NodeId>,
    /// No undelivered sender is logged before this time.
    pub(crate) quiet_until: Option<Instant>,
    /// No node outside the view is logged before this time.
    pub(crate) outsiders_quiet_until: Option<Instant>,
    pub(crate) trunks: SecondaryMap<TrunkKey, Rc<FlushSignal>>,
    /// The balancers behind trunks of other processes.
    pub(crate) edges: SecondaryMap<TrunkKey, EdgeServer>,
    /// `None` before [`follow_views`](crate::lanes::follow_views).
    pub(crate) lane_client: Option<LaneClient>,
    pub(crate) lanes: SecondaryMap<PeerKey, OutboundLane>,
    pub(crate) inbound_lanes: SecondaryMap<PeerKey, InboundLane>,
    /// `true` while sweeps are rare. [`State::on_turn_end`] ends it by `hurry`.
    pub(crate) is_idle: bool,
    pub(crate) hurry: Rc<Notify>,
    /// Operators that wait for answers, by the number of the request.
    pub(crate) operator_replies: BTreeMap<u64, OperatorReply>,
    pub(crate) last_operator_request: u64,
    /// `None`: there is no journal.
    pub(crate) journal: Option<JournalView>,
    pub(crate) coalescer: Coalescer,
    /// `true` while reads are not delayed: the answer to a join or leave passes up to three nodes.
    pub(crate) is_prompt: bool,
}

pub(crate) struct OutboundLane {
    pub(crate) route: Route,
    pub(crate) signal: Rc<FlushSignal>,
    pub(crate) _task: AbortOnDropHandle<()>,
}

impl Node {
    /// Creates a node around its core, without trunks or lanes. `coalescer` is that of the thread.
    pub fn new(core: NodeCore, coalescer: Coalescer) -> Self {
        metrics::publish_limits(core.settings());
        Self(Rc::new(RefCell::new(State {
            core,
            pauses: PauseDetector::new(since_boot()),
            suspects: Vec::new(),
            quiet_until: None,
            outsiders_quiet_until: None,
            trunks: SecondaryMap::new(),
            edges: SecondaryMap::new(),
            lane_client: None,
            lanes: SecondaryMap::new(),
            inbound_lanes: SecondaryMap::new(),
            is_idle: false,
            hurry: Rc::default(),
            operator_replies: BTreeMap::new(),
            last_operator_request: 0,
            journal: None,
            coalescer,
            is_prompt: false,
        })))
    }

    /// Calls the core, then signals the tasks that write its output. First closes trunks and lanes
    /// if the process was paused for 2 s or more. Panics in a nested call.
    pub fn with_core<R>(&self, call: impl FnOnce(&mut NodeCore) -> R) -> R {
        let mut state = self.0.borrow_mut();
        state.detect_pause(Instant::now());
        let result = call(&mut state.core);
        state.on_turn_end();
        result
    }

    /// Returns `true` once discovery has named nodes. Before that this node cannot forward.
    pub(crate) fn has_view(&self) -> bool {
        self.0.borrow().core.peers().has_view()
    }

    /// Signs resume tokens by the first secret of `accepted` from now on, and accepts tokens of
    /// each. An empty list changes none. Cuts all lanes, which then open anew, and closes trunks
    /// whose edges have not proven a secret of the list: edges renew theirs for a new first one.
    pub fn set_mesh_secrets(&self, accepted: &[MeshSecret]) {
        let unproven: Vec<_> = {
            let state = self.0.borrow();
            let edges = state.edges.iter().filter(|(_, server)| !accepted.contains(&server.opener.secret));
            edges.map(|(trunk, _)| trunk).collect()
        };
        self.with_core(|core| {
            let now = Instant::now();
            core.set_resume_keys(accepted.iter().map(|secret| secret.resume_tokens().clone()).collect());
            core.peers_mut().cut_lanes(now);
            unproven.iter().for_each(|trunk| core.trunk_down(now, *trunk));
        });
        let mut state = self.0.borrow_mut();
        state.inbound_lanes.clear();
        unproven.iter().filter_map(|trunk| state.trunks.get(*trunk)).for_each(|signal| signal.flush_now());
    }

    /// Sweeps the core at its interval, and publishes its counts at each scrape. Never returns.
    pub async fn sweep(self) {
        publish_on_scrape(&self.0, |state| {
            let state = state.borrow();
            metrics::publish(&state.core);
            if let Some(journal) = &state.journal {
                metrics::publish_journal_lag(journal.lag(Instant::now()));
            }
        });
        let mut ticks = ticks(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            self.with_core(|core| {
                let now = Instant::now();
                core.set_clock((now, SystemTime::now()));
                core.sweep(now);
            });
            let hurry = {
                let mut state = self.0.borrow_mut();
                state.acknowledge(Instant::now());
                state.log_suspects();
                state.log_undelivered_sender(Instant::now());
                state.is_idle = state.core.is_idle();
                state.is_idle.then(|| Rc::clone(&state.hurry))
            };
            if let Some(hurry) = hurry {
                let next = next_multiple(Instant::now(), IDLE_SWEEP_INTERVAL);
                let _ = timeout_at(next.into(), hurry.notified()).await;
            }
        }
    }

    /// Adds an edge's connection. The returned signal announces its batches.
    pub(crate) fn trunk_up(&self, add: impl FnOnce(&mut NodeCore) -> TrunkKey) -> (TrunkKey, Rc<FlushSignal>) {
        let mut state = self.0.borrow_mut();
        let signal = Rc::new(FlushSignal::new(&state.coalescer));
        let trunk = add(&mut state.core);
        state.trunks.insert(trunk, Rc::clone(&signal));
        state.on_turn_end();
        (trunk, signal)
    }

    /// Closes the trunks of edges in other processes cleanly, so that edges do not count a failure.
    /// The core loses their sessions at once. Returns once all are closed, after at most 200 ms.
    pub async fn close_trunks(&self) {
        self.with_core(|core| core.close_trunks(Instant::now()));
        self.0.borrow().trunks.values().for_each(|signal| signal.flush_now());
        let are_closed = || self.0.borrow().trunks.keys().all(|trunk| self.0.borrow().core.trunks().contains(trunk));
        // Remaining edges see the end of the process.
        until(CLOSE_TIMEOUT, CLOSE_CHECK_INTERVAL, are_closed).await;
    }

    /// Adds the trunk of a balancer that was accepted at this time.
    pub(crate) fn edge_up(&self, accepted: Instant, server: EdgeServer) -> (TrunkKey, Rc<FlushSignal>) {
        let (trunk, signal) = self.trunk_up(|core| core.trunk_up(accepted));
        let mut state = self.0.borrow_mut();
        state.core.trunks_mut().name_edge(trunk, server.opener.server.as_str());
        state.edges.insert(trunk, server);
        drop(state);
        (trunk, signal)
    }

    pub(crate) fn trunk_down(&self, trunk: TrunkKey) {
        {
            let mut state = self.0.borrow_mut();
            state.trunks.remove(trunk);
            state.edges.remove(trunk);
        }
        self.with_core(|core| core.trunk_down(Instant::now(), trunk));
    }
}

impl State {
    /// Detects a process pause. Unread input is as old as the pause.
    fn detect_pause(&mut self, now: Instant) {
        let Some(paused) = self.pauses.beat(since_boot()) else { return };
        warn!(?paused, "process was paused, trunks and lanes close");
        self.core.on_process_pause(now);
        self.inbound_lanes.clear();
        self.trunks.values().for_each(|signal| signal.flush_now());
    }

    /// Logs at most one undelivered sender per [`SENDER_LOG_INTERVAL`].
    fn log_undelivered_sender(&mut self, now: Instant) {
        let senders = self.core.take_undelivered_senders();
        if let Some(UndeliveredSender { client, session, messages }) = senders.into_iter().next()
            && self.quiet_until.is_none_or(|until| now >= until)
        {
            info!(%client, %session, messages, "messages of a client cannot be delivered");
            self.quiet_until = Some(now + SENDER_LOG_INTERVAL);
        }
    }

    /// Logs nodes that became suspect, and nodes that no longer are.
    fn log_suspects(&mut self) {
        let suspects: Vec<_> = self.core.peers().suspects().cloned().collect();
        for node in suspects.iter().filter(|node| !self.suspects.contains(node)) {
            if self.core.peers().view().get(node.as_str()).is_some_and(|member| member.draining) {
                debug!(%node, "draining node does not answer any more");
            } else {
                warn!(%node, "node suspect, others stand in for it");
            }
        }
        for node in self.suspects.iter().filter(|node| !suspects.contains(node)) {
            info!(%node, "node no longer suspect");
        }
        self.suspects = suspects;
    }

    /// Sends new room tasks, ends rare sweeps, returns operators' answers, and signals the tasks
    /// that write trunks and lanes.
    fn on_turn_end(&mut self) {
        if self.core.rooms().has_unsent_tasks() {
            self.core.send_room_tasks(Instant::now());
        }
        if self.is_idle && !self.core.is_idle() {
            self.is_idle = false;
            self.hurry.notify_one();
        }
        let is_prompt = self.core.rooms().awaits_join_or_leave();
        if std::mem::replace(&mut self.is_prompt, is_prompt) != is_prompt {
            self.coalescer.set_prompt(is_prompt);
        }
        if let Some(journal) = self.journal.as_ref().filter(|_| self.core.has_journal_reads()) {
            journal.wake();
        }
        for (number, answer) in self.core.rooms_mut().take_operator_answers() {
            if let Some(reply) = self.operator_replies.remove(&number) {
                let _ = reply.send(answer);
            }
        }
        for (trunk, signal) in &self.trunks {
            signal.request(self.core.trunks().wants(trunk));
        }
        for (peer, urgency) in self.core.peers_mut().take_woken_lanes() {
            if let Some(lane) = self.lanes.get(peer) {
                lane.signal.request(urgency);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_core::edge::KickName;
    use signaling_core::node::Settings;
    use signaling_server::unix_time;
    use signaling_wire::{Incarnation, resume};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn sweep_sets_the_time_of_day_of_the_core() {
        let (id, epoch) = (NodeId::new("a").unwrap(), (Instant::now(), SystemTime::UNIX_EPOCH));
        let settings = Settings::new(id, Incarnation([1; 8]), resume::Key::new([1; 32]), epoch);
        let node = Node::new(NodeCore::new(settings), Coalescer::disabled());
        // A core ignores kicks of the future.
        let kicks_of_now = || {
            node.with_core(|core| {
                core.learn_kick(Instant::now(), None, &KickName::new("anna"), unix_time().as_secs());
                core.kicks().iter().count()
            })
        };
        assert_eq!(kicks_of_now(), 0);

        let _ = timeout(SWEEP_INTERVAL * 2, node.clone().sweep()).await;

        assert_eq!(kicks_of_now(), 1);
    }
}
