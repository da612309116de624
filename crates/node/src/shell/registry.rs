//! The registry's share of a node's work: who comes and goes is written in batches, off the way of clients; the node says that it
//! lives; and what a dead node left behind is cleaned up by the node that owns its name.

use std::time::Duration;

use signaling_metrics::Publish;
use signaling_protocol::NodeId;
use signaling_rooms::{RedisRegistry, Sweep};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::Node;
use super::metrics::METRICS;
use signaling_core::node::NodeCore;

/// How long arrivals gather.
const GATHER: Duration = Duration::from_millis(200);
/// Most of one batch.
const BATCH: usize = 1_000;
/// How often a node says that it lives, and looks for those that do not.
const BEAT: Duration = Duration::from_secs(5);
/// How often a node begins to renew its entries. They live for 24 hours.
const RENEW: Duration = Duration::from_secs(6 * 3600);
/// A node outside the view that is silent for so long is dead.
const SILENT: Duration = Duration::from_secs(12);
/// One in the view may only be cut off from the registry: it gets more time.
const SILENT_IN_VIEW: Duration = Duration::from_secs(45);

/// Writes arrivals and departures. Ends when dropped.
pub async fn register(node: Node, own: NodeId, registry: RedisRegistry) {
    let mut ticks = interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pause_until = Instant::now();
    loop {
        let tick = ticks.tick().await;
        if tick < pause_until {
            continue;
        }
        loop {
            let batch = node.with_core(|core| core.take_registrations(BATCH));
            if batch.is_empty() {
                break;
            }
            if let Err(error) = registry.register(&own, &batch).await {
                debug!(%error, "the registry does not hear of arrivals now");
                node.with_core(|core| core.return_registrations(batch));
                pause_until = Instant::now() + Duration::from_secs(1);
                break;
            }
        }
    }
}

/// Says that this node lives, and cleans up behind those that do not. Ends when dropped.
pub async fn watch_over(node: Node, own: NodeId, registry: RedisRegistry) {
    // Cleaning up behind a large node takes longer than this one may be silent.
    tokio::join!(beat(&node, &own, &registry), clean(&node, &own, &registry));
}

async fn beat(node: &Node, own: &NodeId, registry: &RedisRegistry) {
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut renewal = Renewal { at: Sweep::default(), next: Instant::now() + RENEW };
    loop {
        ticks.tick().await;
        let beat = registry.beat(own).await;
        METRICS.store_up.set(beat.is_ok().into());
        METRICS.store_connections_lost.publish(registry.lost_connections());
        match beat {
            Ok(true) => renewal.step(own, registry).await,
            Ok(false) => node.with_core(NodeCore::register_all_again),
            Err(error) => debug!(%error, "the registry does not answer"),
        }
    }
}

/// Renews all entries of a node every [`RENEW`], some at each heartbeat.
struct Renewal {
    at: Sweep,
    next: Instant,
}

impl Renewal {
    async fn step(&mut self, own: &NodeId, registry: &RedisRegistry) {
        if self.at == Sweep::default() {
            if Instant::now() < self.next {
                return;
            }
            self.next = Instant::now() + RENEW;
        }
        match registry.renew(own, self.at).await {
            Ok(at) => self.at = at,
            Err(error) => debug!(%error, "registry entries not renewed, trying again"),
        }
    }
}

async fn clean(node: &Node, own: &NodeId, registry: &RedisRegistry) {
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for dead in registry.silent_nodes(SILENT).await.unwrap_or_default() {
            let (known, owned) = node.with_core(|core| (core.is_in_view(&dead), core.owns_name(dead.as_str())));
            if owned && dead != *own {
                clean_up(registry, &dead, if known { SILENT_IN_VIEW } else { SILENT }).await;
            }
        }
    }
}

async fn clean_up(registry: &RedisRegistry, dead: &NodeId, silent: Duration) {
    let start = Instant::now();
    match registry.clean(dead, silent).await {
        Ok(Some(cleaned)) => {
            info!(%dead, removed = cleaned.removed, elsewhere = cleaned.kept, took = ?start.elapsed(),
                  "the registry is rid of a dead node");
        }
        // It has come back, or somebody else is at it.
        Ok(None) => {}
        Err(error) => warn!(%dead, %error, "cannot clean up behind a dead node now"),
    }
}
