//! Clients that another node owns now, handed off a few at a time, so that the traffic of all others flows on. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::edge::{ClientKey, EdgeCore, LinkKey};

use crate::balancer::flows::HandoffCounts;
use crate::balancer::placement::Placement;

/// Those who wait for their handoff.
#[derive(Debug)]
pub struct HandoffScheduler {
    per_turn: usize,
    waiting: VecDeque<ClientKey>,
    under_way: Option<UnderWay>,
    flows: HandoffCounts,
}

#[derive(Debug)]
struct UnderWay {
    since: Instant,
    released: usize,
}

/// What one rearrangement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebalanceSummary {
    /// How many clients their nodes were told to hand off.
    pub clients: usize,
    /// How long it took to tell them.
    pub took: Duration,
}

impl HandoffScheduler {
    /// Nobody moves yet. At most `per_turn` will be released by one [`HandoffScheduler::turn`].
    #[must_use]
    pub fn new(per_turn: usize) -> Self {
        Self { per_turn, waiting: VecDeque::new(), under_way: None, flows: HandoffCounts::default() }
    }

    /// Nodes have come or gone: looks anew at who must move. If a rearrangement begins with it, says of how many clients.
    pub fn plan(&mut self, now: Instant, placement: &Placement, core: &EdgeCore) -> Option<usize> {
        self.waiting.clear();
        self.waiting.extend(placement.misplaced(core));
        if self.waiting.is_empty() || self.under_way.is_some() {
            return None;
        }
        self.under_way = Some(UnderWay { since: now, released: 0 });
        Some(self.waiting.len())
    }

