use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::binaries::Binaries;

/// What a mesh is to be when it starts.
#[derive(Clone, Debug)]
pub struct MeshOptions {
    /// The mesh's folder; made where it is missing. One mesh at a time.
    pub dir: PathBuf,
    /// The programs to run.
    pub binaries: Binaries,
    /// How many nodes.
    pub nodes: u32,
    /// How many balancers.
    pub balancers: u32,
    /// Start a Redis and let the nodes keep rooms in it.
    pub redis: bool,
    /// Where the first balancer listens for clients; port 0 takes any free one, as the other balancers do.
    pub listen: SocketAddr,
    /// How long after a server's sudden death the discovery file still names it.
    pub notice: Duration,
    /// Further flags for each node.
    pub node_args: Vec<String>,
    /// Further flags for each balancer.
    pub balancer_args: Vec<String>,
    /// How long a server may take from its start until it answers `/readyz`.
    pub ready_within: Duration,
    /// How long a server may take to drain.
    pub drain_within: Duration,
}

impl MeshOptions {
    /// Three nodes and a balancer on a free port, without Redis.
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
            drain_within: Duration::from_secs(60),
        }
    }
}
