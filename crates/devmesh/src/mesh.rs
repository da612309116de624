//! Operations on a mesh. An operation checks the state, acts on processes, and waits for its end.
//! One watcher task per process reports its exit.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{error, info, warn};

use crate::binaries::find_in_path;
use crate::cut::cut_lane;
use crate::files::MeshFile;
use crate::folder::{DISCOVERY_FILE, Folder, MESH_FILE, log_tail, random_seed};
use crate::id::ServerId;
use crate::options::MeshOptions;
use crate::process::{EXITED, Process};
use crate::state::{Phase, ServerStatus, Stage, State};

/// Maximum time until all servers of a mesh end by themselves in [`Mesh::down`].
const DOWN_GRACE: Duration = Duration::from_secs(3);
/// Maximum time until the kernel has ended a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time until SIGSTOP reaches all threads.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
const TRY_INTERVAL: Duration = Duration::from_millis(20);
const TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// A running local mesh. Dropping it kills its servers. Operations on different servers may run at
/// the same time. An operation that does not fit the state of its server is refused.
pub struct Mesh {
    options: MeshOptions,
    hash_seed: NonZeroU64,
    pub(crate) folder: Folder,
    http: reqwest::Client,
    state: Mutex<State>,
}

impl Mesh {
    /// Starts a mesh. Returns once every server is ready. Replaces the files and secrets of an
    /// earlier run.
    ///
    /// # Errors
    /// If another mesh runs in the folder, a program, port or file is unavailable, or a server is
    /// not ready within [`MeshOptions::ready_within`]. No server is left running then.
    pub async fn start(options: MeshOptions) -> Result<Arc<Self>> {
        let folder = Folder::open(&options.dir)?;
        folder.remove(MESH_FILE)?;
        let hash_seed = options.hash_seed.map_or_else(random_seed, Ok)?;
        folder.write_secrets(hash_seed)?;
        folder.write_json(DISCOVERY_FILE, &serde_json::json!([]))?;
        if find_in_path("setpriv").is_none() {
            warn!("no setpriv (package util-linux) in PATH; servers outlive this process if it is killed");
        }
        let http = reqwest::Client::builder().no_proxy().build().context("cannot create an HTTP client")?;
        let mesh = Arc::new(Self { options, hash_seed, folder, http, state: Mutex::default() });
        mesh.start_all((0..mesh.options.nodes).map(ServerId::Node)).await?;
        mesh.start_all((0..mesh.options.balancers).map(ServerId::Balancer)).await?;
        mesh.change(|state| state.stage = Stage::Running);
        Ok(mesh)
    }

    /// Returns the running servers, except starting ones, as in `mesh.json`.
    pub fn state(&self) -> MeshFile {
        self.lock().mesh_file(&self.folder, &self.options)
    }

    /// Returns the seed of the rendezvous hash of all servers whose flags name no other file.
    pub fn hash_seed(&self) -> u64 {
        self.hash_seed.get()
    }

