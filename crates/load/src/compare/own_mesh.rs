//! The mesh of a comparison.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions};
use tokio::time::{sleep, timeout};

use crate::metrics::{fetch, http, sum};

/// Accepts all clients at once.
const ACCEPT_RATE: &str = "--accept-rate=1000000";
/// Maximum time until each server has seen every node.
const VIEW_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts a mesh in `dir`, which ends when the value is dropped.
pub(super) async fn start(dir: &Path, binaries: &Binaries, nodes: u32, balancers: u32) -> Result<Mesh> {
    let mut options = MeshOptions::new(dir, binaries.clone());
    (options.nodes, options.balancers) = (nodes, balancers);
    options.node_args = vec![ACCEPT_RATE.to_owned()];
    options.balancer_args = vec![ACCEPT_RATE.to_owned()];
    let mesh = Mesh::start(options).await.context("cannot start the nodes")?;
    let state = mesh.state();
    let all_agree = timeout(VIEW_TIMEOUT, agree(&state)).await;
    all_agree.with_context(|| format!("not every server has seen all nodes after {VIEW_TIMEOUT:?}"))??;
    Ok(mesh)
}

/// Waits until every server has seen every node, so that clients connect to their owners.
async fn agree(mesh: &MeshFile) -> Result<()> {
    let http = http()?;
    let wanted = mesh.nodes.len() as u64;
    let balancers = mesh.balancers.iter().map(|balancer| &balancer.internal);
    for internal in mesh.nodes.iter().map(|node| &node.internal).chain(balancers) {
        while sum(&fetch(&http, internal).await.unwrap_or_default(), "signaling_view_nodes") != wanted {
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}
