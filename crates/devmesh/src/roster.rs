//! Which servers there are and what may happen to each. Pure: the supervisor tells what it did and saw, and the
//! roster says whether that is allowed and what the mesh's files have to say now.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::{BalancerEntry, DiscoveredNode, MeshFile, NodeEntry};
use crate::id::ServerId;
use crate::launch::redis_url;
use crate::ports::Addresses;

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

/// Counts the starts of one server, so that what is said of an earlier one is seen to be old.
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

/// What the discovery file says of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Absent,
    Candidate,
    Draining,
}

/// Whether somebody here wanted a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Drained,
    Killed,
    Unexpected,
}

/// What has to be done to have a given number of nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScalePlan {
    pub(crate) start: Vec<ServerId>,
    pub(crate) drain: Vec<ServerId>,
}

/// One line of `mesh-dev status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// `node-N`, `balancer-N` or `redis`.
    pub id: String,
    /// `ready`, `paused`, `draining`, ... or how the process ended.
    pub phase: String,
    /// The process, while there is one.
    pub pid: Option<u32>,
    /// `HOST:PORT` of the internal listener.
    pub internal: String,
    /// `HOST:PORT` where clients connect.
    pub public: String,
}

/// Why something cannot be done to a server now.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("there is no {id}; there are: {known}")]
    Unknown { id: ServerId, known: String },
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
    /// A server is about to be started, for the first time or again.
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

    /// Its process exists.
    pub(crate) fn started(&mut self, id: ServerId, run: Run, pid: u32) {
        if let Some(server) = self.current(id, run) {
            server.pid = Some(pid);
        }
    }

    /// It answers that it can take work. `false` when it has ended meanwhile, or somebody wants it to.
    pub(crate) fn ready(&mut self, id: ServerId, run: Run) -> bool {
        let Some(server) = self.current(id, run).filter(|server| server.phase == Phase::Starting) else {
            return false;
        };
        server.phase = Phase::Ready;
        if matches!(id, ServerId::Node(_)) {
            server.listing = Listing::Candidate;
        }
        true
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

    /// The mesh ends: from now on no exit is unexpected.
    pub(crate) fn begin_stop(&mut self) {
        for server in self.server_by_id.values_mut().filter(|server| server.pid.is_some()) {
            server.phase = Phase::Draining;
        }
    }

    /// Its process has ended. A drained server leaves the discovery file at once, any other when it is `noticed`.
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

    /// The world has had the time to notice that this run has ended.
    pub(crate) fn noticed(&mut self, id: ServerId, run: Run) {
        if let Some(server) = self.current(id, run).filter(|server| matches!(server.phase, Phase::Down(_))) {
            server.listing = Listing::Absent;
        }
    }

    /// How this run ended, once it has ended and the discovery file has forgotten it.
    pub(crate) fn ending(&self, id: ServerId, run: Run) -> Option<&Ending> {
        let server = self.server_by_id.get(&id)?;
        match &server.phase {
            Phase::Down(ending) if server.run == run && server.listing == Listing::Absent => Some(ending),
            _ => None,
        }
    }

    /// The phase of a server, if there is such a server.
    pub(crate) fn phase(&self, id: ServerId) -> Result<&Phase, Refusal> {
        self.server_by_id.get(&id).map(|server| &server.phase).ok_or_else(|| self.unknown(id))
    }

    /// Starts the lowest free numbers, drains the highest used ones.
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
        let is_free =
            |id: &ServerId| self.server_by_id.get(id).is_none_or(|server| matches!(server.phase, Phase::Down(_)));
        ScalePlan {
            start: (0..).map(ServerId::Node).filter(is_free).take(wanted.saturating_sub(serving.len())).collect(),
            drain: serving.iter().rev().take(serving.len().saturating_sub(wanted)).copied().collect(),
        }
    }

    pub(crate) fn mesh_file(&self) -> MeshFile {
        let mut file = MeshFile::default();
        for (id, server) in &self.server_by_id {
            if *id == ServerId::Redis {
                file.redis = Some(redis_url(server.addresses));
                continue;
            }
            let Some(pid) = server.pid.filter(|_| server.phase != Phase::Starting) else { continue };
            let (name, internal) = (id.to_string(), format!("http://{}", server.addresses.internal));
            let public = format!("ws://{}", server.addresses.public);
            match id {
                ServerId::Balancer(_) => file.balancers.push(BalancerEntry { id: name, url: public, internal, pid }),
                _ => file.nodes.push(NodeEntry { id: name, internal, public, pid }),
            }
        }
        file
    }

    pub(crate) fn discovery(&self) -> Vec<DiscoveredNode> {
        self.server_by_id
            .iter()
            .filter(|(_, server)| server.listing != Listing::Absent)
            .map(|(id, server)| DiscoveredNode {
                id: id.to_string(),
                address: server.addresses.internal.to_string(),
                draining: server.listing == Listing::Draining,
            })
            .collect()
    }

    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        self.server_by_id
            .iter()
            .map(|(id, server)| ServerStatus {
                id: id.to_string(),
                phase: server.phase.to_string(),
                pid: server.pid,
                internal: server.addresses.internal.to_string(),
                public: server.addresses.public.to_string(),
            })
            .collect()
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ServerId::{Balancer, Node};

    #[test]
    fn a_node_is_listed_once_it_is_ready_and_a_balancer_never() {
        let mut roster = Roster::default();
        let run = roster.begin_start(Node(0), addresses(0)).unwrap();
        roster.started(Node(0), run, 100);
        assert_eq!((listed(&roster), running(&roster)), (vec![], vec![]));

        assert!(roster.ready(Node(0), run));
        start(&mut roster, Balancer(0));

        assert_eq!(listed(&roster), ["node-0"]);
        assert_eq!(running(&roster), ["balancer-0", "node-0"]);
    }

    #[test]
    fn a_draining_node_stays_listed_as_draining_until_its_process_has_ended() {
        let mut roster = nodes(2);

        let run = roster.begin_drain(Node(1)).unwrap();
        assert_eq!(listed(&roster), ["node-0", "node-1 draining"]);
        assert_eq!(running(&roster), ["node-0", "node-1"]);
        let exit = roster.exited(Node(1), run, clean());

        assert_eq!(exit, Exit::Drained);
        assert_eq!(listed(&roster), ["node-0"]);
        assert_eq!(roster.ending(Node(1), run), Some(&clean()));
    }

    #[test]
    fn a_killed_node_stays_listed_until_its_death_is_noticed() {
        let mut roster = nodes(2);

        let run = roster.begin_kill(Node(1)).unwrap();
        let exit = roster.exited(Node(1), run, killed());
        assert_eq!(exit, Exit::Killed);
        assert_eq!(
            (listed(&roster), running(&roster)),
            (vec!["node-0".into(), "node-1".into()], vec!["node-0".into()])
        );
        assert_eq!(roster.ending(Node(1), run), None);
        roster.noticed(Node(1), run);

        assert_eq!(listed(&roster), ["node-0"]);
        assert_eq!(roster.ending(Node(1), run), Some(&killed()));
    }

    #[test]
    fn a_late_notice_of_an_earlier_death_does_not_touch_the_node_that_came_back() {
        let mut roster = nodes(1);
        let first = roster.begin_kill(Node(0)).unwrap();
        roster.exited(Node(0), first, killed());

        start(&mut roster, Node(0));
        roster.noticed(Node(0), first);

        assert_eq!(listed(&roster), ["node-0"]);
    }

    #[test]
    fn a_death_that_nobody_asked_for_is_told_apart() {
        let mut roster = nodes(1);
        let run = Run(1);

        assert_eq!(roster.exited(Node(0), run, killed()), Exit::Unexpected);
        assert_eq!(roster.status()[0].phase, "down: killed by signal 9");
    }

    #[test]
    fn a_server_that_ends_while_it_starts_does_not_become_ready() {
        let mut roster = Roster::default();
        let run = roster.begin_start(Node(0), addresses(0)).unwrap();
        roster.exited(Node(0), run, killed());

        assert!(!roster.ready(Node(0), run));
        assert_eq!(listed(&roster), Vec::<String>::new());
    }

    #[test]
    fn scaling_up_takes_the_lowest_free_numbers() {
        let mut roster = nodes(3);
        let run = roster.begin_drain(Node(1)).unwrap();
        assert_eq!(roster.plan_scale(4).start, [Node(3), Node(4)]);
        roster.exited(Node(1), run, clean());

        assert_eq!(roster.plan_scale(4), ScalePlan { start: vec![Node(1), Node(3)], drain: vec![] });
    }

    #[test]
    fn scaling_down_drains_the_highest_numbers() {
        let roster = nodes(12);

        assert_eq!(roster.plan_scale(9), ScalePlan { start: vec![], drain: vec![Node(11), Node(10), Node(9)] });
        assert_eq!(roster.plan_scale(12), ScalePlan::default());
    }

    #[test]
    fn a_paused_server_must_be_resumed_before_it_can_drain_but_can_be_killed() {
        let mut roster = nodes(1);
        roster.pause(Node(0)).unwrap();

        assert_eq!(roster.begin_drain(Node(0)).unwrap_err().to_string(), "cannot drain node-0: it is paused");
        assert!(roster.begin_kill(Node(0)).is_ok());
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let mut roster = nodes(2);

        assert_eq!(roster.pause(Node(7)).unwrap_err().to_string(), "there is no node-7; there are: node-0, node-1");
    }

    fn nodes(count: u32) -> Roster {
        let mut roster = Roster::default();
        for number in 0..count {
            start(&mut roster, Node(number));
        }
        roster
    }

    fn start(roster: &mut Roster, id: ServerId) {
        let run = roster.begin_start(id, addresses(0)).unwrap();
        roster.started(id, run, 100);
        assert!(roster.ready(id, run));
    }

    fn addresses(port: u16) -> Addresses {
        Addresses { internal: ([127, 0, 0, 1], port).into(), public: ([127, 0, 0, 1], port).into() }
    }

    fn clean() -> Ending {
        Ending { clean: true, text: "exited".into() }
    }

    fn killed() -> Ending {
        Ending { clean: false, text: "killed by signal 9".into() }
    }

    fn listed(roster: &Roster) -> Vec<String> {
        let line = |node: DiscoveredNode| if node.draining { format!("{} draining", node.id) } else { node.id };
        roster.discovery().into_iter().map(line).collect()
    }

    fn running(roster: &Roster) -> Vec<String> {
        let file = roster.mesh_file();
        file.balancers.into_iter().map(|entry| entry.id).chain(file.nodes.into_iter().map(|entry| entry.id)).collect()
    }
}
