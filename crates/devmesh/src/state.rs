//! The servers of a mesh: their processes, allowed operations, and content of the mesh's files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::mem::replace;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;

use crate::files::{DiscoveredNode, MeshFile, Server};
use crate::folder::{ADMIN_TOKEN_FILE, Folder, TOKEN_KEY_FILE};
use crate::id::ServerId;
use crate::launch::{command_line, public_address};
use crate::options::MeshOptions;
use crate::ports::{Addresses, hold_internal_port, hold_ports};
use crate::process::Process;

/// All servers that this mesh has had, running or not.
#[derive(Default)]
pub(crate) struct State {
    server_by_id: BTreeMap<ServerId, ServerState>,
    pub(crate) stage: Stage,
}

/// Stage of a mesh, which decides the files that are kept up to date.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first servers start. The discovery file is kept up to date.
    #[default]
    Starting,
    /// All first servers have been ready. `mesh.json` is kept up to date too.
    Running,
    /// The end has begun: no server starts, and no file is written any more.
    Ending,
}

/// A server that this mesh has had, and the sockets that hold its ports while it is down.
struct ServerState {
    addresses: Addresses,
    _ports: Vec<TcpSocket>,
    phase: Phase,
    /// Entry in the discovery file; `None` if it has none.
    listing: Option<DiscoveredNode>,
    /// The latest process. `None` before the first one.
    process: Option<Process>,
}

/// Phase of a server, which decides the operations that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Paused,
    Draining,
    /// The kill has begun, and the process has not ended.
    Killed,
    /// The server has no process. The text is how the latest one ended.
    Down(String),
}

/// One line of `mesh-dev status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// `node-N` or `balancer-N`.
    pub id: String,
    /// `starting`, `ready`, `paused`, `draining`, `being killed`, or `down: ` and how it ended.
    pub phase: String,
    /// The process id; `None` if the server is down.
    pub pid: Option<u32>,
    /// `HOST:PORT` of the internal listener, also of a server that is down.
    pub internal: String,
    /// `HOST:PORT` of the client listener, also of a server that is down.
    pub public: String,
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => out.write_str("starting"),
            Self::Ready => out.write_str("ready"),
            Self::Paused => out.write_str("paused"),
            Self::Draining => out.write_str("draining"),
            Self::Killed => out.write_str("being killed"),
            Self::Down(ending) => write!(out, "down: {ending}"),
        }
    }
}

impl Phase {
    pub(crate) fn is_down(&self) -> bool {
        matches!(self, Self::Down(_))
    }
}

impl ServerState {
    fn running_pid(&self) -> Option<u32> {
        self.process.as_ref().filter(|_| !self.phase.is_down()).map(|process| process.pid)
    }
}

impl State {
    /// Starts the process of a new server, or of one that is down. Returns it and the address of
    /// its internal listener. Fails in [`Stage::Ending`], for a server that is not down, and if a
    /// port or the program is unavailable.
    pub(crate) fn launch(
        &mut self,
        id: ServerId,
        folder: &Folder,
        options: &MeshOptions,
    ) -> Result<(Process, SocketAddr)> {
        ensure!(self.stage != Stage::Ending, "the mesh is ending");
        let is_balancer = |id: &ServerId| matches!(id, ServerId::Balancer(_));
        let first = self.server_by_id.iter().find(|(id, _)| is_balancer(id)).map(|(_, first)| first.addresses.public);
        let shared = first.filter(|_| options.share_port && is_balancer(&id));
        if let Entry::Vacant(entry) = self.server_by_id.entry(id) {
            let (addresses, ports) = match shared {
                Some(address) => hold_internal_port(address),
                None => hold_ports(id, public_address(id, options)),
            }?;
            let phase = Phase::Down("did not start".to_owned());
            entry.insert(ServerState { addresses, _ports: ports, phase, listing: None, process: None });
        }
        let server = self.expect("start", id, Phase::is_down)?;
        let line = command_line(id, server.addresses, folder, options);
        let process = Process::start(&line, &folder.log_file(id), "KILL")?;
        server.phase = Phase::Starting;
        server.process = Some(process.clone());
        Ok((process, server.addresses.internal))
    }

