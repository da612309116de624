//! Drain of a balancer as an operator says.

use std::time::Duration;

use signaling_edge::shell::{Edge, send_away};
use signaling_server::DrainSwitch;
use tracing::info;

/// What clients are told that have to go.
pub(crate) const GOING_AWAY: &str = "this balancer is going away";

/// Leaves the service and returns to it as an operator says. Never ends by itself.
pub(crate) async fn obey(switch: &DrainSwitch, edge: &Edge, window: Duration) {
    loop {
        switch.turned(true).await;
        info!(clients = edge.clients(), "an operator has it drain");
        edge.drain();
        tokio::select! {
            () = switch.turned(false) => {}
            () = send_away(edge, GOING_AWAY, window) => {
                info!(clients = edge.clients(), "is out of service");
                switch.turned(false).await;
            }
        }
        edge.undrain();
        info!("takes clients again");
    }
}
