//! Faults: their targets, effects and ends. `world` schedules the faults of the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use signaling_membership::{NodeEntry, View, Zone};
use signaling_protocol::CloseCode;

use crate::agenda::{MS, Micros, SECOND, micros};
use crate::edges::node_id;
use crate::event::{Host, Kind};
use crate::mutant::Mutant;
use crate::nodes::NodeHost;
use crate::plan::FaultKind;
use crate::trunks::SILENCE;
use crate::world::{Pause, Server, World};

/// The action that ends a fault.
#[derive(Debug)]
pub(crate) enum Undo {
    Nothing,
    /// Start the node, or the edge, again.
    Restart(usize),
    /// Start these nodes of a zone again.
    RestartZone(Vec<usize>),
    RestartEdge(usize),
    /// Stop the drained edge and start it again.
    ReplaceEdge(usize),
    /// End the pause of the server.
    Resume(Host),
    /// End the pause of the server, which did not detect it.
    ResumeUnaware(Host),
    /// Let packets pass between these servers.
    Mend(Vec<(Host, Host)>),
    /// Let packets pass between these servers, and discovery reach and have these nodes.
    Reunite(Vec<usize>, Vec<(Host, Host)>),
    /// Let packets reach the node, and start it again.
    Revive(usize, Vec<(Host, Host)>),
    /// Add the node to discovery.
    Show(usize),
    /// Let discovery send views.
    EndSilence,
}

/// Whether a server detects its pause when it resumes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awareness {
    Aware,
    Unaware,
}

const DRAIN_DEADLINE: Micros = 30 * SECOND;
/// Maximum reconnect delay of a client of a drained edge.
const MAX_RETRY_AFTER: Micros = SECOND;
/// Maximum time until a view reaches a server.
const MAX_VIEW_DELAY: Micros = 6 * SECOND;
/// Maximum time until discovery drops a node that other nodes do not reach.
const MAX_DETECTION: Micros = 12 * SECOND;
/// Maximum time in which a lane keeps its bytes: longer than any message is held.
const MAX_FREEZE: Micros = 30 * SECOND;
/// Maximum restart time of a node that is killed during a silence of discovery.
const MAX_RESTART: Micros = 2 * SECOND;

impl World {
    /// Begins the fault with this index of the plan, if a target exists, and keeps the action that
    /// ends it.
    pub(crate) fn fault_begins(&mut self, index: usize) {
        let Some(fault) = self.faults.get(index).copied() else { return };
        let now = self.agenda.now();
        let undo = match fault.kind {
            FaultKind::Crash => self.crash(),
            FaultKind::CrashZone => self.crash_zone(),
            FaultKind::CrashEdge => {
                let edge = self.rng.index(self.edges.len());
                self.edge_serves(edge).then(|| {
                    self.kill_edge(edge);
                    Undo::RestartEdge(edge)
                })
            }
            FaultKind::PauseNode => self.candidate().and_then(|node| self.pause(Host::Node(node))),
            FaultKind::PauseEdge => {
                let edge = self.rng.index(self.edges.len());
                self.pause(Host::Edge(edge))
            }
            FaultKind::CutTrunk => self.cut_trunk(fault.lasts),
            FaultKind::CutLane => self.cut_lane(),
            FaultKind::CutNodes => self.cut_nodes(true),
            FaultKind::CutOneWay => self.cut_nodes(false),
            FaultKind::Isolate => self.isolate(1),
            FaultKind::IsolatePair => self.isolate(2),
            FaultKind::Dead => self.dies(),
            FaultKind::Join => self.join(),
            FaultKind::Drain => self.drain(),
            FaultKind::Flap => self.spare().map(|node| {
                self.truth.remove(&node);
                self.publish(false);
                Undo::Show(node)
            }),
            FaultKind::DrainEdge => self.drain_edge(fault.lasts),
            FaultKind::Silence => self.silence(),
            FaultKind::ShortPause => self.candidate().and_then(|node| {
                self.pause(Host::Node(node))?;
                Some(Undo::ResumeUnaware(Host::Node(node)))
            }),
        };
        let Some(undo) = undo else { return };
        self.trace.line(|| format!("FAULT {} begins: {undo:?}", fault.kind.name()));
        self.counters.add(fault.kind.name(), 1);
        let detour = self.has_detour(&undo);
        self.trouble.fault(fault.kind, detour, now, now + fault.lasts);
        if fault.kind == FaultKind::Silence {
            self.trouble.fault(FaultKind::Crash, false, now, now + MAX_RESTART);
        }
        self.undo.insert(index, undo);
    }