    /// Returns all servers that this mesh has had, with their states.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.lock().status()
    }

    /// Starts or drains nodes until `nodes` are starting, ready or paused. Starts the lowest free
    /// numbers, or drains the highest of these nodes.
    ///
    /// # Errors
    /// When a node does not come up or does not drain, as one that is starting or paused. The other
    /// nodes are scaled nevertheless.
    pub async fn scale(self: &Arc<Self>, nodes: u32) -> Result<()> {
        let (start, drain) = self.lock().plan_scale(nodes);
        self.start_all(start).await?;
        let drain_one = |id| {
            let mesh = Arc::clone(self);
            async move { mesh.drain_server(id).await }
        };
        drain.into_iter().map(drain_one).collect::<JoinSet<_>>().join_all().await.into_iter().collect()
    }

    /// Kills a server (SIGKILL), also while it starts, is paused or drains. Returns once it has
    /// ended and left the discovery file: a listed node [`MeshOptions::removal_delay`] after its
    /// end.
    ///
    /// # Errors
    /// If there is no such server, it does not run, a kill has begun, or it has not left 10 s after
    /// that delay.
    pub async fn kill(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.change(|state| state.begin_kill(id))?;
        self.end(id, Signal::SIGKILL, self.options.removal_delay + KILL_TIMEOUT).await?;
        Ok(())
    }

    /// Stops a server (SIGTERM) and waits for its end. The discovery file marks a node as draining
    /// at once, and drops it at its end.
    ///
    /// # Errors
    /// If there is no such server, it is not ready, does not stop within 60 s (it goes on
    /// draining), or ends with an error.
    pub async fn drain(&self, id: &str) -> Result<()> {
        self.drain_server(id.parse()?).await
    }

    /// Drains a server and starts it again under the same name and ports. A server that is down is
    /// only started. Returns once it is ready.
    ///
    /// # Errors
    /// As [`Mesh::drain`], and when it does not come up again.
    pub async fn restart(self: &Arc<Self>, id: &str) -> Result<()> {
        let id = id.parse()?;
        let is_down = self.lock().is_down(id)?;
        if !is_down {
            self.drain_server(id).await?;
        }
        self.start_server(id, None).await
    }

    /// Starts a node, with the lowest free number, in the place of another. The discovery file adds
    /// the new one and marks the old one as draining in one write. Returns once the old one has
    /// stopped.
    ///
    /// # Errors
    /// When there is no such node, it is not ready, the new one does not come up, or the old one
    /// does not drain.
    pub async fn replace(self: &Arc<Self>, id: &str) -> Result<()> {
        let former = id.parse()?;
        let newcomer = self.lock().plan_replacement(former)?;
        self.start_server(newcomer, Some(former)).await?;
        self.end_drain(former).await
    }

    /// Pauses a server (SIGSTOP). Returns once all its threads have stopped. The files do not show
    /// the pause.
    ///
    /// # Errors
    /// When there is no such server, it is not ready, or a thread still runs after 5 s.
    pub async fn pause(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.change(|state| state.change_phase("pause", id, &Phase::Ready, Phase::Paused))?;
        let process = self.signal(id, Signal::SIGSTOP)?;
        let stopped = until(|| process.is_stopped());
        timeout(PAUSE_TIMEOUT, stopped).await.with_context(|| format!("{id} does not stop within {PAUSE_TIMEOUT:?}"))
    }

    /// Resumes a paused server (SIGCONT).
    ///
    /// # Errors
    /// When there is no such server, or it is not paused.
    pub async fn resume(&self, id: &str) -> Result<()> {
        let id = id.parse()?;
        self.change(|state| state.change_phase("resume", id, &Phase::Paused, Phase::Ready))?;
        self.signal(id, Signal::SIGCONT).map(drop)
    }

    /// Resets the connections of the lane from one node to another, which nodes open again. `any`
    /// draws a node at random.
    ///
    /// # Errors
    /// When there is no such lane, a process has ended, or the system gives no access to sockets.
    pub fn cut_lane(&self, from: &str, to: &str) -> Result<()> {
        cut_lane(&self.state().nodes, from, to)
    }

    /// Stops all servers and kills servers that still run after 3 s. Removes `mesh.json` and
    /// `nodes.json`. The mesh starts no server any more.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub async fn down(&self) -> Result<()> {
        let processes = self.lock().begin_stop();
        for (_, process) in &processes {
            // A paused process must continue to receive the signal. An ended one needs no signal.
            let _ = process.signal(Signal::SIGTERM).and_then(|()| process.signal(Signal::SIGCONT));
        }
        let deadline = Instant::now() + DOWN_GRACE;
        for (id, process) in &processes {
            if timeout_at(deadline, process.ended()).await.is_err() {
                warn!(%id, "server did not stop in time, killing it");
                let _ = process.signal(Signal::SIGKILL);
                let _ = timeout(KILL_TIMEOUT, process.ended()).await;
            }
        }
        self.remove_files()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and rewrites the affected files under the lock, so that files never go
    /// back in time. Other files stay as they are, even if a test has edited them.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = self.files(&state);
        let result = change(&mut state);
        for (name, content) in self.files(&state).iter().filter(|file| !before.contains(file)) {
            if let Err(error) = self.folder.write_json(name, content) {
                error!("{error:#}");
            }
        }
        result
    }

    /// Returns the files that are kept up to date, with their content.
    fn files(&self, state: &State) -> Vec<(&'static str, serde_json::Value)> {
        let discovery = || (DISCOVERY_FILE, serde_json::json!(state.discovery()));
        let mesh = || (MESH_FILE, serde_json::json!(state.mesh_file(&self.folder, &self.options)));
        match state.stage {
            Stage::Starting => vec![discovery()],
            Stage::Running => vec![discovery(), mesh()],
            Stage::Ending => Vec::new(),
        }
    }

    fn remove_files(&self) -> Result<()> {
        self.folder.remove(MESH_FILE)?;
        self.folder.remove(DISCOVERY_FILE)
    }

    async fn start_all(self: &Arc<Self>, ids: impl IntoIterator<Item = ServerId>) -> Result<()> {
        let start = |id| {
            let mesh = Arc::clone(self);
            async move { mesh.start_server(id, None).await }
        };
        ids.into_iter().map(start).collect::<JoinSet<_>>().join_all().await.into_iter().collect()
    }

    /// Starts a server. The node that it replaces drains once the new one is ready.
    async fn start_server(self: &Arc<Self>, id: ServerId, replaced: Option<ServerId>) -> Result<()> {
        let (process, internal) = self.change(|state| state.launch(id, &self.folder, &self.options))?;
        tokio::spawn(watch_exit(Arc::downgrade(self), id, process.clone()));
        let limit = self.options.ready_within;
        let problem = tokio::select! {
            () = until_ready(internal, &self.http) => return self.change(|state| state.ready(id, self.options.zones, replaced)),
            _ = process.ended() => "it ended during its start".to_owned(),
            () = sleep(limit) => format!("it was not ready within {limit:?}"),
        };
        if self.change(|state| state.begin_kill(id)).is_ok() {
            let _ = process.signal(Signal::SIGKILL);
        }
        let log = self.folder.log_file(id);
        bail!("{id} did not start: {problem}. Its log {} ends with:\n  {}", log.display(), log_tail(&log));
    }

    async fn drain_server(&self, id: ServerId) -> Result<()> {
        self.change(|state| state.begin_drain(id))?;
        self.end_drain(id).await
    }

    async fn end_drain(&self, id: ServerId) -> Result<()> {
        let ending = self.end(id, Signal::SIGTERM, DRAIN_TIMEOUT).await?;
        let log = self.folder.log_file(id);
        ensure!(ending == EXITED, "{id} {ending} instead of draining; see {}", log.display());
        Ok(())
    }

    /// Ends a server by a signal. Returns how it ended, once it has left the discovery file.
    async fn end(&self, id: ServerId, signal: Signal, within: Duration) -> Result<String> {
        let process = self.signal(id, signal)?;
        let left = until(|| self.lock().has_left(id, process.pid));
        timeout(within, left).await.with_context(|| format!("{id} has not stopped within {within:?}"))?;
        Ok(process.ended().await)
    }

    fn signal(&self, id: ServerId, signal: Signal) -> Result<Process> {
        let process = self.lock().process(id)?;
        process.signal(signal).with_context(|| format!("cannot signal {id}"))?;
        Ok(process)
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        for (_, process) in self.lock().begin_stop() {
            // No caller could handle a failure, which usually means that the process has ended.
            let _ = process.signal(Signal::SIGKILL);
        }
        if let Err(error) = self.remove_files() {
            warn!("{error:#}");
        }
    }
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns once the server answers `/readyz` with 200.
async fn until_ready(internal: SocketAddr, http: &reqwest::Client) {
    let readyz = format!("http://{internal}/readyz");
    loop {
        let answer = http.get(&readyz).timeout(TRY_TIMEOUT).send().await;
        if answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK) {
            return;
        }
        sleep(TRY_INTERVAL).await;
    }
}

async fn watch_exit(mesh: Weak<Mesh>, id: ServerId, process: Process) {
    let ending = process.ended().await;
    let Some(running) = mesh.upgrade() else { return };
    match running.change(|state| state.exited(id, ending.clone())) {
        None | Some(Phase::Draining) => return,
        Some(Phase::Killed) => info!(%id, "killed"),
        Some(_) => {
            error!(%id, log = %running.folder.log_file(id).display(), "server ended unexpectedly: {ending}");
        }
    }
    let removal_delay = running.options.removal_delay;
    drop(running);
    sleep(removal_delay).await;
    if let Some(running) = mesh.upgrade() {
        running.change(|state| state.remove_listing(id, process.pid));
    }
}
