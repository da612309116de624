//! The servers of a mesh and their states. Pure: the supervisor reports actions and observations.
//! The roster decides if an operation is allowed, and computes the content of the mesh's files
//! (`account`).

mod account;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::id::ServerId;
use crate::ports::Addresses;

pub use account::ServerStatus;

/// All servers that this mesh has had, running or not.
#[derive(Default)]
pub(crate) struct Roster {
    server_by_id: BTreeMap<ServerId, Server>,
}

struct Server {
    addresses: Addresses,
    phase: Phase,
    listing: Listing,
    run: Run,
    pid: Option<u32>,
}

/// Number of a server's start. It identifies outdated reports of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Paused,
    Draining,
    Killed,
    Down(Ending),
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) clean: bool,
    pub(crate) text: String,
}

/// State of a server in the discovery file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Absent,
    Candidate,
    Draining,
}

/// Expected or unexpected end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Drained,
    Killed,
    Unexpected,
}

/// Starts and drains that lead to a given number of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScalePlan {
    pub(crate) start: Vec<ServerId>,
    pub(crate) drain: Vec<ServerId>,
}

/// Reason for refusing an operation on a server.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("{id} does not exist; use one of: {known}")]
    Unknown { id: ServerId, known: String },
    #[error("cannot {verb} {id}: it is not a node")]
    NotANode { verb: &'static str, id: ServerId },
    #[error("cannot {verb} {id}: it is {phase}")]
    WrongPhase { verb: &'static str, id: ServerId, phase: Phase },
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => out.write_str("starting"),
            Self::Ready => out.write_str("ready"),
            Self::Paused => out.write_str("paused"),
            Self::Draining => out.write_str("draining"),
            Self::Killed => out.write_str("being killed"),
            Self::Down(ending) => write!(out, "down: {}", ending.text),
        }
    }
}

impl Roster {
    /// Begins the first or another start of a server.
    pub(crate) fn begin_start(&mut self, id: ServerId, addresses: Addresses) -> Result<Run, Refusal> {
        let Some(server) = self.server_by_id.get_mut(&id) else {
            let (phase, listing, run) = (Phase::Starting, Listing::Absent, Run(1));
            self.server_by_id.insert(id, Server { addresses, phase, listing, run, pid: None });
            return Ok(run);
        };
        if !matches!(server.phase, Phase::Down(_)) {
            return Err(Refusal::WrongPhase { verb: "start", id, phase: server.phase.clone() });
        }
        server.phase = Phase::Starting;
        server.run = Run(server.run.0 + 1);
        Ok(server.run)
    }

    /// Records the process of a started server.
    pub(crate) fn started(&mut self, id: ServerId, run: Run, pid: u32) {
        if let Some(server) = self.current(id, run) {
            server.pid = Some(pid);
        }
    }

    /// Records that a server is ready, and begins to drain the node that it replaces. Returns
    /// `false` if it has ended meanwhile or must end.
    pub(crate) fn ready(&mut self, id: ServerId, run: Run, replaced: Option<ServerId>) -> bool {
        let Some(server) = self.current(id, run).filter(|server| server.phase == Phase::Starting) else {
            return false;
        };
        server.phase = Phase::Ready;
        if matches!(id, ServerId::Node(_)) {
            server.listing = Listing::Candidate;
        }
        if let Some(former) = replaced {
            // A server that has ended meanwhile leaves by itself.
            let _ = self.begin_drain(former);
        }
        true
    }

    /// Returns the node that takes the place of another: the lowest free number. It is not started
    /// yet.
    pub(crate) fn plan_replacement(&mut self, former: ServerId) -> Result<ServerId, Refusal> {
        self.expect("replace", former, |phase| *phase == Phase::Ready)?;
        match former {
            ServerId::Node(_) => Ok(self.free_nodes().next().unwrap_or(former)),
            id => Err(Refusal::NotANode { verb: "replace", id }),
        }
    }

    /// Returns the run of a draining server.
    pub(crate) fn draining(&mut self, id: ServerId) -> Result<Run, Refusal> {
        self.expect("replace", id, |phase| *phase == Phase::Draining).map(|server| server.run)
    }

    pub(crate) fn begin_drain(&mut self, id: ServerId) -> Result<Run, Refusal> {
        let server = self.expect("drain", id, |phase| *phase == Phase::Ready)?;
        server.phase = Phase::Draining;
        if server.listing == Listing::Candidate {
            server.listing = Listing::Draining;
        }
        Ok(server.run)
    }

