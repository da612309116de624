//! Waits for the end of a drain, for `run`. Reports progress on standard error.

use std::time::Duration;

use signaling_admin::servers::{Nodes, Server};
use tokio::time::{Instant, sleep};

use crate::Ending;
use crate::api::{Api, Failure};

/// First interval of checks. It doubles, since a node counts its clients for each check.
const FIRST_CHECK_INTERVAL: Duration = Duration::from_millis(250);
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Waits until a server has no clients: [`Ending::Done`], also if the view no longer has the node.
/// Returns [`Ending::No`] at the first check after `seconds` if clients remain. `node` is a node's
/// name, or `None` for the asked server. Fails if a request fails permanently, or the last one
/// temporarily.
pub(crate) async fn until_empty(api: &Api, node: Option<&str>, seconds: u64) -> Result<Ending, Failure> {
    let start = Instant::now();
    let (mut reported, mut pause) = (None, FIRST_CHECK_INTERVAL);
    loop {
        let is_over = start.elapsed() >= Duration::from_secs(seconds);
        match clients_of(api, node).await {
            Ok(0) => {
                eprintln!("mesh-ctl: no clients any more after {:.1} s", start.elapsed().as_secs_f64());
                return Ok(Ending::Done);
            }
            Ok(clients) if is_over => {
                eprintln!("mesh-ctl: still {clients} clients after {seconds} s");
                return Ok(Ending::No);
            }
            Ok(clients) => {
                if reported.replace(clients) != Some(clients) {
                    eprintln!("mesh-ctl: {clients} clients left");
                }
            }
            Err(failure) if is_over || !failure.is_temporary() => return Err(failure),
            Err(failure) => eprintln!("mesh-ctl: {failure}; retrying"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_CHECK_INTERVAL);
    }
}

async fn clients_of(api: &Api, node: Option<&str>) -> Result<usize, Failure> {
    let Some(name) = node else {
        return Ok(api.get::<Server>(&["server"]).await?.clients);
    };
    let nodes: Nodes = api.get(&["nodes"]).await?;
    // A node that left has no clients.
    let Some(node) = nodes.nodes.into_iter().find(|node| node.node == name) else { return Ok(0) };
    let silent = || Failure::Unreachable { server: name.to_owned(), why: "the asked node cannot reach it".to_owned() };
    Ok(node.server.ok_or_else(silent)?.clients)
}
