//! Direct clients that another node owns in the latest view, each with the time at which it is sent
//! there.

use std::time::{Duration, Instant};

use signaling_protocol::NodeId;
use signaling_rendezvous::Ranking;
use slotmap::SecondaryMap;

use super::{ClientKey, EdgeCore};
use signaling_membership::View;

/// Direct clients to send away, each with its time.
#[derive(Debug)]
pub struct Reassignments {
    own_id: NodeId,
    hash_seed: u64,
    /// Time over which the clients that one view moves to other nodes are spread.
    window: Duration,
    due_by_client: SecondaryMap<ClientKey, Instant>,
}

impl Reassignments {
    /// Creates an empty schedule. `hash_seed` is the same on all servers. A client's time is at
    /// most `window` after the view.
    pub fn new(own_id: NodeId, hash_seed: u64, window: Duration) -> Self {
        Self { own_id, hash_seed, window, due_by_client: SecondaryMap::new() }
    }

    /// Applies a new view. An attached client that another node owns gets a time, or keeps the one
    /// it has. All others lose theirs. `fraction` draws the part of the window before a time, 0 to
    /// 1. Draining members own none, unless all drain. An empty view moves no client.
    pub fn set_view(&mut self, now: Instant, view: &View, core: &EdgeCore, mut fraction: impl FnMut() -> f64) {
        let settled = view.members().iter().any(|member| !member.draining);
        let candidates = view.members().iter().filter(|member| !settled || !member.draining);
        let ranking = Ranking::new(self.hash_seed, candidates.map(|member| member.id.as_str()));
        let own_rank = ranking.index_of(self.own_id.as_str());
        let mut before = std::mem::take(&mut self.due_by_client);
        for (client, key, _) in core.attached() {
            let owner = ranking.owner(key);
            if owner.is_some() && owner != own_rank {
                let due = before.remove(client).unwrap_or_else(|| now + self.window.mul_f64(fraction()));
                self.due_by_client.insert(client, due);
            }
        }
    }

    /// Removes and returns the clients whose time is not after `now`, in no order. Some may be
    /// gone.
    pub fn take_due(&mut self, now: Instant) -> Vec<ClientKey> {
        let due = self.due_by_client.iter().filter(|(_, due)| **due <= now).map(|(client, _)| client);
        let due: Vec<_> = due.collect();
        for client in &due {
            self.due_by_client.remove(*client);
        }
        due
    }

    /// Returns the number of clients with a time.
    pub fn clients(&self) -> usize {
        self.due_by_client.len()
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::trunk::DetachReason;

    use super::super::Settings;
    use super::*;
    use crate::fixtures::{attach_client, view};

    const WINDOW: Duration = Duration::from_secs(100);
    const CLIENTS: usize = 100;

    /// Node `a` with clients, some of which other nodes own.
    struct Node {
        core: EdgeCore,
        reassignments: Reassignments,
        start: Instant,
    }

    impl Node {
        fn new() -> Self {
            let (mut core, start) = (EdgeCore::new(Settings::default()), Instant::now());
            let link = core.link_up(start, start);
            (0..).take(CLIENTS).for_each(|number| _ = attach_client(&mut core, start, link, number));
            let reassignments = Reassignments::new(NodeId::new("a").unwrap(), 0, WINDOW);
            Self { core, reassignments, start }
        }

        /// Applies a view of these nodes. All clients draw the same fraction of the window.
        fn sees(&mut self, nodes: &[&str], fraction: f64) {
            self.reassignments.set_view(self.start, &view(nodes), &self.core, || fraction);
        }

        fn due_after(&mut self, time: Duration) -> Vec<ClientKey> {
            self.reassignments.take_due(self.start + time)
        }

        fn owned_by_others(&self, nodes: &[&str]) -> Vec<ClientKey> {
            let ranking = Ranking::new(0, nodes);
            let elsewhere = |key| ranking.id(ranking.owner(key).unwrap()) != "a";
            self.core.attached().filter(|(_, key, _)| elsewhere(*key)).map(|(client, ..)| client).collect()
        }
    }

    #[test]
    fn only_clients_of_other_owners_leave_at_their_time() {
        let mut node = Node::new();
        node.sees(&["a", "b"], 0.5);
        assert!(node.due_after(WINDOW / 2 - Duration::from_millis(1)).is_empty());
        let gone = node.due_after(WINDOW / 2);
        assert_eq!(gone, node.owned_by_others(&["a", "b"]));
        assert!((20..80).contains(&gone.len()));
        assert_eq!(node.reassignments.clients(), 0);
        assert!(node.due_after(WINDOW).is_empty(), "each is sent once");
    }

    #[test]
    fn client_returned_before_its_time_stays() {
        let mut node = Node::new();
        node.sees(&["a", "b"], 0.5);
        node.sees(&["a"], 0.5);
        assert!(node.due_after(WINDOW).is_empty());
    }

    #[test]
    fn further_view_does_not_delay_clients() {
        let mut node = Node::new();
        node.sees(&["a", "b"], 0.2);
        node.sees(&["a", "b", "c"], 0.9);
        assert_eq!(node.due_after(WINDOW / 5), node.owned_by_others(&["a", "b"]));
        assert!(!node.due_after(WINDOW).is_empty(), "those of the third node");
    }

    #[test]
    fn draining_node_owns_no_client_and_empty_view_moves_none() {
        let mut node = Node::new();
        node.sees(&[], 0.5);
        node.sees(&["-a"], 0.5);
        assert_eq!(node.reassignments.clients(), 0);
        node.sees(&["-a", "b"], 0.5);
        assert_eq!(node.due_after(WINDOW).len(), CLIENTS);
    }

    #[test]
    fn departed_client_is_forgotten() {
        let mut node = Node::new();
        node.sees(&["b"], 0.5);
        let client = node.core.clients()[0];
        node.core.socket_closed(client, DetachReason::Lost);
        node.sees(&["b"], 0.5);
        assert_eq!(node.due_after(WINDOW).len(), CLIENTS - 1);
    }
}
