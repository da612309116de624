//! Direct clients of the node's own public listener. Runs an edge in this process, with an
//! in-memory link to the core. The link carries the same frames as a trunk. `run` starts it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use rand::RngExt as _;
use signaling_core::edge::{ClientKey, EdgeCore, LinkKey, Reassignments};
use signaling_edge::{Backend, ClientPort, Edge, EdgeConfig, LinkEvent, send_goodbye, unavailable};
use signaling_membership::View;
use signaling_protocol::CloseCode;
use signaling_server::{FlushSignal, Health};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};

use crate::Node;
use signaling_core::node::TrunkKey;

/// Interval of checks for clients to close.
const REASSIGN_INTERVAL: Duration = Duration::from_millis(20);

/// The node's own edge. Clones share it.
#[derive(Clone)]
pub(crate) struct DirectEdge {
    pub(crate) edge: Edge,
    node: Node,
    link: LinkKey,
    trunk: TrunkKey,
    signal: Rc<FlushSignal>,
}

/// Attaches all clients of this edge to the one link.
struct LocalBackend {
    node: Node,
    link: LinkKey,
}

impl Backend for LocalBackend {
    fn assign_node(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey) {
        // A view is only ever replaced, so no attached client is assigned again.
        if self.node.has_view() {
            core.attach(now, client, self.link);
        } else {
            core.refuse(client, unavailable("no_view", "this node has no view of the mesh; try again"));
        }
    }

    /// Does nothing: the link has no trunk that could report anything.
    fn on_link_event(&mut self, _: Instant, _: &mut EdgeCore, _: LinkKey, _: LinkEvent) {}
}

impl DirectEdge {
    /// Creates an edge for the node's direct clients. Panics outside a Tokio runtime.
    ///
    /// # Errors
    /// If the system refuses to watch sockets.
    pub(crate) fn new(node: &Node, config: &EdgeConfig) -> io::Result<Self> {
        let (mut core, now) = (EdgeCore::new(config.core.clone()), Instant::now());
        let link = core.link_up(now, now);
        let backend = LocalBackend { node: node.clone(), link };
        let edge = Edge::new(core, config, Box::new(backend))?;
        let (trunk, signal) = node.trunk_up(|core| core.local_trunk_up(now));
        edge.set_local_link(link, Rc::clone(&signal));
        Ok(Self { edge, node: node.clone(), link, trunk, signal })
    }

    /// Accepts and serves clients. Never returns. Panics outside a `LocalSet`.
    pub(crate) async fn serve(self, port: ClientPort, health: Health) {
        let pages = Router::new().fallback(signaling_server::http::not_found);
        tokio::join!(
            self.edge.clone().serve(port, health.until_ready(), pages),
            self.edge.clone().sweep(),
            self.edge.clone().renew_certificate(),
            self.transfer_batches()
        );
    }

    /// Closes clients that other nodes own in a new view, so that they reconnect there. Returns
    /// when the sender of views is dropped.
    pub(crate) async fn reassign(self, mut reassignments: Reassignments, mut views: watch::Receiver<Arc<View>>) {
        let mut ticks = interval(REASSIGN_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = views.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let view = views.borrow_and_update().clone();
                    let fraction = || rand::rng().random();
                    let clients = self.edge.with_core(|core| {
                        reassignments.set_view(Instant::now(), &view, core, fraction);
                        reassignments.clients()
                    });
                    info!(clients, "direct clients of other nodes will be closed");
                }
                _ = ticks.tick(), if reassignments.clients() > 0 => self.edge.with_core(|core| {
                    for client in reassignments.take_due(Instant::now()) {
                        send_goodbye(core, client, CloseCode::REASSIGNED, "another node serves you now");
                    }
                }),
            }
        }
    }

    /// Transfers batches between edge and core.
    async fn transfer_batches(&self) {
        loop {
            self.signal.wait().await;
            let up = self.edge.take_batch(self.link).unwrap_or_default();
            self.signal.request_rest(&up);
            if !up.is_empty()
                && let Err(error) = self.node.with_core(|core| core.trunk_frames(Instant::now(), self.trunk, &up))
            {
                error!(%error, "protocol error of the local edge");
            }
            let down = self.node.with_core(|core| core.take_trunk_batch(self.trunk));
            self.signal.request_rest(&down);
            if !down.is_empty()
                && let Err(error) = self.edge.with_core(|core| core.link_frames(Instant::now(), self.link, &down))
            {
                error!(%error, "protocol error of the local node");
            }
        }
    }
}
