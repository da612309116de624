//! The pace of handoffs: a few sessions per tick of the balancer, so that other traffic flows on.
//! A handoff moves a session to another node behind the client's open socket. The balancer's
//! backend and the simulation call this module.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::handoff_counts::HandoffCounts;
use super::placement::Placement;
use crate::edge::{ClientKey, EdgeCore, LinkKey};

/// The sessions of one balancer that wait for their handoff.
///
/// A rebalance hands off all sessions that are not at their owner. The caller calls
/// [`Self::plan`] at each change of the nodes, then [`Self::tick`] on a timer until
/// [`Self::is_over`].
#[derive(Debug, Default)]
pub struct HandoffScheduler {
    per_tick: usize,
    waiting: VecDeque<ClientKey>,
    running: Option<Rebalance>,
    counts: HandoffCounts,
}

#[derive(Debug)]
struct Rebalance {
    since: Instant,
    released: usize,
}

/// The result of one rebalance, with the sessions of plans made while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebalanceSummary {
    /// Number of sessions whose handoff began. It does not count sessions that ended, were
    /// detached, or no longer had another owner at their turn.
    pub clients: usize,
    /// Time from the first plan to the tick after which no session waited. The handoffs themselves
    /// may end later.
    pub took: Duration,
}

impl HandoffScheduler {
    /// Returns a scheduler that releases at most `per_tick` sessions at each [`Self::tick`].
    ///
    /// With 0, as in the default, it releases none. A rebalance then ends only after a plan without
    /// sessions.
    pub fn new(per_tick: usize) -> Self {
        Self { per_tick, ..Self::default() }
    }

    /// Queues the attached sessions that another node owns, in place of the queued ones. Starts a
    /// rebalance at `now` and returns their number.
    ///
    /// `None`: no rebalance starts. Either there are no such sessions, or a rebalance is running,
    /// which hands them off too. Sessions stay while no node takes clients.
    pub fn plan(&mut self, now: Instant, placement: &Placement, core: &EdgeCore) -> Option<usize> {
        self.waiting.clear();
        let misplaced = core.attached().filter(|(_, key, link)| placement.owner_elsewhere(*key, *link).is_some());
        self.waiting.extend(misplaced.map(|(client, ..)| client));
        if self.waiting.is_empty() || self.running.is_some() {
            return None;
        }
        self.running = Some(Rebalance { since: now, released: 0 });
        Some(self.waiting.len())
    }

    /// Releases the next sessions, at most `per_tick`: it starts the handoff of each to its current
    /// owner. Returns the summary and ends the rebalance if no session waits after it. `None`: no
    /// rebalance is running, or sessions still wait.
    pub fn tick(&mut self, now: Instant, placement: &Placement, core: &mut EdgeCore) -> Option<RebalanceSummary> {
        let running = self.running.as_mut()?;
        for client in self.waiting.drain(..self.per_tick.min(self.waiting.len())) {
            let Some((key, link)) = core.attachment(client) else { continue };
            let Some(owner) = placement.owner_elsewhere(key, link) else { continue };
            if let Some(former) = placement.node_at(link) {
                self.counts.record(former.as_str(), owner);
            }
            core.release(client, owner);
            running.released += 1;
        }
        if !self.waiting.is_empty() {
            return None;
        }
        let Rebalance { since, released } = self.running.take()?;
        Some(RebalanceSummary { clients: released, took: now.saturating_duration_since(since) })
    }

    /// Returns the number of sessions that wait for their handoff. 0 if no rebalance is running.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Counts the sessions of a lost trunk to `node` in [`Self::counts`], as handed off to their
    /// next owners. A session without an owner, or with `node` as owner, does not count. The caller
    /// calls it after [`Placement::link_down`] and before [`EdgeCore::link_down`].
    pub fn lost(&mut self, node: &str, link: LinkKey, placement: &Placement, core: &EdgeCore) {
        for (_, key, _) in core.attached().filter(|(_, _, at)| *at == link) {
            if let Some(owner) = placement.owner_id(key).filter(|owner| *owner != node) {
                self.counts.record(node, owner);
            }
        }
    }

    /// Returns the numbers of clients handed off between each pair of nodes, in all rebalances.
    /// Clients of lost trunks count too.
    pub fn counts(&self) -> &HandoffCounts {
        &self.counts
    }