    /// Records that a server is ready, in one of `zones`, and begins to drain the node that it
    /// replaces. Fails if it has ended meanwhile or must end.
    pub(crate) fn ready(&mut self, id: ServerId, zones: u32, replaced: Option<ServerId>) -> Result<()> {
        let is_starting = |phase: &Phase| *phase == Phase::Starting;
        let server =
            self.expect("use", id, is_starting).with_context(|| format!("{id} was stopped while it started"))?;
        server.phase = Phase::Ready;
        if let ServerId::Node(number) = id {
            let address = server.addresses.internal.to_string();
            let zone = number.checked_rem(zones).map(|zone| format!("zone-{zone}"));
            server.listing = Some(DiscoveredNode { id: id.to_string(), address, draining: false, zone });
        }
        if let Some(former) = replaced {
            // A server that has ended meanwhile leaves by itself.
            let _ = self.begin_drain(former);
        }
        Ok(())
    }

    /// Returns the node that takes the place of another: the lowest free number. It is not started
    /// yet.
    pub(crate) fn plan_replacement(&mut self, former: ServerId) -> Result<ServerId> {
        self.expect("replace", former, |phase| *phase == Phase::Ready)?;
        match former {
            ServerId::Node(_) => Ok(self.free_nodes().next().unwrap_or(former)),
            id => bail!("cannot replace {id}: it is not a node"),
        }
    }

    /// Marks a server as draining, in the discovery file too. Fails if it is not ready.
    pub(crate) fn begin_drain(&mut self, id: ServerId) -> Result<()> {
        let server = self.expect("drain", id, |phase| *phase == Phase::Ready)?;
        server.phase = Phase::Draining;
        if let Some(node) = &mut server.listing {
            node.draining = true;
        }
        Ok(())
    }

    /// Marks a server as being killed. Fails if it is already, or is down.
    pub(crate) fn begin_kill(&mut self, id: ServerId) -> Result<()> {
        self.expect("kill", id, |phase| *phase != Phase::Killed && !phase.is_down())?.phase = Phase::Killed;
        Ok(())
    }

    /// Changes the phase of a server, which must be `from`. An error names the operation by `verb`.
    pub(crate) fn change_phase(&mut self, verb: &str, id: ServerId, from: &Phase, to: Phase) -> Result<()> {
        self.expect(verb, id, |phase| phase == from)?.phase = to;
        Ok(())
    }

    /// Begins the end of the mesh. From now on no exit is unexpected. Returns the processes that
    /// run.
    pub(crate) fn begin_stop(&mut self) -> Vec<(ServerId, Process)> {
        self.stage = Stage::Ending;
        let running = self.server_by_id.iter_mut().filter(|(_, server)| !server.phase.is_down());
        let stop = |(id, server): (&ServerId, &mut ServerState)| {
            server.phase = Phase::Draining;
            Some((*id, server.process.clone()?))
        };
        running.filter_map(stop).collect()
    }

    /// Records an exit, and returns the phase before it; `None` for an unknown server. A drained
    /// server leaves the discovery file at once, any other by [`Self::remove_listing`].
    pub(crate) fn exited(&mut self, id: ServerId, ending: String) -> Option<Phase> {
        let server = self.server_by_id.get_mut(&id)?;
        let before = replace(&mut server.phase, Phase::Down(ending));
        if before == Phase::Draining {
            server.listing = None;
        }
        Some(before)
    }

    /// Removes a server from the discovery file, if it is down and `pid` was its latest process.
    pub(crate) fn remove_listing(&mut self, id: ServerId, pid: u32) {
        if let Some(server) = self.server_by_id.get_mut(&id)
            && server.phase.is_down()
            && server.process.as_ref().is_some_and(|process| process.pid == pid)
        {
            server.listing = None;
        }
    }

