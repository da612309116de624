//! Drain of an edge, for `run` of both servers: clients leave one by one, so that the servers of
//! their next connections are not overloaded.

use std::time::Duration;

use rand::RngExt as _;
use signaling_protocol::{CloseCode, limits};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Edge;
use signaling_core::edge::{ClientKey, EdgeCore};

/// Time for close frames and outcomes after the last client's close.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of checks whether dialect clients are left.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Closes the sockets of all present clients, spread evenly over `window` less 1 s. The code is
/// 1001, for clients of Pixel Streaming 1012. Native clients first get a `goodbye` with `reason`.
/// Clients of dialects stay for `dialect_wait`, then are closed over another `window`. Returns 1 s
/// after the last close, and without clients at once. Later clients stay, so the caller first has
/// the edge refuse them ([`Edge::drain`]).
pub async fn drain_clients(edge: &Edge, reason: &str, window: Duration, dialect_wait: Duration) {
    let clients = |have_dialect: bool| -> Vec<ClientKey> {
        edge.with_core(|core| core.clients().into_iter().filter(|key| core.has_dialect(*key) == have_dialect).collect())
    };
    let dialects = async {
        let end = Instant::now() + dialect_wait;
        while Instant::now() < end && !clients(true).is_empty() {
            sleep_until(end.min(Instant::now() + CHECK_INTERVAL)).await;
        }
        send_goodbyes(edge, clients(true), reason, window).await;
    };
    tokio::join!(send_goodbyes(edge, clients(false), reason, window), dialects);
}

async fn send_goodbyes(edge: &Edge, clients: Vec<ClientKey>, reason: &str, window: Duration) {
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

/// Sends one client a `goodbye` with a random reconnect delay up to 1 s, and closes its socket by
/// `code`. Clients of dialects get only the close frame. One that waits for a node is refused.
pub fn send_goodbye(core: &mut EdgeCore, client: ClientKey, code: CloseCode, reason: &str) {
    let wait = rand::rng().random_range(Duration::ZERO..=limits::MAX_GOODBYE_DELAY);
    core.send_away(client, code, reason, wait.as_millis() as u64);
}