    /// Returns `true` if no rebalance is running, also before the first one.
    pub fn is_over(&self) -> bool {
        self.running.is_none()
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::NodeId;
    use signaling_wire::trunk::ToNode;

    use super::*;
    use crate::edge::Settings;
    use crate::fixtures::{attach_client, view};

    const TICK: Duration = Duration::from_millis(5);

    /// Ten clients at node `a`.
    struct Mesh {
        core: EdgeCore,
        placement: Placement,
        scheduler: HandoffScheduler,
        now: Instant,
        a: LinkKey,
        b: LinkKey,
    }

    impl Mesh {
        fn new() -> Self {
            let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
            let (a, b) = (core.link_up(now, now), core.link_up(now, now));
            let mut mesh = Self { core, placement: Placement::new(0), scheduler: HandoffScheduler::new(4), now, a, b };
            mesh.sees(&["a"]);
            mesh.placement.link_up(now, id("a"), a);
            mesh.placement.link_up(now, id("b"), b);
            (0..10).for_each(|number| _ = attach_client(&mut mesh.core, now, a, number));
            let _ = mesh.core.take_batch(a);
            mesh
        }

        fn sees(&mut self, nodes: &[&str]) {
            self.placement.set_view(self.now, view(nodes));
        }

        fn plan(&mut self) -> Option<usize> {
            self.scheduler.plan(self.now, &self.placement, &self.core)
        }

        fn counts(&self) -> Vec<String> {
            let counts = self.scheduler.counts().iter();
            counts.map(|(from, to, clients)| format!("{from} {to} {clients}")).collect()
        }

        /// Returns the summary of one tick, and the nodes that its sessions go to.
        fn tick(&mut self) -> (Option<RebalanceSummary>, Vec<String>) {
            self.now += TICK;
            let said = self.scheduler.tick(self.now, &self.placement, &mut self.core);
            let batch = self.core.take_batch(self.a);
            let (mut rest, mut released) = (&batch[..], Vec::new());
            while !rest.is_empty() {
                if let ToNode::Release { to, .. } = ToNode::take(&mut rest).unwrap() {
                    released.push(to.to_owned());
                }
            }
            (said, released)
        }
    }

    fn id(node: &str) -> NodeId {
        NodeId::new(node).unwrap()
    }

    #[test]
    fn clients_of_a_lost_trunk_count_for_next_owners_if_any() {
        for (nodes, expected) in [(&["a", "b"][..], &["a b 10"][..]), (&["a"], &[])] {
            let mut mesh = Mesh::new();
            mesh.sees(nodes);
            mesh.placement.link_down(&id("a"), mesh.a);
            mesh.scheduler.lost("a", mesh.a, &mesh.placement, &mesh.core);
            assert_eq!(mesh.counts(), expected, "{nodes:?}");
        }
    }

    #[test]
    fn handoffs_are_paced_and_report_their_end() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        assert_eq!(mesh.plan(), Some(10));
        assert_eq!(mesh.tick(), (None, vec!["b".to_owned(); 4]));
        assert_eq!(mesh.tick(), (None, vec!["b".to_owned(); 4]));
        let summary = RebalanceSummary { clients: 10, took: 3 * TICK };
        assert_eq!(mesh.tick(), (Some(summary), vec!["b".to_owned(); 2]));
        assert_eq!(mesh.tick(), (None, vec![]));
        assert!(mesh.scheduler.is_over());
        assert_eq!(mesh.counts(), ["a b 10"]);
    }

    #[test]
    fn rebalance_without_moves_does_not_start() {
        let mut mesh = Mesh::new();
        assert_eq!(mesh.plan(), None);
        assert!(mesh.scheduler.is_over());
    }

    #[test]
    fn waiting_client_stays_when_its_node_returns() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.tick();
        mesh.sees(&["a"]);
        mesh.placement.link_down(&id("b"), mesh.b);
        let told = (0..3).find_map(|_| mesh.tick().0);
        assert_eq!(told, Some(RebalanceSummary { clients: 4, took: 3 * TICK }), "before the next plan");
    }

    #[test]
    fn change_under_way_belongs_to_the_same_rebalance() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.tick();
        assert_eq!(mesh.plan(), None, "it has begun already");
        mesh.tick();
        assert_eq!(mesh.tick().0, Some(RebalanceSummary { clients: 10, took: 3 * TICK }), "none is released twice");
    }

    #[test]
    fn plan_that_comes_to_nothing_ends_at_its_next_turn() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.sees(&["a"]);
        assert_eq!(mesh.plan(), None);
        assert_eq!(mesh.tick().0, Some(RebalanceSummary { clients: 0, took: TICK }));
    }
}
