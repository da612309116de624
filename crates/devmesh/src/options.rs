//! Settings of a mesh. Those with a flag are arguments of `mesh-dev up`.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::binaries::Binaries;

/// Settings of a mesh at its start, as on the command line of `mesh-dev up`.
#[derive(Clone, Debug, Args)]
pub struct MeshOptions {
    /// The mesh's folder, created if missing. It holds one mesh at a time.
    #[arg(skip)]
    pub dir: PathBuf,
    /// Paths of the programs of nodes and balancers.
    #[arg(skip)]
    pub binaries: Binaries,
    /// Number of nodes
    #[arg(long, default_value_t = 3)]
    pub nodes: u32,
    /// Number of zones, which the nodes are in by turns; 0: the discovery file names none
    #[arg(long, default_value_t = 0)]
    pub zones: u32,
    /// Number of balancers
    #[arg(long, default_value_t = 1)]
    pub balancers: u32,
    /// Require client tokens, signed by HS256 with the secret in DIR/tokens.secret, with `aud` mesh
    /// and `iss` mesh-dev. mesh-load signs its own
    #[arg(long)]
    pub tokens: bool,
    /// Client address of the first balancer; port 0 and further balancers take any free port
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Have all balancers listen on the first one's client address (their --reuse-port)
    #[arg(long)]
    pub share_port: bool,
    /// Seed of the rendezvous hash, above 0. `None`: the mesh makes a random one.
    #[arg(skip)]
    pub hash_seed: Option<NonZeroU64>,
    /// Time that the discovery file still lists a node that was killed or ended by itself; 1 s for
    /// `mesh-dev up`.
    #[arg(skip = REMOVAL_DELAY)]
    pub removal_delay: Duration,
    /// Further flag for each node, such as --node-arg=--hold-ms=5000; repeatable
    #[arg(long = "node-arg", value_name = "FLAG", allow_hyphen_values = true)]
    pub node_args: Vec<String>,
    /// Further flag for each balancer; repeatable
    #[arg(long = "balancer-arg", value_name = "FLAG", allow_hyphen_values = true)]
    pub balancer_args: Vec<String>,
    /// Maximum time from the start of a server until it is ready; 15 s for `mesh-dev up`. Then the
    /// server is killed, and the operation fails.
    #[arg(skip = READY_TIMEOUT)]
    pub ready_within: Duration,
}

const REMOVAL_DELAY: Duration = Duration::from_secs(1);
const READY_TIMEOUT: Duration = Duration::from_secs(15);

impl MeshOptions {
    /// Returns options for three nodes and a balancer on a free port of 127.0.0.1, without zones,
    /// tokens and further flags. `removal_delay` is 1 s, `ready_within` 15 s.
    pub fn new(dir: impl Into<PathBuf>, binaries: Binaries) -> Self {
        Self {
            dir: dir.into(),
            binaries,
            nodes: 3,
            zones: 0,
            balancers: 1,
            tokens: false,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            share_port: false,
            hash_seed: None,
            removal_delay: REMOVAL_DELAY,
            node_args: Vec::new(),
            balancer_args: Vec::new(),
            ready_within: READY_TIMEOUT,
        }
    }
}
