//! Steps of the operations. One watcher task per process reports its exit to the roster. Every
//! change of the roster rewrites the affected files.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info};

use super::Mesh;
use crate::files::{DiscoveredNode, MeshFile};
use crate::folder::Folder;
use crate::id::ServerId;
use crate::launch::{self, CommandLine, redis_url};
use crate::ports::{Addresses, Ports};
use crate::process::{Process, is_stopped};
use crate::ready::until_ready;
use crate::roster::{Ending, Exit, Roster, Run};

/// Maximum time of a drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time until SIGSTOP reaches all threads.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct State {
    pub(super) roster: Roster,
    ports: Ports,
    pub(super) process_by_id: BTreeMap<ServerId, Process>,
    pub(super) stage: Stage,
}

/// Stage of a mesh, and its files that are kept up to date.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The discovery file.
    #[default]
    Starting,
    /// Both files.
    Running,
    /// None any more.
    Ending,
}

/// Contents of the discovery file and `mesh.json`. `None` while a file is not kept up to date.
type Files = (Option<Vec<DiscoveredNode>>, Option<MeshFile>);

impl Mesh {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and rewrites the affected files under the lock, so that files never go
    /// back in time.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.files(&self.folder);
        let result = change(&mut state);
        if let Err(error) = self.write_changed(&before, state.files(&self.folder)) {
            error!("{error:#}");
        }
        drop(state);
        self.changed.send_replace(());
        result
    }

    fn write_changed(&self, before: &Files, after: Files) -> Result<()> {
        if let Some(discovery) = after.0.filter(|after| before.0.as_ref() != Some(after)) {
            self.folder.write_json(&self.folder.discovery_file(), &discovery)?;
        }
        if let Some(mesh) = after.1.filter(|after| before.1.as_ref() != Some(after)) {
            self.folder.write_json(&self.folder.mesh_file(), &mesh)?;
        }
        Ok(())
    }

    pub(super) async fn start_all(self: &Arc<Self>, ids: impl IntoIterator<Item = ServerId>) -> Result<()> {
        let start = |id| {
            let mesh = Arc::clone(self);
            async move { mesh.start_server(id, None).await }
        };
        ids.into_iter().map(start).collect::<JoinSet<_>>().join_all().await.into_iter().collect()
    }

    /// Starts a server. The node that it replaces drains once the new one is ready.
    pub(super) async fn start_server(self: &Arc<Self>, id: ServerId, replaced: Option<ServerId>) -> Result<()> {
        let (run, addresses, line) = self.begin_start(id)?;
        let started = Process::start(&line, &self.folder.log_file(id), self.setpriv.as_deref());
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                let ending = Ending { clean: false, text: "did not start".to_owned() };
                self.change(|state| state.roster.exited(id, run, ending));
                return Err(error);
            }
        };
        let mut ending = process.ending();
        let pid = process.pid();
        tokio::spawn(watch_exit(Arc::downgrade(self), id, run, process.ending()));
        let is_wanted = self.change(|state| {
            state.roster.started(id, run, pid);
            state.process_by_id.insert(id, process);
            state.stage != Stage::Ending
        });
        if !is_wanted {
            self.lock().process_by_id.remove(&id);
            bail!("the mesh is ending");
        }
        let limit = self.options.ready_within;
        let problem = tokio::select! {
            () = until_ready(id, addresses, &self.http) => None,
            _ = ending.wait_for(Option::is_some) => Some("it ended during its start".to_owned()),
            () = sleep(limit) => Some(format!("it was not ready within {limit:?}")),
        };
        let Some(problem) = problem else {
            if self.change(|state| state.roster.ready(id, run, replaced)) {
                debug!(%id, pid, "ready");
                return Ok(());
            }
            bail!("{id} was stopped while it started");
        };
        if self.change(|state| state.roster.begin_kill(id)).is_ok() {
            let _ = self.signal(id, Signal::SIGKILL);
        }
        let (log, tail) = (self.folder.log_file(id), self.folder.log_tail(id));
        bail!("{id} did not start: {problem}. Its log {} ends with:\n  {tail}", log.display());
    }

    fn begin_start(&self, id: ServerId) -> Result<(Run, Addresses, CommandLine)> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let public = match id {
            ServerId::Balancer(0) => self.options.listen,
            ServerId::Balancer(_) => SocketAddr::new(self.options.listen.ip(), 0),
            _ => any,
        };
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.stage == Stage::Ending {
            bail!("the mesh is ending");
        }
        let addresses = state.ports.of(id, public)?;
        let line = match id {
            ServerId::Redis => launch::redis(addresses, &self.folder)?,
            _ => {
                let redis =
                    if self.options.redis { Some(redis_url(state.ports.of(ServerId::Redis, any)?)) } else { None };
                launch::server(id, addresses, &self.folder, &self.options, redis.as_deref())
            }
        };
        let run = state.roster.begin_start(id, addresses)?;
        Ok((run, addresses, line))
    }

    pub(super) async fn drain_server(&self, id: ServerId) -> Result<()> {
        let run = self.change(|state| state.roster.begin_drain(id))?;
        self.end_drain(id, run).await
    }

    pub(super) async fn end_drain(&self, id: ServerId, run: Run) -> Result<()> {
        self.signal(id, Signal::SIGTERM)?;
        let ending = self.ended(id, run, DRAIN_TIMEOUT).await?;
        if !ending.clean {
            bail!("{id} {} instead of draining; see {}", ending.text, self.folder.log_file(id).display());
        }
        Ok(())
    }

    pub(super) fn signal(&self, id: ServerId, signal: Signal) -> Result<()> {
        match self.lock().process_by_id.get(&id) {
            Some(process) => process.signal(signal).with_context(|| format!("cannot signal {id}")),
            None => bail!("{id} has no process"),
        }
    }

    /// Waits until all threads of a server have stopped after SIGSTOP.
    pub(super) async fn stopped(&self, id: ServerId) -> Result<()> {
        let pid =
            self.lock().process_by_id.get(&id).map(Process::pid).with_context(|| format!("{id} has no process"))?;
        let waiting = async {
            while !is_stopped(pid) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PAUSE_TIMEOUT, waiting).await.with_context(|| format!("{id} does not stop within {PAUSE_TIMEOUT:?}"))
    }

    pub(super) async fn ended(&self, id: ServerId, run: Run, within: Duration) -> Result<Ending> {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(ending) = self.lock().roster.ending(id, run) {
                    return ending.clone();
                }
                // The sender belongs to `self` and lives as long.
                let _ = changed.changed().await;
            }
        };
        timeout(within, waiting).await.with_context(|| format!("{id} has not stopped within {within:?}"))
    }

    pub(super) fn begin_stop(&self) -> Vec<(ServerId, watch::Receiver<Option<Ending>>)> {
        let mut state = self.lock();
        state.stage = Stage::Ending;
        state.roster.begin_stop();
        for process in state.process_by_id.values() {
            // A paused process must continue to receive the signal. An ended one needs no signal.
            let _ = process.signal(Signal::SIGTERM).and_then(|()| process.signal(Signal::SIGCONT));
        }
        state.process_by_id.iter().map(|(id, process)| (*id, process.ending())).collect()
    }

    pub(super) fn remove_files(&self) -> Result<()> {
        self.folder.remove(&self.folder.mesh_file())?;
        self.folder.remove(&self.folder.discovery_file())
    }
}