    /// Returns `true` once a process has ended and has left the discovery file, or has a successor.
    pub(crate) fn has_left(&self, id: ServerId, pid: u32) -> bool {
        self.server_by_id.get(&id).is_none_or(|server| {
            let is_latest = server.process.as_ref().is_some_and(|process| process.pid == pid);
            !is_latest || (server.phase.is_down() && server.listing.is_none())
        })
    }

    /// Returns the latest process of a server. Fails before its first one.
    pub(crate) fn process(&self, id: ServerId) -> Result<Process> {
        let process = self.server_by_id.get(&id).and_then(|server| server.process.clone());
        process.with_context(|| format!("{id} has no process"))
    }

    /// Returns `true` if a server is down. Fails if there is no such server.
    pub(crate) fn is_down(&mut self, id: ServerId) -> Result<bool> {
        Ok(self.expect("restart", id, |_| true)?.phase.is_down())
    }

    /// Returns the nodes to start and to drain, so that `nodes` are starting, ready or paused. The
    /// lowest numbers of down or unknown nodes start. The highest of the others drain, which fails
    /// unless they are ready.
    pub(crate) fn plan_scale(&self, nodes: u32) -> (Vec<ServerId>, Vec<ServerId>) {
        let serves = |(id, server): &(&ServerId, &ServerState)| {
            matches!(id, ServerId::Node(_)) && matches!(server.phase, Phase::Starting | Phase::Ready | Phase::Paused)
        };
        let serving: Vec<ServerId> = self.server_by_id.iter().filter(serves).map(|(id, _)| *id).collect();
        let wanted = nodes as usize;
        let start = self.free_nodes().take(wanted.saturating_sub(serving.len())).collect();
        (start, serving.iter().rev().take(serving.len().saturating_sub(wanted)).copied().collect())
    }

    pub(crate) fn mesh_file(&self, folder: &Folder, options: &MeshOptions) -> MeshFile {
        let mut file = MeshFile {
            admin_token_file: folder.file(ADMIN_TOKEN_FILE),
            token_key_file: options.tokens.then(|| folder.file(TOKEN_KEY_FILE)),
            ..MeshFile::default()
        };
        for (id, server) in self.server_by_id.iter().filter(|(_, server)| server.phase != Phase::Starting) {
            let Some(pid) = server.running_pid() else { continue };
            let url = format!("ws://{}", server.addresses.public);
            let internal = format!("http://{}", server.addresses.internal);
            let entry = Server { id: id.to_string(), url, internal, pid };
            match id {
                ServerId::Balancer(_) => file.balancers.push(entry),
                ServerId::Node(_) => file.nodes.push(entry),
            }
        }
        file
    }

    pub(crate) fn discovery(&self) -> Vec<&DiscoveredNode> {
        self.server_by_id.values().filter_map(|server| server.listing.as_ref()).collect()
    }

    /// Returns the lines of `mesh-dev status`: balancers, then nodes.
    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        let status = |(id, server): (&ServerId, &ServerState)| ServerStatus {
            id: id.to_string(),
            phase: server.phase.to_string(),
            pid: server.running_pid(),
            internal: server.addresses.internal.to_string(),
            public: server.addresses.public.to_string(),
        };
        self.server_by_id.iter().map(status).collect()
    }

    fn free_nodes(&self) -> impl Iterator<Item = ServerId> {
        let is_free = |id: &ServerId| self.server_by_id.get(id).is_none_or(|server| server.phase.is_down());
        (0..).map(ServerId::Node).filter(is_free)
    }

    /// Returns a server for an operation that its phase allows.
    fn expect(&mut self, verb: &str, id: ServerId, is_allowed: impl Fn(&Phase) -> bool) -> Result<&mut ServerState> {
        let known: Vec<String> = self.server_by_id.keys().map(ToString::to_string).collect();
        let unknown = || format!("{id} does not exist; use one of: {}", known.join(", "));
        let server = self.server_by_id.get_mut(&id).with_context(unknown)?;
        ensure!(is_allowed(&server.phase), "cannot {verb} {id}: it is {}", server.phase);
        Ok(server)
    }
}
