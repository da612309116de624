//! The opening end of trunks: one to each node of the view, opened again whenever it is lost, and closed in good order when
//! the view drops the node or its address.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use signaling_core::View;
use signaling_core::edge::{EdgeCore, FlushUrgency, FromNode, LinkKey};
use signaling_edge::shell::Edge;
use signaling_protocol::NodeId;
use signaling_server::trunk::{self, OutboundTrunk, TrunkCloseReason};
use signaling_server::{Health, Secrets};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{Span, debug, info, info_span, warn};

use crate::carrier::{TrunkConnection, TrunkEvents};
use crate::metrics::{self, METRICS, OpenFailure};
use crate::trunks::BalancerBackend;

const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// After the end of a trunk to a node that has said it will stop: longer than it takes to stop then.
const AFTER_FAREWELL: Duration = Duration::from_millis(500);
/// A trunk that lasted so long starts the backoff anew.
const LASTED: Duration = Duration::from_secs(10);
/// How often time is let pass for the trust in nodes.
const LOOK: Duration = Duration::from_millis(100);
/// How long clients may take to leave a trunk that the view does not ask for any more: twice what 100,000 handoffs take. Who
/// is left then moves as after a crash.
const RETIRE_WITHIN: Duration = Duration::from_secs(10);
/// How often to look whether they have.
const RETIRE_LOOK: Duration = Duration::from_millis(50);

/// Keeps a trunk to each node of each view that comes. Ends when dropped, or when views end, and all trunks with it.
pub struct TrunkManager {
    /// The edge that the trunks serve.
    pub edge: Edge,
    /// The trunks.
    pub trunks: BalancerBackend,
    /// The mesh's secrets.
    pub secrets: Secrets,
    /// This balancer's name.
    pub id: NodeId,
    /// The port of its internal listener, told to nodes.
    pub internal_port: u16,
    /// Told whether there is a node for clients.
    pub health: Health,
}

/// Where a trunk leads: a node at an address.
type Target = (NodeId, String);

/// The tasks that keep trunks open.
#[derive(Default)]
struct Openers {
    opener_by_target: HashMap<Target, Opener>,
    tasks: JoinSet<()>,
}

struct Opener {
    /// Whether the view asks for this trunk.
    wanted: watch::Sender<bool>,
    task: AbortHandle,
}

impl Openers {
    /// Asks for a trunk to each member, and for no other.
    fn follow(&mut self, follower: &Rc<TrunkManager>, view: &View) {
        while self.tasks.try_join_next().is_some() {}
        self.opener_by_target.retain(|(node, address), opener| {
            let names = view.get(node.as_str()).is_some_and(|member| member.address.as_str() == address);
            opener.wanted.send_replace(names);
            !opener.task.is_finished()
        });
        for member in view.members() {
            let target = (member.id.clone(), member.address.to_string());
            self.opener_by_target.entry(target.clone()).or_insert_with(|| {
                let span = info_span!("trunk", node = %target.0, address = %target.1);
                let (wanted, is_wanted) = watch::channel(true);
                let task = Rc::clone(follower).keep_open(span, target, is_wanted);
                Opener { wanted, task: self.tasks.spawn_local(task) }
            });
        }
    }
}

