//! Faults: their targets, effects and ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use signaling_core::{Member, View};
use signaling_protocol::NodeId;

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{Act, Event, Host, Input};
use crate::mutant::Mutant;
use crate::plan::FaultKind;
use crate::trunks::{End, SILENCE};
use crate::world::{Pause, World};

/// The action that ends a fault.
#[derive(Debug)]
pub(crate) enum Undo {
    Nothing,
    Restart(usize),
    RestartEdge(usize),
    ReplaceEdge(usize),
    Resume(Host),
    Mend(Vec<(Host, Host)>),
    Show(usize),
    EndSilence,
}

const DRAIN_DEADLINE: Micros = 30 * SECOND;
/// Maximum time until a view reaches a server.
const SLOWEST_VIEW: Micros = 6 * SECOND;
/// Maximum restart time of a node that is killed during a silence of discovery.
const RESTART_WITHIN: Micros = 2 * SECOND;

impl World {
    pub(crate) fn fault_begins(&mut self, index: usize) {
        let Some(fault) = self.faults.get(index).copied() else { return };
        let now = self.agenda.now();
        let undo = match fault.kind {
            FaultKind::Crash => self.crash(),
            FaultKind::CrashEdge => self.crash_edge(),
            FaultKind::PauseNode => self.candidate().and_then(|node| self.pause(Host::Node(node))),
            FaultKind::PauseEdge => {
                let edge = self.rng.index(self.edges.len());
                self.pause(Host::Edge(edge))
            }
            FaultKind::CutTrunk => self.cut_trunk(),
            FaultKind::CutNodes => self.cut_nodes(true),
            FaultKind::CutOneWay => self.cut_nodes(false),
            FaultKind::Join => self.join(),
            FaultKind::Drain => self.drain(),
            FaultKind::Flap => self.flap(),
            FaultKind::DrainEdge => self.drain_edge(fault.lasts),
            FaultKind::Silence => self.silence(),
        };
        let Some(undo) = undo else { return };
        self.trace.line(now, || format!("FAULT {} begins: {undo:?}", fault.kind.name()));
        self.counters.add(fault.kind.name(), 1);
        let detour = self.has_detour(&undo);
        self.trouble.fault(fault.kind, detour, now, now + fault.lasts);
        if fault.kind == FaultKind::Silence {
            self.trouble.fault(FaultKind::Crash, false, now, now + RESTART_WITHIN);
        }
        self.undo.insert(index, undo);
    }

    pub(crate) fn fault_ends(&mut self, index: usize) {
        let Some(undo) = self.undo.remove(&index) else { return };
        let now = self.agenda.now();
        self.trace.line(now, || format!("FAULT ends: {undo:?}"));
        match undo {
            Undo::Nothing => {}
            Undo::Restart(node) => {
                self.restart_node(node);
                if self.truth.insert(node, false) != Some(false) {
                    self.publish(false);
                }
            }
            Undo::RestartEdge(edge) => self.restart_edge(edge),
            Undo::ReplaceEdge(edge) => self.replace_edge(edge),
            Undo::Resume(host) => self.resume(host),
            Undo::Mend(cuts) => self.cut.retain(|cut| !cuts.contains(cut)),
            Undo::Show(node) => {
                if self.is_alive(Host::Node(node)) && !self.truth.contains_key(&node) {
                    self.truth.insert(node, false);
                    self.publish(false);
                }
            }
            Undo::EndSilence => {
                self.silences -= 1;
                // Edges rely on the node again at different times, as after its restart.
                self.trouble.lossy.add(now, now + SLOWEST_VIEW);
                self.publish(false);
            }
        }
    }

    /// Discovery falls silent and a node restarts. The mesh goes around it until it has a view:
    /// only the restart itself excuses late or undelivered messages.
    fn silence(&mut self) -> Option<Undo> {
        let node = self.spare()?;
        self.silences += 1;
        self.kill_node(node);
        let back = self.rng.within(300 * MS, RESTART_WITHIN);
        let generation = self.generation(Host::Node(node));
        self.agenda.after(back, Event::Act(Act::Restart(node, generation)));
        Some(Undo::EndSilence)
    }

    pub(crate) fn restarts(&mut self, node: usize, generation: u32) {
        if !self.is_alive(Host::Node(node)) && self.generation(Host::Node(node)) == generation {
            self.restart_node(node);
        }
    }

    /// Returns `true` if the node is up, can forward, and is in the last view that discovery sent.
    fn serves(&self, node: usize) -> bool {
        let is_named = self.members_seen_by(self.views.len().checked_sub(1)).contains(&node);
        is_named && self.nodes.get(node).is_some_and(|node| node.alive && node.core.has_view())
    }

