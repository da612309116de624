//! Drain and undrain of a balancer by operators. `run` starts it.

use std::time::Duration;

use signaling_edge::shell::{Edge, drain_clients};
use signaling_server::DrainSwitch;
use tracing::info;

/// Close reason that clients of a draining balancer receive.
pub(crate) const GOING_AWAY: &str = "this balancer is draining";

/// Drains and undrains on requests of `switch`, closing clients over `window`. Never returns.
pub(crate) async fn obey(switch: &DrainSwitch, edge: &Edge, window: Duration) {
    loop {
        switch.turned(true).await;
        info!(clients = edge.clients(), "drain started by operator");
        edge.drain();
        tokio::select! {
            () = switch.turned(false) => {}
            () = drain_clients(edge, GOING_AWAY, window) => {
                info!(clients = edge.clients(), "drained, out of service");
                switch.turned(false).await;
            }
        }
        edge.undrain();
        info!("undrained, accepts clients");
    }
}
