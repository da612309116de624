//! A local mesh of the real binaries as child processes, for experiments and tests.
//!
//! [`Mesh`] starts `signaling-node` and `signaling-balancer` and connects them through a discovery
//! file, as an orchestrator does. It can scale, drain, kill, restart, replace and pause them, and
//! cut their lanes. The binary `mesh-dev up` is a [`Mesh`] with a control socket. [`Act::request`]
//! acts on a mesh in another process.
//!
//! It runs on one Linux machine and restarts nothing by itself: a dead server stays down and is
//! logged.
//!
//! | module | responsibility |
//! |---|---|
//! | `state` | servers, their allowed operations, and the content of the files |
//! | `mesh` | operations on a mesh: they change the state and signal processes |
//! | `process` | child processes that end with this process, also beside a mesh |
//! | `ports` | ports of a server, fixed while the mesh runs |
//! | `launch` | pure: the command line of each server |
//! | `folder`, `files` | content of the mesh's folder |
//! | `cut` | resets of connections between nodes |
//! | `control` | the control socket: requests, answers, both ends |
//! | `binaries`, `options`, `id` | paths of programs; settings; names of servers |
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
mod cut;
mod files;
mod folder;
mod id;
mod launch;
mod mesh;
mod options;
mod ports;
mod process;
mod state;

pub use binaries::{Binaries, find_in_path};
pub use control::{Act, Target, control_socket, serve_control};
pub use files::{DiscoveredNode, MeshFile, Server, TOKEN_AUDIENCE, TOKEN_ISSUER};
pub use mesh::Mesh;
pub use options::MeshOptions;
pub use ports::hold_port;
pub use process::Service;
pub use state::ServerStatus;
