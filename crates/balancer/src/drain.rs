//! Drain and undrain of a balancer by operators.

use std::time::Duration;

use signaling_edge::shell::{Edge, send_away};
use signaling_server::DrainSwitch;
use tracing::info;

/// Close reason for clients of a draining balancer.
pub(crate) const GOING_AWAY: &str = "this balancer is going away";

/// Drains and undrains on operator requests. Never returns.
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
