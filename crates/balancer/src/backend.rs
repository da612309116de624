//! The balancer's part of the edge: assigns clients to nodes, and hands them off when nodes join,
//! leave or fail. The edge calls it for clients and links, `trunk_manager` for trunks and views.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_admin::servers::{Flow, Server, Totals};
use signaling_core::balancer::handoff_scheduler::{HandoffScheduler, RebalanceSummary};
use signaling_core::balancer::placement::Placement;
use signaling_core::edge::{ClientKey, EdgeCore, LinkKey, NodeReport};
use signaling_edge::{Backend, Edge, LinkEvent, unavailable};
use signaling_protocol::NodeId;
use signaling_server::Health;
use signaling_server::mesh_status::ServerStatus;
use signaling_server::trunk::{OutboundTrunk, TrunkCloseReason};
use slotmap::SecondaryMap;
use tokio::sync::{Notify, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

/// Maximum clients handed off per [`HANDOFF_TICK`]: 20,000/s, which leaves time for other traffic.
pub const HANDOFFS_PER_TICK: usize = 100;
/// Interval between handoffs of up to [`HANDOFFS_PER_TICK`] clients.
pub const HANDOFF_TICK: Duration = Duration::from_millis(5);

/// Assigns clients to nodes. Clones share one state.
#[derive(Clone)]
pub struct BalancerBackend {
    state: Rc<RefCell<State>>,
    health: Health,
    /// The part of a report that all servers share.
    status: Rc<ServerStatus>,
    /// Set when clients may wait for their handoff.
    planned: Rc<Notify>,
}

/// State that all clones of a [`BalancerBackend`] share.
pub(crate) struct State {
    /// Nodes, their links and suspicions, and unplaced clients.
    pub(crate) placement: Placement,
    pub(crate) handoffs: HandoffScheduler,
    /// Links that are not closed yet: in use, replaced by another of the same node, or down.
    pub(crate) links: SecondaryMap<LinkKey, NodeLink>,
    /// `true` once the process ends; no trunk is opened then.
    pub(crate) is_ending: bool,
}

/// A link to a node, and the sender of its close reason to a waiting task.
pub(crate) struct NodeLink {
    node: NodeId,
    closed: oneshot::Sender<TrunkCloseReason>,
}

impl BalancerBackend {
    /// Creates a backend without trunks. `hash_seed` must be the same on all servers. From the
    /// first view on, `health` is ready while a node takes clients.
    pub fn new(hash_seed: u64, health: Health, status: ServerStatus) -> Self {
        let state = State {
            placement: Placement::new(hash_seed),
            handoffs: HandoffScheduler::new(HANDOFFS_PER_TICK),
            links: SecondaryMap::new(),
            is_ending: false,
        };
        Self { state: Rc::new(RefCell::new(state)), health, status: Rc::new(status), planned: Rc::default() }
    }

    /// Calls a function with the state. Panics if the function calls the backend.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.borrow_mut())
    }

    pub(crate) fn report(&self, core: &EdgeCore) -> Server {
        let counts = core.counts();
        let flow = |(from, to, clients): (&str, &str, u64)| Flow { from: from.to_owned(), to: to.to_owned(), clients };
        self.with(|state| Server {
            clients: core.len(),
            totals: Totals { messages: counts.ups, delivered: counts.downs, unavailable: 0 },
            latency_us: core.delays().counts().collect(),
            flows: state.handoffs.counts().iter().map(flow).collect(),
            ..self.status.report(state.placement.view(), state.placement.suspect_ids())
        })
    }

    /// Adds a trunk, whose opening began at `asked`, as the link in use of its node. The receiver
    /// gets the reason of its end. Fails if the system refuses to watch the socket.
    pub(crate) fn add_trunk(
        &self,
        edge: &Edge,
        node: NodeId,
        asked: Instant,
        trunk: OutboundTrunk,
    ) -> io::Result<(LinkKey, oneshot::Receiver<TrunkCloseReason>)> {
        let link = edge.add_trunk(asked, trunk)?;
        let (closed, is_closed) = oneshot::channel();
        self.with(|state| state.links.insert(link, NodeLink { node, closed }));
        self.use_link(edge, link);
        Ok((link, is_closed))
    }

    /// Uses `link` for its node unless it is down or closed. Rebalances in any case.
    pub(crate) fn use_link(&self, edge: &Edge, link: LinkKey) {
        let now = Instant::now();
        edge.with_core(|core| {
            self.with(|State { placement, links, .. }| {
                if let Some(NodeLink { node, .. }) = links.get(link).filter(|_| core.has_link(link)) {
                    placement.link_up(now, node.clone(), link);
                }
            });
            self.rebalance(now, core);
        });
    }

    /// Assigns unplaced clients, plans handoffs of misplaced ones, and sets the readiness. If no
    /// node is usable, refuses new clients with 503; attached ones stay unplaced.
    pub(crate) fn rebalance(&self, now: Instant, core: &mut EdgeCore) {
        let (begins, unplaced, usable) = self.with(|State { placement, handoffs, .. }| {
            (handoffs.plan(now, placement, core), placement.take_unplaced(), placement.usable_count())
        });
        if let Some(clients) = begins {
            info!(clients, of = core.len(), "handoffs planned");
        }
        unplaced.into_iter().for_each(|client| self.assign(now, core, client));
        self.planned.notify_one();
        self.health.set_ready(usable > 0, "no signaling node can be reached");
    }

    /// Hands clients off to their new owners whenever [`BalancerBackend`] has planned that, at most
    /// 100 per 5 ms. Never returns. Panics outside a Tokio runtime.
    pub async fn run_handoffs(self, edge: Edge) {
        loop {
            self.planned.notified().await;
            let mut ticks = interval(HANDOFF_TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !self.with(|state| state.handoffs.is_over()) {
                ticks.tick().await;
                let over = edge.with_core(|core| {
                    self.with(|State { placement, handoffs, .. }| handoffs.tick(Instant::now(), placement, core))
                });
                if let Some(RebalanceSummary { clients, took }) = over {
                    info!(clients, ms = took.as_millis(), "handoffs done");
                }
            }
        }
    }

    fn assign(&self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        let Some(key) = core.key_hash(client) else { return };
        match self.with(|state| state.placement.choose(key)) {
            Some(link) => core.attach(now, client, link),
            None => {
                core.refuse(client, unavailable("no_node", "no signaling node can be reached; try again"));
                // A client that was attached before is not refused.
                if core.key_hash(client).is_some() {
                    self.with(|state| state.placement.keep_unplaced(client));
                }
            }
        }
    }

    fn on_announcement(&self, now: Instant, core: &mut EdgeCore, link: LinkKey, is_draining: bool) {
        self.with(|State { placement, links, .. }| {
            let Some(NodeLink { node, .. }) = links.get(link) else { return };
            if is_draining {
                info!(%node, "node drains, its clients move");
            } else {
                info!(%node, "node undrained, accepts clients");
            }
            placement.set_draining(node, link, is_draining);
        });
        self.rebalance(now, core);
    }
}

impl Backend for BalancerBackend {
    fn assign_node(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        self.assign(now, core, client);
    }

    fn on_link_event(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, event: LinkEvent) {
        match event {
            LinkEvent::Announced(NodeReport::Draining) => self.on_announcement(now, core, link, true),
            LinkEvent::Announced(NodeReport::Serving) => self.on_announcement(now, core, link, false),
            LinkEvent::Announced(NodeReport::StatusRequest) => {
                let report = self.report(core);
                core.send_status(link, &serde_json::to_vec(&report).unwrap_or_default());
            }
            LinkEvent::Announced(NodeReport::DrainRequest { drained }) => {
                // The node reads from the next status whether this server could follow.
                drop(self.health.set_drained(drained));
            }
            LinkEvent::Down { is_lost } => self.with(|State { placement, handoffs, links, .. }| {
                let Some(NodeLink { node, .. }) = links.get(link) else { return };
                placement.link_down(node, link);
                if is_lost {
                    handoffs.lost(node.as_str(), link, placement, core);
                }
            }),
            LinkEvent::Closed(reason) => {
                let link = self.with(|state| state.links.remove(link));
                self.rebalance(now, core);
                if let Some(NodeLink { closed, .. }) = link {
                    // The task that waits for it may have ended.
                    let _ = closed.send(reason);
                }
            }
        }
    }
}
