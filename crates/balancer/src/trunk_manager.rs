//! Trunks of the balancer, one per node of the view. Reopens a lost trunk. Closes a trunk when the
//! view drops its node or address, and replaces it when the mesh secret changes: nodes close trunks
//! of a removed secret. `run` starts it. It adds trunks to `backend`.

use std::collections::HashMap;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signaling_core::edge::LinkKey;
use signaling_edge::Edge;
use signaling_membership::View;
use signaling_protocol::{Backoff, NodeId};
use signaling_server::clock::ticks;
use signaling_server::proofs::Proofs;
use signaling_server::telemetry::publish_on_scrape;
use signaling_server::trunk;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{Span, debug, info, info_span, warn};

use crate::backend::BalancerBackend;
use crate::metrics::{self, METRICS, OpenFailure};

const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Pause after the end of a trunk to a draining node, longer than such a node takes to stop.
const DRAINED_PAUSE: Duration = Duration::from_millis(500);
/// Lifetime of a trunk that resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Interval of checks for the end of probations.
const PROBATION_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time of handoffs from a trunk that left the view: twice the time of 100,000 handoffs.
/// Remaining clients then move as after a crash, without a handoff.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(10);
const RETIRE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Keeps one trunk to each node of the latest view. After its end the edge keeps the open trunks.
pub struct TrunkManager {
    /// Edge that the trunks serve.
    pub edge: Edge,
    /// Assignment of clients to trunks.
    pub backend: BalancerBackend,
    /// Proofs of the mesh secret for nodes.
    pub proofs: Proofs,
    /// Port of this balancer's internal listener, reported to nodes.
    pub internal_port: u16,
}

/// Target of a trunk: a node at an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Target {
    node: NodeId,
    address: String,
    /// Number of changes of the primary secret before its proof.
    renewal: u64,
}

/// Tasks that keep trunks open.
#[derive(Default)]
struct Openers {
    opener_by_target: HashMap<Target, Opener>,
    tasks: JoinSet<()>,
}

struct Opener {
    /// `true` while the view contains the trunk's target.
    wanted: watch::Sender<bool>,
    task: AbortHandle,
}

impl Openers {
    /// Starts an opener for each member without one, and reports to the others if the view has
    /// their targets. `renewal`: number of changes of the primary secret.
    fn follow(&mut self, manager: &Rc<TrunkManager>, view: &View, renewal: u64) {
        while self.tasks.try_join_next().is_some() {}
        self.opener_by_target.retain(|Target { node, address, renewal: of }, opener| {
            let is_there = view.get(node.as_str()).is_some_and(|member| member.address.as_str() == address);
            opener.wanted.send_replace(is_there && *of == renewal);
            !opener.task.is_finished()
        });
        for member in view.members() {
            let target = Target { node: member.id.clone(), address: member.address.to_string(), renewal };
            self.opener_by_target.entry(target.clone()).or_insert_with(|| {
                let span = info_span!("trunk", node = %target.node, address = %target.address);
                let (wanted, is_wanted) = watch::channel(true);
                let task = Rc::clone(manager).keep_open(span, target, is_wanted);
                Opener { wanted, task: self.tasks.spawn_local(task) }
            });
        }
    }
}

impl TrunkManager {
    /// Opens and closes trunks for each view, moves clients to their nodes, and publishes metrics.
    /// Returns when the sender of views is dropped. Panics outside a `LocalSet`.
    pub async fn follow(self, mut views: watch::Receiver<Arc<View>>) {
        let this = Rc::new(self);
        publish_on_scrape(&this, |manager| manager.backend.with(|state| metrics::publish(state)));
        let (mut openers, mut renewal) = (Openers::default(), 0);
        let mut secrets = this.proofs.secrets().subscribe();
        let mut primary = this.proofs.secrets().primary();
        let mut ticks = ticks(PROBATION_INTERVAL);
        loop {
            let view = views.borrow_and_update().clone();
            debug!(nodes = view.len(), hash = format!("{:016x}", view.hash()), "view changed, places clients again");
            openers.follow(&this, &view, renewal);
            this.backend.with(|state| state.placement.set_view(Instant::now(), view));
            this.rebalance();
            loop {
                tokio::select! {
                    changed = views.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Ok(()) = secrets.changed() => {
                        let earlier = mem::replace(&mut primary, this.proofs.secrets().primary());
                        renewal += u64::from(earlier != primary);
                        break;
                    }
                    _ = ticks.tick() => {
                        if this.backend.with(|state| state.placement.end_probations(Instant::now())) {
                            info!("node is healthy again, its clients return");
                            this.rebalance();
                        }
                    }
                }
            }
        }
    }

