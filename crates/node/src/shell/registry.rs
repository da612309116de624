//! The node's work for the registry in Redis; `run` starts its tasks. Writes attachments and
//! detachments in batches, outside the clients' path. Sends a heartbeat, and removes the entries of
//! dead nodes whose names this node owns.

use std::time::Duration;

use signaling_metrics::Publish;
use signaling_protocol::NodeId;
use signaling_rooms::{RedisRegistry, Sweep};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::Node;
use super::metrics::METRICS;
use signaling_core::node::NodeCore;

/// Interval of writes.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum entries of one batch.
const MAX_BATCH: usize = 1_000;
/// Interval of heartbeats, and of checks for dead nodes.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Interval at which a node renews all its entries, which expire after 24 hours.
const RENEW_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// A node outside the view without a heartbeat for this time is dead.
const SILENT: Duration = Duration::from_secs(12);
/// The same limit for a node in the view, which may only have lost the registry.
const SILENT_IN_VIEW: Duration = Duration::from_secs(45);

/// Writes attachments and detachments to the registry, and retries after 1 s. Never returns.
pub async fn register(node: Node, own: NodeId, registry: RedisRegistry) {
    let mut ticks = interval(WRITE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pause_until = Instant::now();
    loop {
        let tick = ticks.tick().await;
        if tick < pause_until {
            continue;
        }
        loop {
            let batch = node.with_core(|core| core.take_registrations(MAX_BATCH));
            if batch.is_empty() {
                break;
            }
            if let Err(error) = registry.register(&own, &batch).await {
                debug!(%error, "registry not written");
                node.with_core(|core| core.return_registrations(batch));
                pause_until = Instant::now() + Duration::from_secs(1);
                break;
            }
        }
    }
}

/// Sends heartbeats and cleans up after dead nodes, every 5 s. Never returns.
pub async fn watch_over(node: Node, own: NodeId, registry: RedisRegistry) {
    // In parallel, since the cleanup of a large node takes longer than the heartbeat may be late.
    tokio::join!(beat(&node, &own, &registry), clean(&node, &own, &registry));
}

async fn beat(node: &Node, own: &NodeId, registry: &RedisRegistry) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut renewal = Renewal { at: Sweep::default(), next: Instant::now() + RENEW_INTERVAL };
    loop {
        ticks.tick().await;
        let beat = registry.record_heartbeat(own).await;
        METRICS.store_up.set(beat.is_ok().into());
        METRICS.store_connections_lost.publish(registry.lost_connections());
        match beat {
            Ok(true) => renewal.step(own, registry).await,
            Ok(false) => node.with_core(NodeCore::register_all_again),
            Err(error) => debug!(%error, "registry does not answer"),
        }
    }
}

/// Renews all entries of a node every [`RENEW_INTERVAL`], some at each heartbeat.
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
            self.next = Instant::now() + RENEW_INTERVAL;
        }
        match registry.renew_entries(own, self.at).await {
            Ok(at) => self.at = at,
            Err(error) => debug!(%error, "registry entries not renewed"),
        }
    }
}

async fn clean(node: &Node, own: &NodeId, registry: &RedisRegistry) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for dead in registry.silent_nodes(SILENT).await.unwrap_or_default() {
            let (known, owned) =
                node.with_core(|core| (core.view().get(dead.as_str()).is_some(), core.owns_name(dead.as_str())));
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
                  "registry entries of a dead node removed");
        }
        // The node came back, or another node is cleaning up.
        Ok(None) => {}
        Err(error) => warn!(%dead, %error, "cannot remove registry entries of a dead node"),
    }
}
