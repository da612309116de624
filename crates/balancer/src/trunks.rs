//! The opening end of trunks: one to each node of the view, opened again whenever it is lost.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use signaling_discovery::View;
use signaling_edge::core::{ClientKey, EdgeCore, LinkKey, Refusal, Wants};
use signaling_edge::shell::{Backend, Edge};
use signaling_protocol::NodeId;
use signaling_server::trunk::{self, Terminal};
use signaling_server::{Health, Secret, Wake};
use slotmap::SecondaryMap;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, debug, info, info_span, warn};

use crate::placement::Placement;

const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// A trunk that lasted so long starts the backoff anew.
const LASTED: Duration = Duration::from_secs(10);

/// Where clients go, and who carries for them.
#[derive(Clone)]
pub struct Trunks(Rc<RefCell<State>>);

struct State {
    placement: Placement,
    wakes: SecondaryMap<LinkKey, Rc<Wake>>,
}

impl Trunks {
    /// No trunk yet.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        let placement = Placement::new(hash_seed);
        Self(Rc::new(RefCell::new(State { placement, wakes: SecondaryMap::new() })))
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.borrow_mut())
    }

    /// Moves clients to where they belong now, and finds places for those without one.
    fn rearrange(&self, edge: &Edge) {
        let now = Instant::now();
        edge.with_core(|core| {
            let (moves, homeless) = self.with(|state| (state.placement.moves(core), state.placement.take_homeless()));
            if !moves.is_empty() {
                info!(moves = moves.len(), "clients move to their new owners");
            }
            for (client, owner) in moves {
                core.release(client, owner.as_str());
            }
            homeless.into_iter().for_each(|client| self.find_place(now, core, client));
        });
    }

    fn find_place(&self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        let Some(key) = core.key_hash(client) else { return };
        match self.with(|state| state.placement.choose(key)) {
            Some(link) => core.attach(now, client, link),
            None => {
                core.refuse(client, no_node());
                if core.key_hash(client).is_some() {
                    self.with(|state| state.placement.keep_homeless(client));
                }
            }
        }
    }
}

fn no_node() -> Refusal {
    Refusal {
        status: 503,
        code: "no_node".to_owned(),
        message: "no signaling node can be reached; try again".to_owned(),
        retry_after_ms: Some(1000),
    }
}

impl Backend for Trunks {
    fn place(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        self.find_place(now, core, client);
    }

    fn jumped(&mut self, _: Instant, core: &mut EdgeCore) {
        self.with(|state| {
            state.placement.forget_links();
            for (link, wake) in &state.wakes {
                core.link_down(link);
                wake.now();
            }
        });
    }

    fn wake(&mut self, core: &EdgeCore) {
        self.with(|state| {
            for (link, wake) in &state.wakes {
                match core.wants(link) {
                    Wants::Nothing => {}
                    Wants::Soon => wake.soon(),
                    Wants::Now => wake.now(),
                }
            }
        });
    }
}

/// Keeps a trunk to each node of each view that comes. Ends when dropped, or when views end.
pub struct Follower {
    /// The edge that the trunks serve.
    pub edge: Edge,
    /// The trunks.
    pub trunks: Trunks,
    /// The mesh secret.
    pub secret: Secret,
    /// This balancer's name.
    pub id: NodeId,
    /// Told whether there is a node for clients.
    pub health: Health,
}

impl Follower {
    /// Follows the views.
    pub async fn follow(self, mut views: watch::Receiver<Arc<View>>) {
        let this = Rc::new(self);
        let mut openers: HashMap<(NodeId, String), AbortHandle> = HashMap::new();
        loop {
            let view = views.borrow_and_update().clone();
            info!(nodes = view.len(), hash = format!("{:016x}", view.hash()), "places by a new view");
            openers.retain(|(node, address), opener| {
                let stays = view.get(node.as_str()).is_some_and(|member| member.address.as_str() == address);
                if !stays {
                    opener.abort();
                }
                stays
            });
            for member in view.members() {
                let target = (member.id.clone(), member.address.to_string());
                openers.entry(target.clone()).or_insert_with(|| {
                    let span = info_span!("trunk", node = %target.0, address = %target.1);
                    tokio::task::spawn_local(Rc::clone(&this).keep_open(target).instrument(span)).abort_handle()
                });
            }
            this.trunks.with(|state| state.placement.set_view(view));
            this.rearranged();
            if views.changed().await.is_err() {
                return;
            }
        }
    }

    async fn keep_open(self: Rc<Self>, (node, address): (NodeId, String)) {
        let mut backoff = FIRST_BACKOFF;
        loop {
            let opened = timeout(OPEN_TIMEOUT, trunk::open(&address, &self.secret, self.id.as_str())).await;
            let started = Instant::now();
            match opened {
                Ok(Ok(socket)) => {
                    let link = LinkGuard::new(&self, &node);
                    info!("connected");
                    let end = trunk::carry(socket, &link.wake, &link).await;
                    warn!(%end, "a trunk has ended");
                }
                Ok(Err(error)) if backoff == FIRST_BACKOFF => warn!(%error, "cannot open a trunk"),
                Ok(Err(error)) => debug!(%error, "cannot open a trunk yet"),
                Err(_) => debug!("opening a trunk took too long"),
            }
            if started.elapsed() >= LASTED {
                backoff = FIRST_BACKOFF;
            }
            sleep(rand::rng().random_range(Duration::ZERO..=backoff)).await;
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    fn rearranged(&self) {
        self.trunks.rearrange(&self.edge);
        let usable = self.trunks.with(|state| state.placement.usable());
        self.health.set_ready(usable > 0, "no signaling node can be reached");
    }
}

/// A trunk that is up. Its end, however it comes, frees its clients for other nodes.
struct LinkGuard<'a> {
    follower: &'a Follower,
    node: NodeId,
    link: LinkKey,
    wake: Rc<Wake>,
}

impl<'a> LinkGuard<'a> {
    fn new(follower: &'a Follower, node: &NodeId) -> Self {
        let wake = Rc::new(Wake::default());
        let link = follower.edge.with_core(EdgeCore::link_up);
        follower.trunks.with(|state| {
            state.wakes.insert(link, Rc::clone(&wake));
            state.placement.link_up(node.clone(), link);
        });
        follower.rearranged();
        Self { follower, node: node.clone(), link, wake }
    }
}

impl Drop for LinkGuard<'_> {
    fn drop(&mut self) {
        self.follower.trunks.with(|state| {
            state.wakes.remove(self.link);
            state.placement.link_down(&self.node);
        });
        self.follower.edge.with_core(|core| core.link_down(self.link));
        self.follower.rearranged();
    }
}

impl Terminal for LinkGuard<'_> {
    fn take_in(&self, frames: &[u8]) -> Result<(), String> {
        let from_node = self.follower.edge.with_core(|core| {
            if !core.has_link(self.link) {
                return Err("it was given up here".to_owned());
            }
            core.link_frames(Instant::now(), self.link, frames).map_err(|error| error.to_string())
        })?;
        if from_node.draining {
            info!("the node drains: its clients move");
            self.follower.trunks.with(|state| state.placement.said_draining(self.node.clone()));
            self.follower.rearranged();
        }
        Ok(())
    }

    fn give_out(&self) -> Option<Vec<u8>> {
        self.follower.edge.take_batch(self.link)
    }
}
