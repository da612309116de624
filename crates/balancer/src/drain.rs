//! The end of a balancer: clients are sent to others one by one, so that those are not overrun.

use std::time::Duration;

use rand::RngExt as _;
use signaling_edge::shell::Edge;
use signaling_protocol::CloseCode;
use signaling_server::DrainSwitch;
use tokio::time::sleep;
use tracing::info;

/// Most that a client is told to wait before it comes back.
const COME_BACK_WITHIN_MS: u64 = 1_000;
/// How long last words and last fates may take once all are told.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Leaves the service and returns to it as an operator says. Never ends by itself.
pub(crate) async fn obey(switch: &DrainSwitch, edge: &Edge, window: Duration) {
    loop {
        switch.turned(true).await;
        info!(clients = edge.clients(), "an operator has it drain");
        edge.drain();
        tokio::select! {
            () = switch.turned(false) => {}
            () = send_away(edge, window) => {
                info!(clients = edge.clients(), "is out of service");
                switch.turned(false).await;
            }
        }
        edge.undrain();
        info!("takes clients again");
    }
}

/// Sends every client away, spread evenly over `window`.
pub(crate) async fn send_away(edge: &Edge, window: Duration) {
    let clients = edge.with_core(|core| core.clients());
    let Ok(count) = u32::try_from(clients.len()) else { return };
    let window = window.saturating_sub(AFTERMATH);
    let mut ahead = Duration::ZERO;
    for client in clients {
        let retry_after_ms = rand::rng().random_range(0..=COME_BACK_WITHIN_MS);
        edge.with_core(|core| {
            core.send_away(client, CloseCode::GOING_AWAY, "this balancer is going away", retry_after_ms);
        });
        ahead += window / count;
        if ahead >= Duration::from_millis(5) {
            sleep(std::mem::take(&mut ahead)).await;
        }
    }
    sleep(AFTERMATH).await;
}
