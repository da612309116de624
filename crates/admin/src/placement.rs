//! Explanation of a client's placement by a balancer, filled in by its operator routes.

use serde::{Deserialize, Serialize};

use crate::explain::{Candidate, Queue};
use crate::servers::ViewName;

/// `GET /admin/explain/CLIENT` of a balancer: the balancer `asked`, and `why`, a text from
/// [`sentence`](Self::sentence). `owner` is the node to which it assigns the client now (`None`: no
/// node takes clients). `ranking` has all nodes of the view, the highest score first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerExplanation {
    pub client_id: String,
    pub asked: String,
    /// The asked balancer's view.
    pub view: ViewName,
    pub why: String,
    pub owner: Option<String>,
    pub ranking: Vec<Candidate>,
    pub sessions: Vec<EdgeSession>,
}

/// A session at an edge. `since_ms` is the Unix time of its socket in ms, `generation` the same in
/// µs. `node` is the node that it is attached to (`None`: none), `moving_to` the target of a
/// planned or running handoff (`None`: it stays). `unfated` are messages of the client without an
/// outcome, `unwritten_bytes` are not yet in its socket. `reliable`: the client confirms.
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

/// State of a client's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketState {
    /// Waiting for a node to accept the client.
    Waiting,
    /// Open.
    Open,
    /// Open but not read, since too many messages have no outcome yet.
    Paused,
    /// Closed; the session ends once all its messages have an outcome.
    Closed,
}

/// Attachment of a session at an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceState {
    /// Attached to no node; its messages are held.
    Nowhere,
    /// Attached to a node, or an attach to it was sent.
    At,
    /// Handoff requested; its node has not released it yet.
    Leaving,
}

impl BalancerExplanation {
    /// Returns a summary of one or two sentences.
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
            (PlaceState::At, Some(node), _) => format!("{by}; it is at {node} still and waits for its handoff."),
            (PlaceState::Leaving, Some(node), _) => format!("{by}; its handoff from {node} is requested."),
            _ => format!("{by}; no node serves it now."),
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
    fn placement_report_has_the_reason_of_skipped_nodes() {
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
