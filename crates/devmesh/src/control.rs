//! The control socket `DIR/control.sock`: one JSON line as request, one as answer, then the
//! connection ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::files::MeshFile;
use crate::mesh::Mesh;
use crate::roster::ServerStatus;

/// Maximum size of a request line.
const MAX_REQUEST_BYTES: u64 = 4096;
/// Answer timeout, longer than a drain and a start together.
const ANSWER_WITHIN: Duration = Duration::from_secs(180);
/// Maximum time until a connection sends its request.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of concurrent requests. Further ones wait to be accepted.
const MAX_REQUESTS: usize = 64;

/// An operation on a running mesh, as on the command line and on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Act {
    /// Start or drain nodes until there are so many.
    Scale {
        /// How many nodes.
        nodes: u32,
    },
    /// Kill a server at once (SIGKILL).
    Kill {
        /// node-N, balancer-N or redis.
        id: String,
    },
    /// Stop a server in good order (SIGTERM).
    Drain {
        /// node-N, balancer-N or redis.
        id: String,
    },
    /// Drain a server and start it again under the same name and ports.
    Restart {
        /// node-N, balancer-N or redis.
        id: String,
    },
    /// Start a node in the place of another, which drains.
    Replace {
        /// node-N.
        id: String,
    },
    /// Stop a server where it stands (SIGSTOP).
    Pause {
        /// node-N, balancer-N or redis.
        id: String,
    },
    /// Let a paused server go on (SIGCONT).
    Resume {
        /// node-N, balancer-N or redis.
        id: String,
    },
    /// Show all servers.
    Status,
    /// Stop the mesh.
    Down,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Answer {
    Done,
    Status { servers: Vec<ServerStatus> },
    Failed { message: String },
}

/// A client of a mesh that runs in another process.
#[derive(Clone, Debug)]
pub struct Control {
    dir: PathBuf,
}

impl Control {
    /// Connects to the mesh that runs in `dir`.
    ///
    /// # Errors
    /// When no mesh runs there.
    pub async fn connect(dir: impl AsRef<Path>) -> Result<Self> {
        let control = Self { dir: dir.as_ref().to_owned() };
        control.open().await?;
        Ok(control)
    }

    /// Returns the running servers.
    ///
    /// # Errors
    /// When the mesh has ended.
    pub fn state(&self) -> Result<MeshFile> {
        MeshFile::read(&self.dir)
    }

    /// Executes the [`Mesh`] method of the same name and returns once it is done. Only the answer
    /// to [`Act::Status`] contains servers.
    ///
    /// # Errors
    /// As that method, or when the mesh has ended.
    pub async fn act(&self, act: &Act) -> Result<Vec<ServerStatus>> {
        match self.ask(act).await? {
            Answer::Status { servers } => Ok(servers),
            Answer::Done => Ok(Vec::new()),
            Answer::Failed { message } => bail!(message),
        }
    }

    async fn open(&self) -> Result<UnixStream> {
        let missing = || format!("no mesh runs in {0}: start one with `mesh-dev up --dir {0}`", self.dir.display());
        UnixStream::connect(control_socket(&self.dir)).await.with_context(missing)
    }

    async fn ask(&self, act: &Act) -> Result<Answer> {
        let mut socket = self.open().await?;
        let mut line = serde_json::to_vec(act)?;
        line.push(b'\n');
        socket.write_all(&line).await.context("the mesh does not take requests")?;
        let mut answer = Vec::new();
        timeout(ANSWER_WITHIN, socket.read_to_end(&mut answer))
            .await
            .context("the mesh does not answer")?
            .context("the mesh went away before it answered")?;
        if answer.is_empty() {
            bail!("the mesh went away before it answered");
        }
        serde_json::from_slice(&answer).context("the mesh's answer is not understood")
    }
}

/// Serves the control socket of `mesh` until a `down` request, which stops all servers.
///
/// # Errors
/// When the socket cannot be opened.
pub async fn serve_control(mesh: Arc<Mesh>) -> Result<()> {
    let path = control_socket(mesh.folder().root());
    mesh.folder().remove(&path)?;
    let listener = UnixListener::bind(&path).with_context(|| format!("cannot open {} (long path?)", path.display()))?;
    let (ended, mut has_ended) = mpsc::channel(1);
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if requests.len() < MAX_REQUESTS => match accepted {
                Ok((socket, _)) => {
                    requests.spawn(serve_one(socket, Arc::clone(&mesh), ended.clone()));
                }
                Err(error) => {
                    warn!("control socket: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = requests.join_next(), if !requests.is_empty() => {}
            _ = has_ended.recv() => break,
        }
    }
    mesh.folder().remove(&path)
}

async fn serve_one(socket: UnixStream, mesh: Arc<Mesh>, ended: mpsc::Sender<()>) {
    let (read, mut write) = socket.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(MAX_REQUEST_BYTES));
    if !matches!(timeout(ASK_WITHIN, reader.read_line(&mut line)).await, Ok(Ok(1..))) {
        return;
    }
    let (answer, is_down) = match serde_json::from_str::<Act>(&line) {
        Ok(act) => {
            if act != Act::Status {
                info!(?act, "asked");
            }
            (perform(&mesh, &act).await, act == Act::Down)
        }
        Err(error) => (Answer::Failed { message: format!("not a request: {error}") }, false),
    };
    if let Ok(mut answer) = serde_json::to_vec(&answer) {
        answer.push(b'\n');
        // The client may have disconnected. The operation is done anyway.
        let _ = write.write_all(&answer).await;
    }
    if is_down {
        let _ = ended.send(()).await;
    }
}

async fn perform(mesh: &Mesh, act: &Act) -> Answer {
    let outcome = match act {
        Act::Status => return Answer::Status { servers: mesh.status() },
        Act::Scale { nodes } => mesh.scale(*nodes).await,
        Act::Kill { id } => mesh.kill(id).await,
        Act::Drain { id } => mesh.drain(id).await,
        Act::Restart { id } => mesh.restart(id).await,
        Act::Replace { id } => mesh.replace(id).await,
        Act::Pause { id } => mesh.pause(id).await,
        Act::Resume { id } => mesh.resume(id).await,
        Act::Down => mesh.down().await,
    };
    match outcome {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed { message: format!("{error:#}") },
    }
}

/// Returns the path of the control socket of the mesh in this folder.
#[must_use]
pub fn control_socket(dir: &Path) -> PathBuf {
    dir.join("control.sock")
}