    /// Picks a node that is up, in discovery and not draining.
    fn candidate(&mut self) -> Option<usize> {
        let nodes = &self.nodes;
        let sound = |node: usize| nodes.get(node).is_some_and(|node| node.alive && node.pause.is_none());
        let candidates: Vec<_> =
            self.truth.iter().filter(|(node, drains)| !**drains && sound(**node)).map(|(node, _)| *node).collect();
        self.rng.pick(&candidates)
    }

    /// Picks such a node, unless it is the last one.
    fn spare(&mut self) -> Option<usize> {
        let known = self.truth.iter().filter(|(node, drains)| !**drains && self.serves(**node)).count();
        if known < 2 { None } else { self.candidate() }
    }

    fn crash(&mut self) -> Option<Undo> {
        let node = self.spare()?;
        self.kill_node(node);
        let generation = self.generation(Host::Node(node));
        let noticed = self.rng.within(500 * MS, 3 * SECOND);
        self.agenda.after(noticed, Event::Act(Act::Noticed(node, generation)));
        Some(Undo::Restart(node))
    }

    pub(crate) fn death_noticed(&mut self, node: usize, generation: u32) {
        if !self.is_alive(Host::Node(node))
            && self.generation(Host::Node(node)) == generation
            && self.truth.remove(&node).is_some()
        {
            self.publish(false);
        }
    }

    fn crash_edge(&mut self) -> Option<Undo> {
        let edge = self.rng.index(self.edges.len());
        if !self.is_alive(Host::Edge(edge)) || self.is_draining(edge) {
            return None;
        }
        self.kill_edge(edge);
        Some(Undo::RestartEdge(edge))
    }

    fn is_draining(&self, edge: usize) -> bool {
        self.edges[edge].draining
    }

    /// Drains an edge's clients at random times. They connect to other edges.
    fn drain_edge(&mut self, lasts: Micros) -> Option<Undo> {
        let serves = |world: &Self, edge: &usize| world.is_alive(Host::Edge(*edge)) && !world.is_draining(*edge);
        let serving: Vec<_> = (0..self.edges.len()).filter(|edge| serves(self, edge)).collect();
        let index = self.rng.pick(&serving).filter(|_| serving.len() > 1)?;
        let edge = self.edges.get_mut(index)?;
        edge.draining = true;
        for client in edge.core.clients() {
            let at = self.rng.within(0, lasts);
            self.later(Host::Edge(index), at, Input::SendAway(client));
        }
        Some(Undo::ReplaceEdge(index))
    }

    /// Stops a drained edge and starts another process in its place.
    fn replace_edge(&mut self, index: usize) {
        if !self.is_draining(index) {
            return;
        }
        for id in 0..self.conns.len() {
            if self.conns[id].edge == index {
                self.close_conn(id, End::Edge);
            }
        }
        self.kill_edge(index);
        self.restart_edge(index);
    }

    /// Returns `true` if all pairs of nodes, and all edges and nodes, still have a path.
    fn has_detour(&self, undo: &Undo) -> bool {
        let Undo::Mend(cuts) = undo else { return false };
        let up = self.truth.iter().filter(|(node, drains)| !**drains && self.serves(**node)).count();
        let between_nodes = |(from, to): &(Host, Host)| matches!((from, to), (Host::Node(_), Host::Node(_)));
        self.cut.iter().all(|cut| cuts.contains(cut)) && cuts.iter().all(between_nodes) && up > 2
    }

    pub(crate) fn pause_of(&mut self, host: Host) -> &mut Option<Pause> {
        match host {
            Host::Edge(index) => &mut self.edges[index].pause,
            Host::Node(index) => &mut self.nodes[index].pause,
        }
    }

    fn pause(&mut self, host: Host) -> Option<Undo> {
        let since = self.agenda.now();
        if !self.is_alive(host) || self.pause_of(host).is_some() {
            return None;
        }
        *self.pause_of(host) = Some(Pause { since, backlog: Vec::new() });
        Some(Undo::Resume(host))
    }

    /// Resumes a paused server: first the received inputs, then its timers. After a pause longer
    /// than the heartbeat it closes its trunks unread and refuses the waiting requests.
    fn resume(&mut self, host: Host) {
        let Some(Pause { since, backlog }) = self.pause_of(host).take() else { return };
        let jumped = self.agenda.now() - since >= SILENCE && self.mutant != Some(Mutant::ClockJump);
        let (timers, arrived): (Vec<_>, Vec<_>) = backlog.into_iter().partition(Input::is_timer);
        if jumped {
            self.counters.add("clock jumps", 1);
            let instant = self.agenda.instant();
            match host {
                Host::Node(index) => self.nodes[index].core.on_process_pause(instant),
                Host::Edge(index) => self.edges[index].core.on_process_pause(instant),
            }
            for id in 0..self.conns.len() {
                match host {
                    Host::Edge(index) if self.conns[id].edge == index => self.close_conn(id, End::Edge),
                    Host::Node(index) if self.conns[id].node == index => self.close_conn(id, End::Node),
                    _ => {}
                }
            }
        }
        for input in arrived {
            match input {
                Input::Batch { from, generation, attempt, .. } if jumped => {
                    self.agenda.after(MS, Event::At(Host::Node(from), generation, Input::Busy { attempt }));
                }
                input => self.carry_out(host, input),
            }
        }
        timers.into_iter().for_each(|input| self.carry_out(host, input));
    }

