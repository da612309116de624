//! A local mesh of the real binaries as child processes, for trying things out and for tests.
//!
//! [`Mesh`] starts `signaling-node` and `signaling-balancer`, tells them about each other through a discovery
//! file as an orchestrator would, and can scale, drain, kill, restart, replace and pause them; where it is asked to it starts a
//! `redis-server` too, which keeps nothing on disk, and tells the nodes to keep rooms in it. The binary `mesh-dev up` is a
//! [`Mesh`] with a control socket; [`Control`] acts on one that runs in another process.
//!
//! It is for one machine only. It restarts nothing by itself: a server that dies stays down and is reported.
//!
//! | module | what it does |
//! |---|---|
//! | `roster` | pure: which servers there are, what may happen to each, what the files say of them |
//! | `mesh` | what can be done to a mesh |
//! | `supervisor` | how: roster, ports, processes and files brought together |
//! | `process`, `spawner` | child processes that end with us |
//! | `ports` | ports that belong to a server's id for as long as the mesh runs |
//! | `launch` | pure: the command line of each server |
//! | `ready` | waits for a started server to answer |
//! | `folder`, `files` | what stands in the mesh's folder |
//! | `control` | the control socket: requests, answers, both ends |
//! | `leftovers` | ends what a killed `mesh-dev` left behind |
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use signaling_devmesh::{Binaries, Mesh, MeshOptions};
//!
//! let mesh = Mesh::start(MeshOptions::new("/tmp/mesh", Binaries::locate(None)?)).await?;
//! println!("connect to {}", mesh.state().balancers[0].url);
//! mesh.scale(5).await?;
//! mesh.kill("node-1").await?;
//! mesh.restart("node-1").await?;
//! mesh.down().await
//! # }
//! ```

mod binaries;
mod control;
mod files;
mod folder;
mod id;
mod launch;
mod leftovers;
mod mesh;
mod options;
mod ports;
mod process;
mod ready;
mod roster;
mod spawner;
mod supervisor;

pub use binaries::{Binaries, find_in_path};
pub use control::{Act, Control, control_socket, serve_control};
pub use files::{BalancerEntry, DiscoveredNode, MeshFile, NodeEntry, Server};
pub use id::ServerId;
pub use mesh::Mesh;
pub use options::MeshOptions;
pub use ports::hold_port;
pub use roster::ServerStatus;