    /// Releases the next few, each to its owner of this moment. Says what it came to when nobody waits any more.
    pub fn turn(&mut self, now: Instant, placement: &Placement, core: &mut EdgeCore) -> Option<RebalanceSummary> {
        let under_way = self.under_way.as_mut()?;
        for client in self.waiting.drain(..self.per_turn.min(self.waiting.len())) {
            let Some((key, link)) = core.attachment(client) else { continue };
            let Some(owner) = placement.owner_elsewhere(key, link) else { continue };
            if let Some(former) = placement.node_at(link) {
                self.flows.count(former.as_str(), owner);
            }
            core.release(client, owner);
            under_way.released += 1;
        }
        if !self.waiting.is_empty() {
            return None;
        }
        let UnderWay { since, released } = self.under_way.take()?;
        Some(RebalanceSummary { clients: released, took: now.saturating_duration_since(since) })
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The trunk to a node is gone, and the placement knows it: counts its clients as gone to their next owners.
    pub fn lost(&mut self, node: &str, link: LinkKey, placement: &Placement, core: &EdgeCore) {
        for (_, key, _) in core.attached().filter(|(_, _, at)| *at == link) {
            if let Some(owner) = placement.owner_id(key).filter(|owner| *owner != node) {
                self.flows.count(node, owner);
            }
        }
    }

    /// How many clients went from which node to which.
    #[must_use]
    pub fn flows(&self) -> &HandoffCounts {
        &self.flows
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.under_way.is_none()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use crate::edge::{ConnectRequest, LinkKey, Newcomer, Settings};
    use crate::{Member, View};
    use signaling_protocol::{ClientId, NodeId};
    use signaling_wire::SessionId;
    use signaling_wire::trunk::ToNode;

    use super::*;

    const TICK: Duration = Duration::from_millis(5);

    /// Ten clients at node `a`.
    struct Mesh {
        core: EdgeCore,
        placement: Placement,
        moves: HandoffScheduler,
        now: Instant,
        a: LinkKey,
        b: LinkKey,
    }

    impl Mesh {
        fn new() -> Self {
            let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
            let (a, b) = (core.link_up(), core.link_up());
            let mut mesh = Self { core, placement: Placement::new(0), moves: HandoffScheduler::new(4), now, a, b };
            mesh.sees(&["a"]);
            mesh.placement.link_up(now, id("a"), a);
            mesh.placement.link_up(now, id("b"), b);
            for n in 0..10_u8 {
                let client = mesh.core.connect(
                    now,
                    Newcomer {
                        client_id: ClientId::new(&format!("client-{n}")).unwrap(),
                        session: SessionId([n; 16]),
                        accepted_at_us: 1,
                        reliable: false,
                        request: ConnectRequest::default(),
                    },
                );
                mesh.core.attach(now, client, a);
            }
            let _ = mesh.core.take_batch(a);
            mesh
        }

        fn sees(&mut self, nodes: &[&str]) {
            let member = |node: &&str| Member { id: id(node), address: "h:1".parse().unwrap(), draining: false };
            self.placement.set_view(self.now, Arc::new(View::new(nodes.iter().map(member)).unwrap()));
        }

        fn plan(&mut self) -> Option<usize> {
            self.moves.plan(self.now, &self.placement, &self.core)
        }

        fn flows(&self) -> Vec<String> {
            let flows = self.moves.flows().iter();
            flows.map(|(from, to, clients)| format!("{from} {to} {clients}")).collect()
        }

        /// What one turn said, and where its clients were told to go.
        fn turn(&mut self) -> (Option<RebalanceSummary>, Vec<String>) {
            self.now += TICK;
            let said = self.moves.turn(self.now, &self.placement, &mut self.core);
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
    fn clients_of_a_trunk_that_is_lost_count_as_gone_to_their_next_owners() {
        let mut mesh = Mesh::new();
        mesh.sees(&["a", "b"]);
        mesh.placement.link_down(&id("a"), mesh.a);
        mesh.moves.lost("a", mesh.a, &mesh.placement, &mesh.core);
        assert_eq!(mesh.flows(), ["a b 10"]);
    }

    #[test]
    fn clients_that_no_node_can_serve_have_not_gone_anywhere() {
        let mut mesh = Mesh::new();
        mesh.placement.link_down(&id("a"), mesh.a);
        mesh.moves.lost("a", mesh.a, &mesh.placement, &mesh.core);
        assert_eq!(mesh.flows(), [""; 0]);
    }

    #[test]
    fn clients_move_a_few_at_a_time_and_the_end_is_told() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        assert_eq!(mesh.plan(), Some(10));
        assert_eq!(mesh.turn(), (None, vec!["b".to_owned(); 4]));
        assert_eq!(mesh.turn(), (None, vec!["b".to_owned(); 4]));
        let rearranged = RebalanceSummary { clients: 10, took: 3 * TICK };
        assert_eq!(mesh.turn(), (Some(rearranged), vec!["b".to_owned(); 2]));
        assert_eq!(mesh.turn(), (None, vec![]));
        assert!(mesh.moves.is_over());
        assert_eq!(mesh.flows(), ["a b 10"]);
    }

    #[test]
    fn where_nobody_moves_nothing_begins() {
        let mut mesh = Mesh::new();
        assert_eq!(mesh.plan(), None);
        assert!(mesh.moves.is_over());
    }

    #[test]
    fn who_waits_while_its_node_comes_back_stays() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.turn();
        mesh.sees(&["a"]);
        mesh.placement.link_down(&id("b"), mesh.b);
        let told = (0..3).find_map(|_| mesh.turn().0);
        assert_eq!(told, Some(RebalanceSummary { clients: 4, took: 3 * TICK }), "even before anybody plans anew");
    }

    #[test]
    fn a_change_under_way_belongs_to_the_same_rearrangement() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.turn();
        assert_eq!(mesh.plan(), None, "it has begun already");
        mesh.turn();
        assert_eq!(mesh.turn().0, Some(RebalanceSummary { clients: 10, took: 3 * TICK }), "nobody is released twice");
    }

    #[test]
    fn a_plan_that_comes_to_nothing_ends_at_its_next_turn() {
        let mut mesh = Mesh::new();
        mesh.sees(&["b"]);
        mesh.plan();
        mesh.sees(&["a"]);
        assert_eq!(mesh.plan(), None);
        assert_eq!(mesh.turn().0, Some(RebalanceSummary { clients: 0, took: TICK }));
    }
}