    pub(crate) fn begin_kill(&mut self, id: ServerId) -> Result<Run, Refusal> {
        let server = self.expect("kill", id, |phase| !matches!(phase, Phase::Killed | Phase::Down(_)))?;
        server.phase = Phase::Killed;
        Ok(server.run)
    }

    pub(crate) fn pause(&mut self, id: ServerId) -> Result<(), Refusal> {
        self.expect("pause", id, |phase| *phase == Phase::Ready)?.phase = Phase::Paused;
        Ok(())
    }

    pub(crate) fn resume(&mut self, id: ServerId) -> Result<(), Refusal> {
        self.expect("resume", id, |phase| *phase == Phase::Paused)?.phase = Phase::Ready;
        Ok(())
    }

    /// Begins the end of the mesh. From now on no exit is unexpected.
    pub(crate) fn begin_stop(&mut self) {
        for server in self.server_by_id.values_mut().filter(|server| server.pid.is_some()) {
            server.phase = Phase::Draining;
        }
    }

    /// Records an exit. A drained server leaves the discovery file at once, any other when it is
    /// `noticed`.
    pub(crate) fn exited(&mut self, id: ServerId, run: Run, ending: Ending) -> Exit {
        let Some(server) = self.current(id, run) else { return Exit::Drained };
        let exit = match server.phase {
            Phase::Draining => Exit::Drained,
            Phase::Killed => Exit::Killed,
            _ => Exit::Unexpected,
        };
        if exit == Exit::Drained {
            server.listing = Listing::Absent;
        }
        server.phase = Phase::Down(ending);
        server.pid = None;
        exit
    }

    /// Removes an ended run from the discovery file after the notice time.
    pub(crate) fn noticed(&mut self, id: ServerId, run: Run) {
        if let Some(server) = self.current(id, run).filter(|server| matches!(server.phase, Phase::Down(_))) {
            server.listing = Listing::Absent;
        }
    }

    /// Returns how this run ended, once it has left the discovery file.
    pub(crate) fn ending(&self, id: ServerId, run: Run) -> Option<&Ending> {
        let server = self.server_by_id.get(&id)?;
        match &server.phase {
            Phase::Down(ending) if server.run == run && server.listing == Listing::Absent => Some(ending),
            _ => None,
        }
    }

    /// Returns the phase of a server.
    pub(crate) fn phase(&self, id: ServerId) -> Result<&Phase, Refusal> {
        self.server_by_id.get(&id).map(|server| &server.phase).ok_or_else(|| self.unknown(id))
    }

    /// Plans to start the lowest free numbers, or to drain the highest used ones.
    pub(crate) fn plan_scale(&self, nodes: u32) -> ScalePlan {
        let serving: Vec<ServerId> = self
            .server_by_id
            .iter()
            .filter(|(id, server)| {
                matches!(id, ServerId::Node(_))
                    && matches!(server.phase, Phase::Starting | Phase::Ready | Phase::Paused)
            })
            .map(|(id, _)| *id)
            .collect();
        let wanted = nodes as usize;
        ScalePlan {
            start: self.free_nodes().take(wanted.saturating_sub(serving.len())).collect(),
            drain: serving.iter().rev().take(serving.len().saturating_sub(wanted)).copied().collect(),
        }
    }

    fn free_nodes(&self) -> impl Iterator<Item = ServerId> {
        let is_free =
            |id: &ServerId| self.server_by_id.get(id).is_none_or(|server| matches!(server.phase, Phase::Down(_)));
        (0..).map(ServerId::Node).filter(is_free)
    }

    fn current(&mut self, id: ServerId, run: Run) -> Option<&mut Server> {
        self.server_by_id.get_mut(&id).filter(|server| server.run == run)
    }

    fn expect(
        &mut self,
        verb: &'static str,
        id: ServerId,
        allowed: impl Fn(&Phase) -> bool,
    ) -> Result<&mut Server, Refusal> {
        let phase = self.phase(id)?.clone();
        match self.server_by_id.get_mut(&id) {
            Some(server) if allowed(&phase) => Ok(server),
            _ => Err(Refusal::WrongPhase { verb, id, phase }),
        }
    }

    fn unknown(&self, id: ServerId) -> Refusal {
        let known: Vec<String> = self.server_by_id.keys().map(ToString::to_string).collect();
        Refusal::Unknown { id, known: known.join(", ") }
    }
}

#[cfg(test)]
mod tests;
