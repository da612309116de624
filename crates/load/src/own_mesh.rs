//! A mesh that the harness starts for itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions};
use tokio::time::{sleep, timeout};

use crate::metrics::{fetch, http, sum};

/// New clients a second that the servers let in: none is to wait.
const ACCEPT_RATE: &str = "--accept-rate=1000000";
/// How long the servers may take until each has seen every node.
const AGREE_WITHIN: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Starts it in `dir`, with further flags for its balancers. It ends when the value is dropped.
pub(crate) async fn start(
    dir: &Path,
    binaries: &Binaries,
    (nodes, balancers): (u32, u32),
    balancer_args: &[String],
) -> Result<Mesh> {
    let mut options = MeshOptions::new(dir, binaries.clone());
    (options.nodes, options.balancers) = (nodes, balancers);
    options.node_args = vec![ACCEPT_RATE.to_owned()];
    options.balancer_args = [&[ACCEPT_RATE.to_owned()], balancer_args].concat();
    let mesh = Mesh::start(options).await.context("cannot start the nodes")?;
    let state = mesh.state();
    let all_agree = timeout(AGREE_WITHIN, agree(&state)).await;
    all_agree.with_context(|| format!("not every server has seen all nodes after {AGREE_WITHIN:?}"))??;
    Ok(mesh)
}

/// Waits until every server has seen every node: until then clients would be sent to others than their owners.
async fn agree(mesh: &MeshFile) -> Result<()> {
    let http = http()?;
    let wanted = mesh.nodes.len() as u64;
    let balancers = mesh.balancers.iter().map(|balancer| &balancer.internal);
    for internal in mesh.nodes.iter().map(|node| &node.internal).chain(balancers) {
        while sum(&fetch(&http, internal).await.unwrap_or_default(), "signaling_view_nodes") != wanted {
            sleep(BETWEEN_LOOKS).await;
        }
    }
    Ok(())
}
