//! Drain of an edge, for both servers: clients leave one by one, so that others are not overloaded.

use std::time::Duration;

use rand::RngExt as _;
use signaling_protocol::{CloseCode, limits};
use tokio::time::sleep;

use super::Edge;
use signaling_core::edge::{ClientKey, EdgeCore};

/// Time for close frames and outcomes after the last `goodbye`.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a `goodbye` with `reason` to every client, spread evenly over `window` less 1 s. Returns
/// 1 s after the last one, at once without clients.
pub async fn drain_clients(edge: &Edge, reason: &str, window: Duration) {
    let clients = edge.with_core(|core| core.clients());
    let Ok(count @ 1..) = u32::try_from(clients.len()) else { return };
    let window = window.saturating_sub(OUTCOME_TIMEOUT);
    let mut ahead = Duration::ZERO;
    for client in clients {
        edge.with_core(|core| send_goodbye(core, client, CloseCode::GOING_AWAY, reason));
        ahead += window / count;
        if ahead >= Duration::from_millis(5) {
            sleep(std::mem::take(&mut ahead)).await;
        }
    }
    sleep(OUTCOME_TIMEOUT).await;
}

/// Sends a `goodbye` with a random reconnect delay to one client, and closes its socket by `code`.
pub fn send_goodbye(core: &mut EdgeCore, client: ClientKey, code: CloseCode, reason: &str) {
    let wait = rand::rng().random_range(Duration::ZERO..=limits::COME_BACK_WITHIN);
    core.send_away(client, code, reason, wait.as_millis() as u64);
}
