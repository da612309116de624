//! Operations on a mesh. An operation checks the roster, acts on processes, and waits until the
//! roster shows its end (`supervision`).

mod supervision;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use self::supervision::{Stage, State};
use crate::binaries::find_in_path;
use crate::cut::cut_lane;
use crate::files::MeshFile;
use crate::folder::Folder;
use crate::id::ServerId;
use crate::options::MeshOptions;
use crate::roster::{Phase, ServerStatus};

/// Maximum time in which servers stop by themselves in `down`.
const DOWN_GRACE: Duration = Duration::from_secs(3);
/// Maximum time until the kernel has ended a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A running local mesh. Dropping it kills its servers.
///
/// Operations on different servers may run at the same time. An operation that does not fit the
/// state of its server is refused.
pub struct Mesh {
    options: MeshOptions,
    folder: Folder,
    http: reqwest::Client,
    setpriv: Option<PathBuf>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Mesh {
    /// Starts a mesh. Returns once every server is ready. Removes the mesh file of an earlier run.
    ///
    /// # Errors
    /// When another mesh runs in the folder, a port is taken, or a server does not come up. No
    /// server is left running then.
    pub async fn start(options: MeshOptions) -> Result<Arc<Self>> {
        let folder = Folder::open(&options.dir)?;
        folder.remove(&folder.mesh_file())?;
        folder.write_secrets()?;
        folder.write_json(&folder.discovery_file(), &serde_json::json!([]))?;
        let setpriv = find_in_path("setpriv");
        if setpriv.is_none() {
            warn!("no setpriv (package util-linux) in PATH; servers outlive this process if it is killed");
        }
        let http = reqwest::Client::builder().no_proxy().build().context("cannot create an HTTP client")?;
        let (state, changed) = (Mutex::default(), watch::Sender::default());
        let mesh = Arc::new(Self { options, folder, http, setpriv, state, changed });
        if mesh.options.redis {
            mesh.start_all([ServerId::Redis]).await?;
        }
        mesh.start_all((0..mesh.options.nodes).map(ServerId::Node)).await?;
        mesh.start_all((0..mesh.options.balancers).map(ServerId::Balancer)).await?;
        mesh.change(|state| state.stage = Stage::Running);
        Ok(mesh)
    }

    /// Returns the running servers, as in `mesh.json`.
    pub fn state(&self) -> MeshFile {
        self.lock().mesh_file(&self.folder)
    }

    /// Returns all servers that this mesh has had, with their states.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.lock().roster.status()
    }

    /// Starts or drains nodes until there are `nodes` of them: the lowest free numbers, the
    /// highest used ones.
    ///
    /// # Errors
    /// When a node does not come up or does not drain. The other nodes are scaled nevertheless.
    pub async fn scale(self: &Arc<Self>, nodes: u32) -> Result<()> {
        let plan = self.lock().roster.plan_scale(nodes);
        self.start_all(plan.start).await?;
        let drain = |id| {
            let mesh = Arc::clone(self);
            async move { mesh.drain_server(id).await }
        };
        plan.drain.into_iter().map(drain).collect::<JoinSet<_>>().join_all().await.into_iter().collect()
    }

    /// Kills a server (SIGKILL). Returns once it has left the discovery file, which is
    /// [`MeshOptions::notice`] later.
    ///
    /// # Errors
    /// When there is no such server, or it does not run.
    pub async fn kill(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        let run = self.change(|state| state.roster.begin_kill(id))?;
        self.signal(id, Signal::SIGKILL)?;
        self.ended(id, run, self.options.notice + KILL_TIMEOUT).await?;
        Ok(())
    }

    /// Stops a server (SIGTERM) and waits for its end. The discovery file marks a node as draining
    /// at once.
    ///
    /// # Errors
    /// When there is no such server, it is not ready, does not stop in time, or ends with an
    /// error.
    pub async fn drain(&self, id: &str) -> Result<()> {
        self.drain_server(id.parse()?).await
    }

    /// Drains a server and starts it again under the same name and ports. A server that is down is
    /// only started.
    ///
    /// # Errors
    /// As [`Mesh::drain`], and when it does not come up again.
    pub async fn restart(self: &Arc<Self>, id: &str) -> Result<()> {
        let id = id.parse()?;
        let is_down = matches!(self.lock().roster.phase(id)?, Phase::Down(_));
        if !is_down {
            self.drain_server(id).await?;
        }
        self.start_server(id, None).await
    }

    /// Starts a node in the place of another. The discovery file adds the new one and marks the
    /// old one as draining in one write. Returns once the old one has stopped.
    ///
    /// # Errors
    /// When there is no such node, it is not ready, the new one does not come up, or the old one
    /// does not drain.
    pub async fn replace(self: &Arc<Self>, id: &str) -> Result<()> {
        let former = id.parse()?;
        let newcomer = self.lock().roster.plan_replacement(former)?;
        self.start_server(newcomer, Some(former)).await?;
        let run = self.lock().roster.draining(former)?;
        self.end_drain(former, run).await
    }

    /// Pauses a server (SIGSTOP). The files do not show the pause.
    ///
    /// # Errors
    /// When there is no such server, or it is not ready.
    pub async fn pause(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.change(|state| state.roster.pause(id))?;
        self.signal(id, Signal::SIGSTOP)?;
        self.stopped(id).await
    }

    /// Resumes a paused server (SIGCONT).
    ///
    /// # Errors
    /// When there is no such server, or it is not paused.
    pub async fn resume(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.change(|state| state.roster.resume(id))?;
        self.signal(id, Signal::SIGCONT)
    }

    /// Resets the connection of the lane between two nodes. `any` draws a node at random.
    ///
    /// # Errors
    /// When there is no such lane, or the system gives no access to its socket.
    pub fn cut_lane(&self, from: &str, to: &str) -> Result<()> {
        cut_lane(&self.state().nodes, from, to)
    }

    /// Stops all servers and kills servers that take longer than 3 s. Removes the mesh's files
    /// except logs and secrets.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub async fn down(&self) -> Result<()> {
        let mut endings = self.begin_stop();
        let deadline = Instant::now() + DOWN_GRACE;
        for (id, ending) in &mut endings {
            if timeout_at(deadline, ending.wait_for(Option::is_some)).await.is_err() {
                warn!(%id, "server did not stop in time, killing it");
                let _ = self.signal(*id, Signal::SIGKILL);
            }
        }
        for (_, mut ending) in endings {
            let _ = timeout(KILL_TIMEOUT, ending.wait_for(Option::is_some)).await;
        }
        self.remove_files()
    }

    /// Returns the folder, without symbolic links.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.lock().process_by_id.clear();
        if let Err(error) = self.remove_files() {
            warn!("{error:#}");
        }
    }
}
