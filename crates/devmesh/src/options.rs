use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::binaries::Binaries;

/// Settings of a mesh at its start.
#[derive(Clone, Debug)]
pub struct MeshOptions {
    /// The mesh's folder, created if missing. It holds one mesh at a time.
    pub dir: PathBuf,
    /// The programs to run.
    pub binaries: Binaries,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of balancers.
    pub balancers: u32,
    /// `true` starts a Redis, in which the nodes keep rooms.
    pub redis: bool,
    /// Client address of the first balancer. Port 0 takes any free one, as the other balancers do.
    pub listen: SocketAddr,
    /// Time from a server's sudden death to its removal from the discovery file.
    pub notice: Duration,
    /// Further flags for each node.
    pub node_args: Vec<String>,
    /// Further flags for each balancer.
    pub balancer_args: Vec<String>,
    /// Maximum time from a server's start until `/readyz` succeeds.
    pub ready_within: Duration,
}

impl MeshOptions {
    /// Returns options for three nodes and a balancer on a free port, without Redis.
    pub fn new(dir: impl Into<PathBuf>, binaries: Binaries) -> Self {
        Self {
            dir: dir.into(),
            binaries,
            nodes: 3,
            balancers: 1,
            redis: false,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            notice: Duration::from_secs(1),
            node_args: Vec::new(),
            balancer_args: Vec::new(),
            ready_within: Duration::from_secs(15),
        }
    }
}
