use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::Signal;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use crate::files::MeshFile;
use crate::folder::Folder;
use crate::id::ServerId;
use crate::options::MeshOptions;
use crate::roster::{Phase, ServerStatus};
use crate::supervisor::{Supervisor, all_of};

/// Maximum time in which servers stop by themselves in `down`.
const DOWN_GRACE: Duration = Duration::from_secs(3);
/// Maximum time until the kernel has ended a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A running local mesh. Dropping it kills its servers.
///
/// Operations on different servers may run at the same time. An operation that does not fit the
/// state of its server is refused.
pub struct Mesh {
    inner: Arc<Supervisor>,
}

impl Mesh {
    /// Starts a mesh. Returns once every server is ready.
    ///
    /// # Errors
    /// When another mesh runs in the folder, a port is taken, or a server does not come up. No
    /// server is left running then.
    pub async fn start(options: MeshOptions) -> Result<Self> {
        let mesh = Self { inner: Arc::new(Supervisor::new(options)?) };
        let options = &mesh.inner.options;
        if options.redis {
            mesh.inner.start_all([ServerId::Redis]).await?;
        }
        mesh.inner.start_all((0..options.nodes).map(ServerId::Node)).await?;
        mesh.inner.start_all((0..options.balancers).map(ServerId::Balancer)).await?;
        mesh.inner.announce();
        Ok(mesh)
    }

    /// Returns the running servers, as in `mesh.json`.
    pub fn state(&self) -> MeshFile {
        self.inner.lock().mesh_file(&self.inner.folder)
    }

    /// Returns all servers that this mesh has had, with their states.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.inner.lock().roster.status()
    }

    /// Starts or drains nodes until there are `nodes` of them: the lowest free numbers, the
    /// highest used ones.
    ///
    /// # Errors
    /// When a node does not come up or does not drain. The other nodes are scaled nevertheless.
    pub async fn scale(&self, nodes: u32) -> Result<()> {
        let plan = self.inner.lock().roster.plan_scale(nodes);
        self.inner.start_all(plan.start).await?;
        let mut drains = JoinSet::new();
        for id in plan.drain {
            let inner = Arc::clone(&self.inner);
            drains.spawn(async move { inner.drain(id).await });
        }
        all_of(drains).await
    }

    /// Kills a server (SIGKILL). Returns once it has left the discovery file, which is
    /// [`MeshOptions::notice`] later.
    ///
    /// # Errors
    /// When there is no such server, or it does not run.
    pub async fn kill(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        let run = self.inner.change(|state| state.roster.begin_kill(id))?;
        self.inner.signal(id, Signal::SIGKILL)?;
        self.inner.ended(id, run, self.inner.options.notice + KILL_TIMEOUT).await?;
        Ok(())
    }

    /// Stops a server (SIGTERM) and waits for its end. The discovery file marks a node as draining
    /// at once.
    ///
    /// # Errors
    /// When there is no such server, it is not ready, does not stop in time, or ends with an
    /// error.
    pub async fn drain(&self, id: &str) -> Result<()> {
        self.inner.drain(id.parse()?).await
    }

    /// Drains a server and starts it again under the same name and ports. A server that is down is
    /// only started.
    ///
    /// # Errors
    /// As [`Mesh::drain`], and when it does not come up again.
    pub async fn restart(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        let is_down = matches!(self.inner.lock().roster.phase(id)?, Phase::Down(_));
        if !is_down {
            self.inner.drain(id).await?;
        }
        self.inner.start_server(id).await
    }

    /// Starts a node in the place of another. The discovery file adds the new one and marks the
    /// old one as draining in one write. Returns once the old one has stopped.
    ///
    /// # Errors
    /// When there is no such node, it is not ready, the new one does not come up, or the old one
    /// does not drain.
    pub async fn replace(&self, id: &str) -> Result<()> {
        self.inner.replace(id.parse()?).await
    }

    /// Pauses a server (SIGSTOP). The files do not show the pause.
    ///
    /// # Errors
    /// When there is no such server, or it is not ready.
    pub async fn pause(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.inner.change(|state| state.roster.pause(id))?;
        self.inner.signal(id, Signal::SIGSTOP)?;
        self.inner.stopped(id).await
    }

    /// Resumes a paused server (SIGCONT).
    ///
    /// # Errors
    /// When there is no such server, or it is not paused.
    pub async fn resume(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.inner.change(|state| state.roster.resume(id))?;
        self.inner.signal(id, Signal::SIGCONT)
    }

    /// Stops all servers and kills servers that take longer than 3 s. Removes the mesh's files
    /// except logs and secrets.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub async fn down(&self) -> Result<()> {
        let mut endings = self.inner.begin_stop();
        let deadline = Instant::now() + DOWN_GRACE;
        for (id, ending) in &mut endings {
            if timeout_at(deadline, ending.wait_for(Option::is_some)).await.is_err() {
                warn!(%id, "server did not stop in time, killing it");
                let _ = self.inner.signal(*id, Signal::SIGKILL);
            }
        }
        for (_, mut ending) in endings {
            let _ = timeout(KILL_TIMEOUT, ending.wait_for(Option::is_some)).await;
        }
        self.inner.remove_files()
    }

    /// Returns the folder, without symbolic links.
    pub(crate) fn folder(&self) -> &Folder {
        &self.inner.folder
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.inner.kill_all();
        if let Err(error) = self.inner.remove_files() {
            warn!("{error:#}");
        }
    }
}