    /// Keeps one trunk open while `wanted`. Events name the span; entering it costs time per frame.
    async fn keep_open(self: Rc<Self>, span: Span, target: Target, mut wanted: watch::Receiver<bool>) {
        let Target { node, address, .. } = target;
        let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
        let mut reported = String::new();
        while *wanted.borrow_and_update() && !self.backend.with(|state| state.is_ending) {
            let asked = Instant::now();
            let opened = tokio::select! {
                opened = timeout(OPEN_TIMEOUT, trunk::open(&node, &address, &self.proofs, self.internal_port)) => opened,
                () = unwanted(&mut wanted) => return,
            };
            let started = Instant::now();
            let why = match opened {
                Ok(Ok(trunk)) => match self.backend.add_trunk(&self.edge, node.clone(), asked, trunk) {
                    Ok((link, mut closed)) => {
                        info!(parent: &span, "trunk connected");
                        tokio::select! {
                            closed = &mut closed => match closed {
                                Ok(end) => format!("trunk closed: {end}"),
                                Err(_) => return,
                            },
                            () = self.retired(link, &mut wanted) => {
                                info!(parent: &span, "closing trunk that left the view");
                                self.edge.close_link(link);
                                let _ = closed.await;
                                // The view may contain the node again.
                                continue;
                            }
                        }
                    }
                    Err(error) => format!("cannot watch the socket of a trunk: {error}"),
                },
                Ok(Err(error)) => {
                    METRICS.open_failures.of(OpenFailure::Refused).inc();
                    format!("cannot open a trunk: {error}")
                }
                Err(_) => {
                    METRICS.open_failures.of(OpenFailure::Timeout).inc();
                    "timeout while opening a trunk".to_owned()
                }
            };
            if *wanted.borrow()
                && self.backend.with(|state| !state.is_ending && state.placement.failed(Instant::now(), &node))
            {
                warn!(parent: &span, why, "node suspect, it gets no clients while others are healthy");
            } else if why != reported {
                info!(parent: &span, why, "no trunk to the node");
            }
            reported = why;
            if started.elapsed() >= STABLE_AFTER {
                backoff.reset();
            }
            // A node that announced its drain and closed the trunk is not retried at once.
            let has_left = self.backend.with(|state| state.placement.has_reported_draining(&node));
            let wait = backoff.next_wait(rand::random());
            let pause = if has_left { DRAINED_PAUSE } else { wait };
            tokio::select! {
                () = sleep(pause) => {}
                () = unwanted(&mut wanted) => return,
            }
        }
    }

    /// Returns once the view lacks the target and clients left, or [`RETIRE_TIMEOUT`] has passed.
    async fn retired(&self, link: LinkKey, wanted: &mut watch::Receiver<bool>) {
        loop {
            unwanted(wanted).await;
            tokio::select! {
                () = self.emptied(link) => return,
                () = sleep(RETIRE_TIMEOUT) => return,
                wanted_again = wanted.wait_for(|wanted| *wanted) => if wanted_again.is_err() { return },
            }
            // The node's trunk may be another one by now.
            self.backend.use_link(&self.edge, link);
        }
    }

    /// Returns once the link has no clients and no unwritten frames, and gets no new clients.
    async fn emptied(&self, link: LinkKey) {
        let mut checks = ticks(RETIRE_CHECK_INTERVAL);
        loop {
            checks.tick().await;
            if !self.backend.with(|state| state.placement.uses(link)) && self.edge.is_link_idle(link) {
                return;
            }
        }
    }

    fn rebalance(&self) {
        self.edge.with_core(|core| self.backend.rebalance(Instant::now(), core));
    }
}

/// Returns when the view no longer contains the trunk's target, or the manager has ended.
async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    let _ = wanted.wait_for(|wanted| !*wanted).await;
}

#[cfg(test)]
mod tests;