    fn cut_trunk(&mut self) -> Option<Undo> {
        let node = self.candidate()?;
        let edge = self.rng.index(self.edges.len());
        for id in 0..self.conns.len() {
            if self.conns[id].edge == edge && self.conns[id].node == node {
                self.sever(id);
            }
        }
        let cuts = vec![(Host::Edge(edge), Host::Node(node))];
        self.cut.extend(cuts.iter().copied());
        Some(Undo::Mend(cuts))
    }

    fn cut_nodes(&mut self, both: bool) -> Option<Undo> {
        let one = self.candidate()?;
        let other = self.candidate().filter(|other| *other != one)?;
        let mut cuts = vec![(Host::Node(one), Host::Node(other))];
        if both {
            cuts.push((Host::Node(other), Host::Node(one)));
        }
        self.cut.extend(cuts.iter().copied());
        Some(Undo::Mend(cuts))
    }

    fn join(&mut self) -> Option<Undo> {
        let node = self.nodes.len();
        self.add_node(node);
        self.truth.insert(node, false);
        self.publish(false);
        Some(Undo::Nothing)
    }

    fn drain(&mut self) -> Option<Undo> {
        let instant = self.agenda.instant();
        let node = self.spare()?;
        self.truth.insert(node, true);
        self.nodes[node].core.drain(instant);
        self.node_turn(node);
        self.publish(false);
        let deadline = self.agenda.now() + DRAIN_DEADLINE;
        self.trouble.fault(FaultKind::Drain, false, self.agenda.now(), self.agenda.now() + 5 * SECOND);
        self.agenda.after(5 * SECOND, Event::Act(Act::DrainCheck(node, deadline)));
        Some(Undo::Nothing)
    }

    /// Stops a draining node once its work is done, and removes it from discovery.
    pub(crate) fn drain_check(&mut self, node: usize, deadline: Micros) {
        let now = self.agenda.now();
        let Some(host) = self.nodes.get(node).filter(|host| host.alive) else { return };
        if (host.core.is_quiet() && host.pause.is_none()) || now >= deadline {
            self.trace.line(now, || format!("n{node} exits"));
            self.counters.add("drains that ran into the deadline", u64::from(now >= deadline));
            self.trouble.fault(FaultKind::Drain, false, now, now + SECOND);
            self.kill_node(node);
            self.truth.remove(&node);
            self.publish(false);
        } else {
            self.agenda.after(500 * MS, Event::Act(Act::DrainCheck(node, deadline)));
        }
    }

    fn flap(&mut self) -> Option<Undo> {
        let node = self.spare()?;
        self.truth.remove(&node);
        self.publish(false);
        Some(Undo::Show(node))
    }

    /// Publishes the present nodes to every server, to each at its own time.
    pub(crate) fn publish(&mut self, at_once: bool) {
        if self.silences > 0 {
            return;
        }
        let member = |(node, draining): (&usize, &bool)| {
            let id = NodeId::new(&format!("n{node}")).ok()?;
            Some(Member { id, address: format!("n{node}:1").parse().ok()?, draining: *draining })
        };
        let Ok(view) = View::new(self.truth.iter().filter_map(member)) else { return };
        let now = self.agenda.now();
        self.trace.line(now, || format!("discovery knows {}", crate::edges::names(&view)));
        self.views.push(Arc::new(view));
        let version = self.views.len() - 1;
        let slow = !at_once && self.rng.percent(40);
        let hosts: Vec<_> =
            (0..self.edges.len()).map(Host::Edge).chain((0..self.nodes.len()).map(Host::Node)).collect();
        let mut last = 0;
        for host in hosts {
            let lag = if slow { self.rng.within(0, SLOWEST_VIEW) } else { self.rng.within(0, 200 * MS) };
            last = last.max(lag);
            self.later(host, lag, Input::View(version));
        }
        if !at_once {
            self.counters.add("views", 1);
            self.counters.add("views seen at different times", u64::from(slow));
        }
        self.trouble.view(now, now + last);
    }

    /// Returns the nodes in a view.
    pub(crate) fn members_seen_by(&self, version: Option<usize>) -> BTreeSet<usize> {
        let view = version.and_then(|version| self.views.get(version));
        let ids = view.iter().flat_map(|view| view.members()).map(|member| member.id.as_str());
        ids.filter_map(|id| id.trim_start_matches('n').parse().ok()).collect()
    }
}
