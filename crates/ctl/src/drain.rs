//! Waits for the end of a drain, for `run`. Reports progress on standard error.

use std::time::Duration;

use signaling_admin::servers::{Nodes, Server};
use tokio::time::{Instant, sleep};

use crate::Ending;
use crate::api::{Api, Failure};

/// First interval of checks. It doubles, since a node counts its clients for each check.
const FIRST_CHECK_INTERVAL: Duration = Duration::from_millis(250);
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Waits until a server has no clients: [`Ending::Done`], also if the mesh no longer has it.
/// Returns [`Ending::No`] at the first check after `seconds` if clients remain. `server` is the
/// name of a node or balancer, or `None` for the asked server. Fails if a request fails
/// permanently, or the last one temporarily.
pub(crate) async fn until_empty(api: &Api, server: Option<&str>, seconds: u64) -> Result<Ending, Failure> {
    let start = Instant::now();
    let (mut reported, mut pause) = (None, FIRST_CHECK_INTERVAL);
    loop {
        let is_over = start.elapsed() >= Duration::from_secs(seconds);
        match clients_of(api, server).await {
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

async fn clients_of(api: &Api, server: Option<&str>) -> Result<usize, Failure> {
    let Some(name) = server else {
        return Ok(api.get::<Server>(&["server"]).await?.clients);
    };
    let nodes: Nodes = api.get(&["nodes"]).await?;
    let of_node = nodes.nodes.into_iter().find(|node| node.node == name).map(|node| node.server);
    let of_balancer =
        nodes.balancers.into_iter().find(|balancer| balancer.balancer == name).map(|balancer| balancer.server);
    // A server that left has no clients.
    let Some(server) = of_node.or(of_balancer) else { return Ok(0) };
    let silent = || Failure::Unreachable { server: name.to_owned(), why: "the asked node cannot reach it".to_owned() };
    Ok(server.ok_or_else(silent)?.clients)
}
