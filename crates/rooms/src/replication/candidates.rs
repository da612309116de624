//! Members of the view that can back up rooms of this node, and how far they are from it. Nodes of
//! one zone or one machine can fail at once, so the backup of a room is as far as possible.

use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::Ranking;

/// Distance of two nodes, the shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Distance {
    SameHost,
    OtherHost,
    OtherZone,
}

impl Distance {
    fn between(one: &NodeEntry, other: &NodeEntry) -> Self {
        let zones = one.zone.as_ref().zip(other.zone.as_ref());
        match zones.is_some_and(|(one, other)| one != other) {
            true => Self::OtherZone,
            false if one.address.host() != other.address.host() => Self::OtherHost,
            false => Self::SameHost,
        }
    }
}

/// State of a member that answers, the worst one for a backup first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    /// It could follow no owner within the last 2.5 s: it may lack the majority.
    Refusing,
    InProbation,
    Draining,
    Healthy,
}

/// Fitness of a member as a backup, the least first. Its distance counts among equal healths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fitness {
    pub(super) health: Health,
    pub(super) distance: Distance,
}

/// The other members of the view.
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) ranking: Ranking,
    /// Distance of each from this node, by its index in `ranking`.
    distances: Vec<Distance>,
}

impl Candidates {
    /// Returns the candidates of node `id`. A node outside of the view owns no rooms, and has none.
    pub(super) fn new(hash_seed: u64, id: &NodeId, view: &View) -> Self {
        let Some(own) = view.get(id.as_str()) else { return Self::default() };
        let others = || view.members().iter().filter(|member| member.id != own.id);
        // Both have the order of ids.
        let ranking = Ranking::new(hash_seed, others().map(|member| member.id.as_str()));
        Self { ranking, distances: others().map(|member| Distance::between(own, member)).collect() }
    }

    pub(super) fn distance(&self, index: usize) -> Option<Distance> {
        self.distances.get(index).copied()
    }
}