impl State {
    /// Returns the content of `mesh.json`.
    pub(super) fn mesh_file(&self, folder: &Folder) -> MeshFile {
        let token = folder.admin_token_file().display().to_string();
        MeshFile { admin_token_file: Some(token), ..self.roster.mesh_file() }
    }

    fn files(&self, folder: &Folder) -> Files {
        let discovery = (self.stage != Stage::Ending).then(|| self.roster.discovery());
        (discovery, (self.stage == Stage::Running).then(|| self.mesh_file(folder)))
    }
}

async fn watch_exit(mesh: Weak<Mesh>, id: ServerId, run: Run, mut ending: watch::Receiver<Option<Ending>>) {
    let ending = match ending.wait_for(Option::is_some).await {
        Ok(ending) => ending.clone(),
        Err(_) => None,
    };
    let (Some(ending), Some(running)) = (ending, mesh.upgrade()) else { return };
    match running.change(|state| state.roster.exited(id, run, ending.clone())) {
        Exit::Drained => return,
        Exit::Killed => info!(%id, "killed"),
        Exit::Unexpected => {
            error!(%id, log = %running.folder.log_file(id).display(), "server ended unexpectedly: {}", ending.text);
        }
    }
    let notice = running.options.notice;
    drop(running);
    sleep(notice).await;
    if let Some(running) = mesh.upgrade() {
        running.change(|state| state.roster.noticed(id, run));
    }
}