    /// Undoes the fault with this index. Does nothing if it never began.
    pub(crate) fn fault_ends(&mut self, index: usize) {
        let Some(undo) = self.undo.remove(&index) else { return };
        self.trace.line(|| format!("FAULT ends: {undo:?}"));
        match undo {
            Undo::Restart(node) => self.restart(&[node]),
            Undo::RestartZone(nodes) => self.restart(&nodes),
            Undo::RestartEdge(edge) => self.restart_edge(edge),
            Undo::Nothing => {}
            // No crash hits a drained edge, so that it still runs.
            Undo::ReplaceEdge(edge) => {
                self.close_conns_of(Host::Edge(edge));
                self.kill_edge(edge);
                self.restart_edge(edge);
            }
            Undo::Resume(host) => self.resume(host, Awareness::Aware),
            Undo::ResumeUnaware(host) => self.resume(host, Awareness::Unaware),
            Undo::Mend(cuts) => self.mend(&cuts),
            Undo::Reunite(nodes, cuts) => {
                self.mend(&cuts);
                for node in nodes {
                    self.cut_off_nodes.remove(&node);
                    self.blind.remove(&node);
                    if self.nodes[node].server.alive {
                        self.truth.entry(node).or_insert(false);
                    }
                }
                self.publish(false);
            }
            Undo::Revive(node, cuts) => {
                self.mend(&cuts);
                self.cut_off_nodes.remove(&node);
                self.restart(&[node]);
            }
            Undo::Show(node) => {
                if self.nodes[node].server.alive && !self.truth.contains_key(&node) {
                    self.truth.insert(node, false);
                    self.publish(false);
                }
            }
            Undo::EndSilence => {
                self.silences -= 1;
                // Edges rely on the node again at different times, as after its restart.
                let now = self.agenda.now();
                self.trouble.lossy.add(now, now + MAX_VIEW_DELAY);
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
        let back = self.rng.within(300 * MS, MAX_RESTART);
        self.after_death_of(node, back, move |world| world.restart_node(node));
        Some(Undo::EndSilence)
    }

    /// Schedules an action, unless the killed node has started again by then.
    fn after_death_of(&mut self, node: usize, delay: Micros, act: impl FnOnce(&mut Self) + 'static) {
        let generation = self.nodes[node].server.generation;
        self.agenda.after(delay, move |world: &mut Self| {
            let server = &world.nodes[node].server;
            if !server.alive && server.generation == generation {
                act(world);
            }
        });
    }

    /// Returns `true` if the node is up, can forward, and is in the last view that discovery sent.
    fn serves(&self, node: usize) -> bool {
        let is_named = self.members_seen_by(self.views.len().checked_sub(1)).contains(&node);
        is_named && self.nodes[node].server.alive && self.nodes[node].core.peers().has_view()
    }

    /// Returns the nodes in discovery that do not drain.
    fn not_draining(&self) -> impl Iterator<Item = usize> {
        self.truth.iter().filter(|(_, drains)| !**drains).map(|(node, _)| *node)
    }

    /// Picks a node that is up, not paused, in discovery and not draining.
    fn candidate(&mut self) -> Option<usize> {
        let is_sound = |server: &Server| server.alive && server.pause.is_none();
        let candidates: Vec<_> = self.not_draining().filter(|node| is_sound(&self.nodes[*node].server)).collect();
        self.rng.pick(&candidates)
    }

    /// Picks a [`candidate`](Self::candidate), unless fewer than two nodes serve.
    fn spare(&mut self) -> Option<usize> {
        let known = self.not_draining().filter(|node| self.serves(*node)).count();
        if known < 2 { None } else { self.candidate() }
    }

    fn crash(&mut self) -> Option<Undo> {
        let node = self.spare()?;
        self.kill_node(node);
        let noticed = self.rng.within(500 * MS, 3 * SECOND);
        self.after_death_of(node, noticed, move |world| {
            if world.truth.remove(&node).is_some() {
                world.publish(false);
            }
        });
        Some(Undo::Restart(node))
    }

    /// Returns the number of a node's zone, by turns. `None`: discovery names none.
    fn zone_of(&self, node: usize) -> Option<usize> {
        node.checked_rem(self.zones)
    }

    /// Kills all nodes of a zone at once, if a node elsewhere serves.
    fn crash_zone(&mut self) -> Option<Undo> {
        let first = self.candidate()?;
        let zone = self.zone_of(first)?;
        let is_elsewhere = |node: usize| self.zone_of(node) != Some(zone) && self.serves(node);
        if !self.not_draining().any(is_elsewhere) {
            return None;
        }
        let is_hit = |node: &usize| self.zone_of(*node) == Some(zone) && self.nodes[*node].server.alive;
        let lost: Vec<_> = (0..self.nodes.len()).filter(is_hit).collect();
        lost.iter().for_each(|node| self.kill_node(*node));
        let (noticed, dead) = (self.rng.within(500 * MS, 3 * SECOND), lost.clone());
        // All of them restart at once.
        self.after_death_of(lost[0], noticed, move |world| {
            world.truth.retain(|node, _| !dead.contains(node));
            world.publish(false);
        });
        Some(Undo::RestartZone(lost))
    }

    fn edge_serves(&self, edge: usize) -> bool {
        self.edges[edge].server.alive && !self.edges[edge].draining
    }

    /// Drains an edge's clients at random times. They connect to other edges.
    fn drain_edge(&mut self, lasts: Micros) -> Option<Undo> {
        let serving: Vec<_> = (0..self.edges.len()).filter(|edge| self.edge_serves(*edge)).collect();
        let index = self.rng.pick(&serving).filter(|_| serving.len() > 1)?;
        let edge = &mut self.edges[index];
        edge.draining = true;
        for client in edge.core.clients() {
            let at = self.rng.within(0, lasts);
            self.later_as(Kind::Timer, Host::Edge(index), at, move |world| {
                let retry_after_ms = world.rng.within(0, MAX_RETRY_AFTER / MS + 1);
                let core = &mut world.edges[index].core;
                core.send_away(client, CloseCode::GOING_AWAY, "this edge is going away", retry_after_ms);
                world.counters.add("clients: drained", 1);
            });
        }
        Some(Undo::ReplaceEdge(index))
    }

    /// Returns `true` if all pairs of nodes, and all edges and nodes, still have a path.
    fn has_detour(&self, undo: &Undo) -> bool {
        let Undo::Mend(cuts) = undo else { return false };
        let up = self.not_draining().filter(|node| self.serves(*node)).count();
        let between_nodes = |(from, to): &(Host, Host)| matches!((from, to), (Host::Node(_), Host::Node(_)));
        self.cut.iter().all(|cut| cuts.contains(cut)) && cuts.iter().all(between_nodes) && up > 2
    }

    fn pause(&mut self, host: Host) -> Option<Undo> {
        let since = self.agenda.now();
        let server = self.server_mut(host);
        if !server.alive || server.pause.is_some() {
            return None;
        }
        server.pause = Some(Pause { since, backlog: Vec::new() });
        Some(Undo::Resume(host))
    }

    /// Resumes a paused server: first the received inputs, then its timers. After a pause of at
    /// least 2 s it closes its trunks, and the lanes to it, unread. A server that is unaware of the
    /// pause first runs its timers, then the received inputs.
    fn resume(&mut self, host: Host, awareness: Awareness) {
        let Some(Pause { since, backlog }) = self.server_mut(host).pause.take() else { return };
        let lasted = self.agenda.now() - since;
        let (timers, arrived): (Vec<_>, Vec<_>) = backlog.into_iter().partition(|input| input.kind == Kind::Timer);
        if awareness == Awareness::Unaware {
            // Shells read a trunk before they check its silence.
            self.discount_pause(host, lasted);
        } else if lasted >= SILENCE && self.mutant != Some(Mutant::ProcessPause) {
            self.counters.add("process pauses detected", 1);
            let instant = self.agenda.instant();
            match host {
                Host::Node(index) => {
                    self.nodes[index].core.on_process_pause(instant);
                    self.close_lanes_to(index);
                }
                Host::Edge(index) => self.edges[index].core.on_process_pause(instant),
            }
            self.close_conns_of(host);
        }
        let [first, then] = match awareness {
            Awareness::Aware => [arrived, timers],
            Awareness::Unaware => [timers, arrived],
        };
        first.into_iter().chain(then).for_each(|input| self.carry_out(host, input));
    }

    /// Cuts an edge off from a node. The bytes of their trunk are lost, or arrive when it ends.
    fn cut_trunk(&mut self, lasts: Micros) -> Option<Undo> {
        let node = self.candidate()?;
        let edge = self.rng.index(self.edges.len());
        let frozen_until = self.rng.percent(50).then_some(self.agenda.now() + lasts);
        for id in 0..self.conns.len() {
            if self.conns[id].edge == edge && self.conns[id].node == node {
                match frozen_until {
                    Some(until) => self.freeze(id, until),
                    None => self.sever(id),
                }
            }
        }
        Some(self.cut_off(vec![(Host::Edge(edge), Host::Node(node))]))
    }

    fn cut_off(&mut self, cuts: Vec<(Host, Host)>) -> Undo {
        for cut in &cuts {
            if let (Host::Node(from), Host::Node(to)) = *cut {
                self.sever_lanes(from, to);
            }
        }
        self.cut.extend(cuts.iter().copied());
        Undo::Mend(cuts)
    }

    /// Picks nodes that serve and are not cut off, unless there are fewer than `of` such nodes.
    fn reachable(&mut self, count: usize, of: usize) -> Option<Vec<usize>> {
        let is_sound = |node: &usize| {
            self.serves(*node) && self.nodes[*node].server.pause.is_none() && !self.cut_off_nodes.contains(node)
        };
        let mut sound: Vec<_> = self.not_draining().filter(is_sound).collect();
        if sound.len() < of {
            return None;
        }
        Some((0..count).map(|_| sound.swap_remove(self.rng.index(sound.len()))).collect())
    }

    /// Cuts nodes off from all other nodes. A pair needs three others, or half of the nodes might
    /// be dropped while they live.
    fn isolate(&mut self, count: usize) -> Option<Undo> {
        let nodes = self.reachable(count, if count > 1 { 5 } else { 2 })?;
        let others = (0..self.nodes.len()).filter(|other| !nodes.contains(other)).map(Host::Node);
        let both =
            |other| nodes.iter().map(|node| Host::Node(*node)).flat_map(move |node| [(node, other), (other, node)]);
        let cuts: Vec<_> = others.flat_map(both).collect();
        self.cut_off(cuts.clone());
        self.cut_off_nodes.extend(&nodes);
        self.majority_may_be_lost();
        for node in nodes.clone() {
            if self.rng.percent(70) {
                self.blind.insert(node);
            }
            self.may_be_dropped(node);
        }
        Some(Undo::Reunite(nodes, cuts))
    }

    /// Kills a node so that no other server learns of it, and cuts it off from all of them.
    fn dies(&mut self) -> Option<Undo> {
        let node = self.reachable(1, 2)?.pop()?;
        let others = (0..self.nodes.len()).filter(|other| *other != node).map(Host::Node);
        let mut cuts: Vec<_> =
            others.flat_map(|other| [(Host::Node(node), other), (other, Host::Node(node))]).collect();
        cuts.extend((0..self.edges.len()).map(|edge| (Host::Edge(edge), Host::Node(node))));
        for id in 0..self.conns.len() {
            if self.conns[id].node == node {
                self.sever(id);
            }
        }
        self.cut_off(cuts.clone());
        self.cut_off_nodes.insert(node);
        self.majority_may_be_lost();
        self.kill_node(node);
        self.may_be_dropped(node);
        Some(Undo::Revive(node, cuts))
    }

    /// Without the majority rooms wait for discovery, for longer than announces live.
    fn majority_may_be_lost(&mut self) {
        self.subscribers.announces_were_lost |= 2 * self.cut_off_nodes.len() >= self.truth.len();
    }

    /// Has discovery drop a node within 12 s, in most cases, if the fault is not over by then.
    fn may_be_dropped(&mut self, node: usize) {
        if self.rng.percent(75) {
            let delay = self.rng.within(0, MAX_DETECTION);
            self.agenda.after(delay, move |world: &mut Self| {
                if world.cut_off_nodes.contains(&node) && world.truth.remove(&node).is_some() {
                    world.publish(false);
                }
            });
        }
    }

    fn mend(&mut self, cuts: &[(Host, Host)]) {
        self.cut.retain(|cut| !cuts.contains(cut));
    }

    fn restart(&mut self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.restart_node(*node));
        let listed = nodes.iter().filter(|node| self.truth.insert(**node, false) == Some(false)).count();
        if listed < nodes.len() {
            self.publish(false);
        }
    }

    fn cut_lane(&mut self) -> Option<Undo> {
        let one = self.candidate()?;
        let other = self.candidate().filter(|other| *other != one)?;
        match self.rng.within(0, 3) {
            0 => self.sever_lanes(one, other),
            1 => self.stall_lane(one, other),
            _ => {
                let now = self.agenda.now();
                let until = now + self.rng.within(SECOND, MAX_FREEZE);
                self.freeze_lane(one, other, until);
                // Two of them may follow each other.
                self.subscribers.announces_were_lost |= 2 * (until - now) > micros(self.hold);
                self.trouble.fault(FaultKind::CutLane, false, now, until);
            }
        }
        Some(Undo::Nothing)
    }

    fn cut_nodes(&mut self, both: bool) -> Option<Undo> {
        let one = self.candidate()?;
        let other = self.candidate().filter(|other| *other != one)?;
        let mut cuts = vec![(Host::Node(one), Host::Node(other))];
        if both {
            cuts.push((Host::Node(other), Host::Node(one)));
        }
        Some(self.cut_off(cuts))
    }

    fn join(&mut self) -> Option<Undo> {
        let node = self.nodes.len();
        self.add_node(node);
        self.truth.insert(node, false);
        self.publish(false);
        Some(Undo::Nothing)
    }

    fn drain(&mut self) -> Option<Undo> {
        let (now, node) = (self.agenda.now(), self.spare()?);
        self.truth.insert(node, true);
        self.nodes[node].core.drain(self.agenda.instant());
        self.node_turn(node);
        self.publish(false);
        self.trouble.fault(FaultKind::Drain, false, now, now + 5 * SECOND);
        self.drain_check_after(5 * SECOND, node, now + DRAIN_DEADLINE);
        Some(Undo::Nothing)
    }

    fn drain_check_after(&mut self, delay: Micros, node: usize, deadline: Micros) {
        self.agenda.after(delay, move |world: &mut Self| world.drain_check(node, deadline));
    }

    /// Stops a draining node once its work is done, and removes it from discovery.
    fn drain_check(&mut self, node: usize, deadline: Micros) {
        let now = self.agenda.now();
        let NodeHost { server, core, .. } = &self.nodes[node];
        if !server.alive {
            return;
        }
        if (core.is_quiet() && server.pause.is_none()) || now >= deadline {
            self.trace.line(|| format!("n{node} exits"));
            self.trouble.fault(FaultKind::Drain, false, now, now + SECOND);
            self.kill_node(node);
            self.truth.remove(&node);
            self.publish(false);
        } else {
            self.drain_check_after(500 * MS, node, deadline);
        }
    }

    /// Publishes the present nodes to every server, to each at its own time: within 200 ms, or
    /// unless `at_once`, with 40% probability within 6 s. Does nothing while discovery is silent.
    pub(crate) fn publish(&mut self, at_once: bool) {
        if self.silences > 0 {
            return;
        }
        let names_zones = self.mutant != Some(Mutant::Zones);
        let member = |(node, draining): (&usize, &bool)| {
            let zone = self.zone_of(*node).filter(|_| names_zones);
            Some(NodeEntry {
                id: node_id(*node),
                address: format!("n{node}:1").parse().ok()?,
                draining: *draining,
                zone: zone.and_then(|zone| Zone::new(&format!("z{zone}")).ok()),
            })
        };
        let Ok(view) = View::new(self.truth.iter().filter_map(member)) else { return };
        let now = self.agenda.now();
        self.trace.line(|| format!("discovery knows {}", names(&view)));
        self.views.push(Arc::new(view));
        let version = self.views.len() - 1;
        let slow = !at_once && self.rng.percent(40);
        let mut last = 0;
        let nodes = (0..self.nodes.len()).filter(|node| !self.blind.contains(node)).map(Host::Node);
        for host in (0..self.edges.len()).map(Host::Edge).chain(nodes).collect::<Vec<_>>() {
            let lag = if slow { self.rng.within(0, MAX_VIEW_DELAY) } else { self.rng.within(0, 200 * MS) };
            last = last.max(lag);
            self.later(host, lag, move |world| world.sees(host, version));
        }
        if !at_once {
            self.counters.add("views seen at different times", u64::from(slow));
        }
        self.trouble.view(now, now + last);
    }

    /// Sends the latest view to a server that has started, unless discovery is silent.
    pub(crate) fn gets_latest_view(&mut self, host: Host) {
        let latest = self.views.len() - 1;
        if self.silences == 0 {
            self.later(host, MS, move |world| world.sees(host, latest));
        }
    }

    /// Gives a view to a server, unless it has a later one.
    fn sees(&mut self, host: Host, version: usize) {
        let server = self.server_mut(host);
        if server.version.is_some_and(|before| before >= version) {
            return;
        }
        server.version = Some(version);
        self.trace.line(|| format!("{host} sees {}", names(&self.views[version])));
        match host {
            Host::Edge(index) => self.edge_view(index, version),
            Host::Node(index) => {
                self.nodes[index].core.set_view(self.agenda.instant(), self.views[version].clone());
                self.update_lanes(index);
            }
        }
    }

    /// Returns the nodes in a view; none without a version.
    pub(crate) fn members_seen_by(&self, version: Option<usize>) -> BTreeSet<usize> {
        let view = version.and_then(|version| self.views.get(version));
        let ids = view.iter().flat_map(|view| view.members()).map(|member| member.id.as_str());
        ids.filter_map(|id| id.trim_start_matches('n').parse().ok()).collect()
    }
}

fn names(view: &View) -> String {
    let name = |member: &NodeEntry| format!("{}{}", member.id, if member.draining { " (draining)" } else { "" });
    view.members().iter().map(name).collect::<Vec<_>>().join(", ")
}