impl TrunkManager {
    /// Follows the views.
    pub async fn follow(self, mut views: watch::Receiver<Arc<View>>) {
        let this = Rc::new(self);
        let mut openers = Openers::default();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let view = views.borrow_and_update().clone();
            debug!(nodes = view.len(), hash = format!("{:016x}", view.hash()), "places by a new view");
            openers.follow(&this, &view);
            this.trunks.with(|state| state.placement.set_view(Instant::now(), view));
            this.rearranged();
            loop {
                tokio::select! {
                    changed = views.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    _ = looks.tick() => {
                        if this.trunks.with(|state| state.placement.look(Instant::now())) {
                            info!("a node that failed has answered for a while: it gets its clients back");
                            this.rearranged();
                        }
                        this.edge.with_core(|core| this.trunks.look(Instant::now(), core));
                        this.trunks.with(|state| metrics::publish(state));
                    }
                }
            }
        }
    }

    /// The span is named by each event, and not entered: that would cost each frame something.
    async fn keep_open(self: Rc<Self>, span: Span, (node, address): Target, mut wanted: watch::Receiver<bool>) {
        let mut backoff = FIRST_BACKOFF;
        while *wanted.borrow_and_update() && !self.trunks.with(|state| state.ends) {
            let secret = self.secrets.shown();
            let opened = tokio::select! {
                opened = timeout(OPEN_TIMEOUT, trunk::open(&address, &secret, self.id.as_str(), self.internal_port)) => opened,
                () = unwanted(&mut wanted) => return,
            };
            let started = Instant::now();
            match opened {
                Ok(Ok(socket)) => {
                    let link = LinkGuard::new(&self, &span, &node, socket);
                    info!(parent: &span, "connected");
                    let end = tokio::select! {
                        end = link.ended() => end,
                        () = self.retired(&link, &mut wanted) => {
                            info!(parent: &span, "closes a trunk that the view does not ask for any more");
                            link.give_up();
                            link.ended().await;
                            // The view may have named the node again while the trunk was closing.
                            continue;
                        }
                    };
                    match end {
                        TrunkCloseReason::Closed | TrunkCloseReason::Given => {
                            info!(parent: &span, %end, "a trunk has ended")
                        }
                        _ => warn!(parent: &span, %end, "a trunk has ended"),
                    }
                }
                Ok(Err(error)) => {
                    METRICS.open_failures.of(OpenFailure::Refused).inc();
                    if backoff == FIRST_BACKOFF {
                        warn!(parent: &span, %error, "cannot open a trunk");
                    } else {
                        debug!(parent: &span, %error, "cannot open a trunk yet");
                    }
                }
                Err(_) => {
                    METRICS.open_failures.of(OpenFailure::Timeout).inc();
                    debug!(parent: &span, "opening a trunk took too long");
                }
            }
            if *wanted.borrow() && self.trunks.with(|state| state.placement.failed(Instant::now(), &node)) {
                warn!(
                    parent: &span,
                    "the node is suspect: where there are others it gets no clients until it has answered for a while"
                );
            }
            if started.elapsed() >= LASTED {
                backoff = FIRST_BACKOFF;
            }
            // Who has said that it will stop, and has hung up, is not to be asked again at once.
            let has_left = self.trunks.with(|state| state.placement.has_said_draining(&node));
            let pause = if has_left { AFTER_FAREWELL } else { rand::rng().random_range(Duration::ZERO..=backoff) };
            tokio::select! {
                () = sleep(pause) => {}
                () = unwanted(&mut wanted) => return,
            }
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    /// Returns once the view does not ask for the trunk any more, and either its clients have left it or their time is over.
    async fn retired(&self, link: &LinkGuard<'_>, wanted: &mut watch::Receiver<bool>) {
        loop {
            unwanted(wanted).await;
            tokio::select! {
                () = self.emptied(link.link) => return,
                () = sleep(RETIRE_WITHIN) => return,
                wanted_again = wanted.wait_for(|wanted| *wanted) => if wanted_again.is_err() { return },
            }
            // Meanwhile another trunk may have led to the node.
            link.announce();
        }
    }

    /// Returns once nobody is on the link or will be sent there, and all has been said there.
    async fn emptied(&self, link: LinkKey) {
        let mut looks = interval(RETIRE_LOOK);
        loop {
            looks.tick().await;
            let is_used = self.trunks.with(|state| state.placement.uses(link));
            let has_left = self.trunks.with(|state| state.carriers.get(link).is_none_or(TrunkConnection::is_free));
            let is_busy = !has_left
                || self.edge.with_core(|core| core.sessions_on(link) > 0 || core.wants(link) != FlushUrgency::Idle);
            if !is_used && !is_busy {
                return;
            }
        }
    }

    fn rearranged(&self) {
        self.trunks.rearrange(&self.edge);
        let usable = self.trunks.with(|state| state.placement.usable());
        self.health.set_ready(usable > 0, "no signaling node can be reached");
    }
}

/// Returns when the trunk is not asked for any more, or nobody is left to ask.
async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    // An error says that the asker is gone.
    let _ = wanted.wait_for(|wanted| !*wanted).await;
}

/// A trunk that is up. Its end, however it comes, frees its clients for other nodes.
struct LinkGuard<'a> {
    follower: &'a TrunkManager,
    span: &'a Span,
    node: NodeId,
    link: LinkKey,
    told: Rc<TrunkEvents>,
}

impl<'a> LinkGuard<'a> {
    fn new(follower: &'a TrunkManager, span: &'a Span, node: &NodeId, socket: OutboundTrunk) -> Self {
        let link = follower.edge.with_core(EdgeCore::link_up);
        let told = Rc::new(TrunkEvents::default());
        let mut carrier = TrunkConnection::new(socket, Rc::clone(&told));
        if let Err(error) = follower.edge.watch(link, carrier.source()) {
            carrier.end(TrunkCloseReason::Failed(error.into()));
        }
        follower.trunks.with(|state| state.carriers.insert(link, carrier));
        let guard = Self { follower, span, node: node.clone(), link, told };
        guard.announce();
        guard
    }

    /// Heeds what the node says of itself, until the trunk has ended. Says why it did.
    async fn ended(&self) -> TrunkCloseReason {
        loop {
            match self.told.news().await {
                Ok(said) => self.heed(said),
                Err(end) => return end,
            }
        }
    }

    fn heed(&self, said: FromNode) {
        if said.draining {
            info!(parent: self.span, "the node drains: its clients move");
            self.follower.trunks.with(|state| state.placement.said_draining(&self.node, self.link));
            self.follower.rearranged();
        }
        if said.serving {
            info!(parent: self.span, "the node takes clients again");
            self.follower.trunks.with(|state| state.placement.said_serving(&self.node, self.link));
            self.follower.rearranged();
        }
    }

    /// Closes it: what it carries has gone elsewhere.
    fn give_up(&self) {
        // A view that names the node again must not place clients on a link that is closing.
        self.follower.trunks.with(|state| state.placement.link_down(&self.node, self.link));
        self.follower.edge.with_core(|core| core.link_down(self.link));
        self.follower.trunks.with(|state| state.carriers.get_mut(self.link).map(TrunkConnection::give_up));
    }

    /// This is the trunk to the node from now on.
    fn announce(&self) {
        self.follower.trunks.with(|state| state.placement.link_up(Instant::now(), self.node.clone(), self.link));
        self.follower.rearranged();
    }
}

impl Drop for LinkGuard<'_> {
    fn drop(&mut self) {
        self.follower.trunks.with(|state| {
            state.carriers.remove(self.link);
            state.placement.link_down(&self.node, self.link);
        });
        self.follower.edge.with_core(|core| {
            self.follower.trunks.with(|state| state.moves.lost(self.node.as_str(), self.link, &state.placement, core));
            core.link_down(self.link);
        });
        self.follower.rearranged();
    }
}

#[cfg(test)]
mod tests;
