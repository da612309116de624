//! The control socket `DIR/control.sock`: one JSON line as request, one as answer, then the
//! connection ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

use crate::mesh::Mesh;
use crate::state::ServerStatus;

const SOCKET: &str = "control.sock";
const MAX_REQUEST_BYTES: u64 = 4096;
/// Answer timeout, longer than a drain and a start together.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

/// An operation on a running mesh, as on the command line and on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Act {
    /// Start or drain nodes to reach a number of nodes
    Scale {
        /// Number of nodes
        nodes: u32,
    },
    /// Kill a server (SIGKILL)
    Kill(Target),
    /// Drain and stop a server (SIGTERM)
    Drain(Target),
    /// Drain a server unless it is down, and start it again with the same id and ports
    Restart(Target),
    /// Start another node and drain this one
    Replace(Target),
    /// Pause a server (SIGSTOP)
    Pause(Target),
    /// Resume a paused server (SIGCONT)
    Resume(Target),
    /// Reset the connections of the lane from one node to another, as a broken network does
    CutLane {
        /// Node that sends, or `any` for one drawn at random
        from: String,
        /// Node that receives, or `any`
        to: String,
    },
    /// Show all servers
    Status,
    /// Stop the mesh
    Down,
}

/// The server of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct Target {
    /// node-N or balancer-N
    pub id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Answer {
    Done,
    Status { servers: Vec<ServerStatus> },
    Failed { message: String },
}

impl Act {
    /// Has the mesh in `dir`, of another process, execute the [`Mesh`] method of the same name, and
    /// returns once it is done. The list of servers is empty unless this is [`Act::Status`].
    ///
    /// # Errors
    /// As the method; also if no mesh serves the control socket, such as one that still starts. If
    /// the mesh ends, or does not answer within 180 s, the operation goes on.
    pub async fn request(&self, dir: &Path) -> Result<Vec<ServerStatus>> {
        let missing = || format!("no mesh runs in {0}; start one by `mesh-dev up --dir {0}`", dir.display());
        let mut socket = UnixStream::connect(control_socket(dir)).await.with_context(missing)?;
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        socket.write_all(&line).await.context("cannot send a request to the mesh")?;
        let mut answer = Vec::new();
        timeout(ANSWER_TIMEOUT, socket.read_to_end(&mut answer))
            .await
            .with_context(|| format!("no answer of the mesh within {ANSWER_TIMEOUT:?}"))?
            .context("cannot read the answer of the mesh")?;
        match serde_json::from_slice(&answer).context("the mesh ended without a valid answer")? {
            Answer::Status { servers } => Ok(servers),
            Answer::Done => Ok(Vec::new()),
            Answer::Failed { message } => bail!(message),
        }
    }
}

/// Serves the control socket of `mesh` until a `down` request, which stops all servers, was
/// answered. Operations run at the same time.
///
/// # Errors
/// If the socket cannot be opened, accept a connection, or be removed.
pub async fn serve_control(mesh: Arc<Mesh>) -> Result<()> {
    let path = control_socket(&mesh.folder.root);
    mesh.folder.remove(SOCKET)?;
    let listener = UnixListener::bind(&path)
        .with_context(|| format!("cannot open {}; use a shorter --dir if the path is too long", path.display()))?;
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (socket, _) = accepted.context("cannot accept a control connection")?;
                requests.spawn(serve_one(socket, Arc::clone(&mesh)));
            }
            is_down = requests.join_next(), if !requests.is_empty() => {
                if matches!(is_down, Some(Ok(true))) {
                    break;
                }
            }
        }
    }
    mesh.folder.remove(SOCKET)
}

/// Answers a request. Returns `true` if it was `down`.
async fn serve_one(socket: UnixStream, mesh: Arc<Mesh>) -> bool {
    let (read, mut write) = socket.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(MAX_REQUEST_BYTES));
    if !matches!(reader.read_line(&mut line).await, Ok(1..)) {
        return false;
    }
    let act = serde_json::from_str::<Act>(&line);
    let answer = match &act {
        Ok(act) => perform(&mesh, act).await,
        Err(error) => Answer::Failed { message: format!("malformed request: {error}") },
    };
    if let Ok(mut answer) = serde_json::to_vec(&answer) {
        answer.push(b'\n');
        // The client may have disconnected. The operation is done anyway.
        let _ = write.write_all(&answer).await;
    }
    act.is_ok_and(|act| act == Act::Down)
}

async fn perform(mesh: &Arc<Mesh>, act: &Act) -> Answer {
    if *act != Act::Status {
        info!(?act, "request received");
    }
    let outcome = match act {
        Act::Status => return Answer::Status { servers: mesh.status() },
        Act::Scale { nodes } => mesh.scale(*nodes).await,
        Act::Kill(server) => mesh.kill(&server.id).await,
        Act::Drain(server) => mesh.drain(&server.id).await,
        Act::Restart(server) => mesh.restart(&server.id).await,
        Act::Replace(server) => mesh.replace(&server.id).await,
        Act::Pause(server) => mesh.pause(&server.id).await,
        Act::Resume(server) => mesh.resume(&server.id).await,
        Act::CutLane { from, to } => mesh.cut_lane(from, to),
        Act::Down => mesh.down().await,
    };
    match outcome {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed { message: format!("{error:#}") },
    }
}

/// Returns the path of the control socket of the mesh in this folder.
pub fn control_socket(dir: &Path) -> PathBuf {
    dir.join(SOCKET)
}
