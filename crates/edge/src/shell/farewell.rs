//! The end of an edge: clients are sent to others one by one, so that those are not overrun.

use std::time::Duration;

use rand::RngExt as _;
use signaling_protocol::CloseCode;
use tokio::time::sleep;

use super::Edge;

/// Most that a client is told to wait before it comes back.
const COME_BACK_WITHIN_MS: u64 = 1_000;
/// How long last words and last fates may take once all are told.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Sends every client away with a `goodbye`, spread evenly over `window`; ends once last words have had their time.
pub async fn send_away(edge: &Edge, reason: &str, window: Duration) {
    let clients = edge.with_core(|core| core.clients());
    let Ok(count @ 1..) = u32::try_from(clients.len()) else { return };
    let window = window.saturating_sub(AFTERMATH);
    let mut ahead = Duration::ZERO;
    for client in clients {
        let retry_after_ms = rand::rng().random_range(0..=COME_BACK_WITHIN_MS);
        edge.with_core(|core| core.send_away(client, CloseCode::GOING_AWAY, reason, retry_after_ms));
        ahead += window / count;
        if ahead >= Duration::from_millis(5) {
            sleep(std::mem::take(&mut ahead)).await;
        }
    }
    sleep(AFTERMATH).await;
}
