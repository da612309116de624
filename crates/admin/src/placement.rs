//! Why a balancer has a client at the node where it has it.

use serde::{Deserialize, Serialize};

use crate::explain::{Candidate, Queue};
use crate::servers::ViewName;

/// `GET /admin/explain/CLIENT` of a balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerExplanation {
    pub client_id: String,
    pub asked: String,
    /// What it sees of the mesh.
    pub view: ViewName,
    pub why: String,
    pub owner: Option<String>,
    pub ranking: Vec<Candidate>,
    pub sessions: Vec<EdgeSession>,
}

/// A session at an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSession {
    pub session: String,
    pub generation: u64,
    pub since_ms: u64,
    pub reliable: bool,
    pub socket: SocketState,
    pub place: PlaceState,
    pub node: Option<String>,
    pub moving_to: Option<String>,
    pub unfated: Queue,
    pub unwritten_bytes: usize,
}

/// How a client's socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketState {
    /// It waits for a node to let it in.
    Waiting,
    /// Open.
    Open,
    /// Open, and not read: too much of it waits for its fate.
    Paused,
    /// Closed: the session ends once all that it sent has its fate.
    Closed,
}

/// How a session at an edge stands with nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceState {
    /// No node serves it: what it sends waits.
    Nowhere,
    /// A node does, or was asked to.
    At,
    /// Its node was told to hand it off, and has not let go yet.
    Leaving,
}

impl BalancerExplanation {
    /// How it all hangs together, in a sentence or two.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(owner) = &self.owner else {
            return "No node takes clients: none is in the view, or no trunk leads to any.".to_owned();
        };
        let passed_over = self.ranking.iter().take_while(|candidate| candidate.node != *owner);
        let reasons: Vec<_> = passed_over.map(Candidate::reason).collect();
        let by = if reasons.is_empty() {
            format!("It belongs to {owner}: the highest score")
        } else {
            format!("It belongs to {owner}: the highest score but for {}", reasons.join(", "))
        };
        let Some(session) = self.sessions.iter().max_by_key(|session| session.generation) else {
            return format!("{by}. It has no session at this balancer.");
        };
        match (session.place, &session.node, &session.moving_to) {
            (PlaceState::At, Some(node), None) if node == owner => format!("{by}, and is there."),
            (PlaceState::At, Some(node), _) => format!("{by}; it is at {node} still, and waits for its turn to move."),
            (PlaceState::Leaving, Some(node), _) => format!("{by}; {node} was told to hand it off."),
            _ => format!("{by}; no node serves it at this moment."),
        }
    }
}

impl Candidate {
    fn reason(&self) -> String {
        let why = match self {
            Self { trunk: Some(false), .. } => "no trunk leads there",
            Self { draining: true, .. } => "draining",
            Self { suspect: true, .. } => "suspect",
            _ => "not used",
        };
        format!("{} ({why})", self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balancer_says_why_better_nodes_are_passed_over() {
        let candidate = |node: &str, trunk: bool, suspect: bool| Candidate {
            node: node.into(),
            suspect,
            trunk: Some(trunk),
            ..Candidate::default()
        };
        let ranking =
            vec![candidate("node-0", false, true), candidate("node-1", true, true), candidate("node-2", true, false)];
        let explanation =
            BalancerExplanation { owner: Some("node-2".into()), ranking, ..BalancerExplanation::default() };
        assert_eq!(
            explanation.sentence(),
            "It belongs to node-2: the highest score but for node-0 (no trunk leads there), node-1 (suspect). \
             It has no session at this balancer."
        );
    }
}
