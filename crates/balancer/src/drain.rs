//! Drain and undrain of a balancer by operators. `run` starts it.

use signaling_edge::shell::{Edge, drain_clients};
use signaling_server::DrainSwitch;
use tracing::info;

use crate::config::Config;

/// Close reason that clients of a draining balancer receive.
const GOING_AWAY: &str = "this balancer is draining";

/// Closes all clients over `--drain-ms`, those of dialects at the end of `--dialect-drain-ms`.
pub(crate) async fn drain(edge: &Edge, config: &Config) {
    let window = config.common.drain;
    drain_clients(edge, GOING_AWAY, window, config.dialect_drain.saturating_sub(window)).await;
}

/// Drains and undrains on requests of `switch`. Never returns.
pub(crate) async fn follow_drain_switch(switch: &DrainSwitch, edge: &Edge, config: &Config) {
    loop {
        switch.turned(true).await;
        info!(clients = edge.clients(), "drain started by operator");
        edge.drain();
        tokio::select! {
            () = switch.turned(false) => {}
            () = drain(edge, config) => {
                info!(clients = edge.clients(), "drained, out of service");
                switch.turned(false).await;
            }
        }
        edge.undrain();
        info!("undrained, accepts clients");
    }
}
