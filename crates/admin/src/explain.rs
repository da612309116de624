//! Explanations of clients and rooms: their owners by hash, and their state at the nodes. A node is
//! suspect if it fails checks of the asked one. The eligible node with the highest score owns.

use serde::{Deserialize, Serialize};
use signaling_rendezvous::{KeyHash, Ranking};

use crate::Missing;
use crate::rooms::RoomOnNode;
use crate::servers::ViewName;

/// `GET /admin/explain/CLIENT`: the node `asked`, and `why`, a text from
/// [`sentence`](Self::sentence). `owner` is `None` if the view is empty. `stand_in` owns the client
/// while the owner is suspect (`None`: the owner is not, or all eligible nodes are). `ranking` has
/// all nodes of the view, the highest score first. `nodes` has the state of the client at each node
/// that has any, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub client_id: String,
    pub asked: String,
    /// The asked node's view.
    pub view: ViewName,
    pub why: String,
    pub owner: Option<String>,
    pub stand_in: Option<String>,
    pub ranking: Vec<Candidate>,
    pub nodes: Vec<ClientOnNode>,
    pub missing: Vec<Missing>,
}

/// A node with its score for a client or room, 16 hexadecimal digits. `eligible`: it may own
/// clients and rooms now, because it does not drain, or all nodes drain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub node: String,
    pub score: String,
    pub eligible: bool,
    pub draining: bool,
    pub suspect: bool,
}

/// State of a client at one node; `None` and empty fields mean that the node has no such state.
/// `located` is a peer node that has the client against the ranking: it reported that, or this node
/// handed the client off to it. `rooms` has the seats of the session, also of a lingering one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientOnNode {
    pub node: String,
    pub session: Option<SessionOnNode>,
    pub lingering: Option<LingeringOnNode>,
    pub held: Option<Held>,
    pub located: Option<String>,
    pub rooms: Vec<SeatOnNode>,
}

/// A session with a socket, at a node. To the client: messages `unconfirmed` by its edge, and
/// `backlog` if more are queued until it confirms some. From the client: messages `without_outcome`
/// to `recipients` clients; room `commands` without an answer; `broadcasts` without all outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOnNode {
    /// Id of the session, in hexadecimal digits.
    pub session: String,
    /// Rank of the socket. Of two sessions the one with the higher rank stays.
    pub generation: u64,
    /// Time at which the edge accepted the socket, in ms since 1970.
    pub since_ms: u64,
    /// `true` if the client confirms messages, and retransmits its own ones after a resume.
    pub reliable: bool,
    /// `true` if it continues an older socket's session.
    pub resumed: bool,
    /// Balancer that holds the socket. `None`: the node itself, or an edge without a name.
    pub edge: Option<String>,
    /// Number of the session on the trunk of `edge`.
    pub slot: u64,
    pub unconfirmed: Queue,
    pub backlog: bool,
    pub without_outcome: usize,
    pub recipients: usize,
    pub commands: usize,
    pub broadcasts: usize,
    /// `true` if a newer connection waits for the `client_id`.
    pub contended: bool,
}

/// A lingering session, with its id. The client can resume it for `left_ms` ms more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LingeringOnNode {
    pub session: String,
    pub left_ms: u64,
}

/// A number of messages with the total size of their payloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub messages: usize,
    pub bytes: usize,
}

/// Messages held for a client, their bytes (160 more for each), and ms within which none expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub messages: usize,
    pub bytes: usize,
    pub first_expires_ms: u64,
}

/// A client's seat in a room. `ahead` is the number of clients before it in the waiting queue in
/// the last answer of the room's owner (`None`: it does not wait).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatOnNode {
    pub room: String,
    pub status: SeatStatus,
    pub ahead: Option<u64>,
}

/// Status of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatStatus {
    /// In the room.
    Member,
    /// In the waiting queue.
    Waiting,
    /// The room's owner has not confirmed the seat, or no longer has it.
    Unknown,
}

/// `GET /admin/rooms/ROOM/explain`: the node `asked`, and `why`, a text from
/// [`sentence`](Self::sentence). `owner` is `None` if the view is empty. A room has no stand-in.
/// `ranking` has all nodes of the view, the highest score first. `nodes`: all that answered, by
/// name, also those without a seat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomExplanation {
    pub room: String,
    pub asked: String,
    /// The asked node's view.
    pub view: ViewName,
    pub why: String,
    pub owner: Option<String>,
    pub ranking: Vec<Candidate>,
    pub nodes: Vec<RoomAtNode>,
    pub missing: Vec<Missing>,
}

/// State of a room at one node: its view, and its clients that are members or waiting. `owned`: the
/// room itself (`None`: the node does not own it, does not serve it yet, or it has no seat).
/// `unconfirmed`: nodes of its view that have not confirmed that view to it. Without `majority` it
/// serves no rooms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomAtNode {
    pub node: String,
    pub view: ViewName,
    pub members: u64,
    pub waiting: u64,
    pub unconfirmed: Vec<String>,
    pub majority: bool,
    pub owned: Option<OwnedRoom>,
}

/// A room at its owner. `backup` has the second copy (`None`: there is none now). `incarnation`
/// rises when the room is rebuilt, `version` with each change that members are sent. `members` and
/// `waiting` are numbers of clients, `nodes` has them for each node with any. `journal` is its last
/// write to the room journal (`None`: there was none).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedRoom {
    pub backup: Option<String>,
    pub incarnation: u64,
    pub version: u64,
    pub members: u64,
    pub waiting: u64,
    pub nodes: Vec<RoomOnNode>,
    pub journal: Option<JournalWrite>,
}

/// A write to the room journal: the owner's epoch, and the number of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalWrite {
    pub epoch: u64,
    pub number: u64,
}

/// Returns the ids of all nodes with their scores for the client or room `name`, the highest first.
/// A score has 16 hexadecimal digits. `hash_seed` is the seed of the mesh.
pub fn scores<'a>(hash_seed: u64, nodes: impl Iterator<Item = &'a str>, name: &str) -> Vec<(String, String)> {
    let (ranking, key) = (Ranking::new(hash_seed, nodes), KeyHash::of(name));
    let candidates = ranking.candidates(key).into_iter();
    candidates.map(|at| (ranking.id(at).to_owned(), format!("{:016x}", ranking.score_of(key, at)))).collect()
}

impl Explanation {
    /// Returns the newest session of the client with a socket, by `generation`, and its node.
    /// `None`: no node that answered has one.
    pub fn serving(&self) -> Option<(&ClientOnNode, &SessionOnNode)> {
        let sessions = self.nodes.iter().filter_map(|at| Some((at, at.session.as_ref()?)));
        sessions.max_by_key(|(_, session)| session.generation)
    }

    /// Returns `true` if an answering node has a session of the client, with a socket or lingering.
    pub fn is_known(&self) -> bool {
        self.nodes.iter().any(|at| at.session.is_some() || at.lingering.is_some())
    }

    /// Returns a summary of one or two sentences.
    pub fn sentence(&self) -> String {
        let Some(owner) = &self.owner else {
            return "The view has no node: no node owns the client.".to_owned();
        };
        let expected = self.stand_in.as_ref().unwrap_or(owner);
        let by = match &self.stand_in {
            None => format!("{owner} owns it: the highest score of the nodes that may own clients"),
            Some(other) => format!("{owner} owns it, but is suspect here: {other} stands in for it"),
        };
        let lingers = self.nodes.iter().find(|at| at.lingering.is_some());
        match (self.serving(), lingers) {
            (Some((at, session)), _) => {
                let edge = session.edge.as_deref().map_or("its own listener".into(), |edge| format!("balancer {edge}"));
                if at.node == *expected {
                    format!("{by}, and it serves it, through {edge}.")
                } else {
                    format!(
                        "{by}; {} serves it, through {edge}: it is on its way, or its balancer sees the nodes otherwise.",
                        at.node
                    )
                }
            }
            (None, Some(at)) => format!("{by}. It has no socket; its session waits for it at {}.", at.node),
            (None, None) if self.missing.is_empty() => {
                format!("{by}. No node has it: it is not connected to the mesh.")
            }
            (None, None) => format!("{by}. No node that answers has it."),
        }
    }
}

impl RoomExplanation {
    /// Returns a summary of one or two sentences.
    pub fn sentence(&self) -> String {
        let Some(owner) = &self.owner else {
            return "The view has no node: no node owns the room.".to_owned();
        };
        let by = format!("{owner} owns it: the highest score of the nodes that may own rooms");
        let Some(at) = self.nodes.iter().find(|at| at.node == *owner) else {
            return format!("{by}. It does not answer.");
        };
        if !at.majority {
            return format!("{by}. It serves no rooms: fewer than half of the other nodes of its view answer.");
        }
        match &at.owned {
            Some(room @ OwnedRoom { version, members, waiting, .. }) => {
                let lacking = self.nodes_with_more_seats_than(room).join(", ");
                let lacks = if lacking.is_empty() { String::new() } else { format!(" It lacks seats of {lacking}.") };
                format!("{by}. It serves version {version} with {members} members and {waiting} waiting.{lacks}")
            }
            None if !at.unconfirmed.is_empty() => {
                let names = at.unconfirmed.join(", ");
                format!("{by}. It does not serve it yet: nodes have not confirmed its view ({names}).")
            }
            None => format!("{by}. It has no such room: no client has a seat."),
        }
    }

    /// Returns the nodes with more seats than the owner knows of: it has not received their claims.
    fn nodes_with_more_seats_than(&self, room: &OwnedRoom) -> Vec<&str> {
        let known =
            |at: &RoomAtNode| room.nodes.iter().find(|of| of.node == at.node).map_or(0, |of| of.members + of.waiting);
        let has_more = |at: &&RoomAtNode| at.members + at.waiting > known(at);
        self.nodes.iter().filter(has_more).map(|at| at.node.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(node: &str, generation: u64) -> ClientOnNode {
        let session = SessionOnNode { generation, edge: Some("balancer-0".into()), ..SessionOnNode::default() };
        ClientOnNode { node: node.into(), session: Some(session), ..ClientOnNode::default() }
    }

    fn explanation(stand_in: Option<&str>, nodes: Vec<ClientOnNode>) -> String {
        let (owner, stand_in) = (Some("node-1".into()), stand_in.map(Into::into));
        Explanation { owner, stand_in, nodes, ..Explanation::default() }.sentence()
    }

    #[test]
    fn sentence_distinguishes_owner_stand_in_and_other_nodes() {
        assert!(explanation(None, vec![at("node-1", 1)]).ends_with("and it serves it, through balancer balancer-0."));
        let both = explanation(None, vec![at("node-1", 1), at("node-2", 2)]);
        assert!(both.contains("node-2 serves it"), "the newer session counts: {both}");
        let stand_in = explanation(Some("node-2"), vec![at("node-2", 2)]);
        assert!(stand_in.contains("suspect here: node-2 stands in for it, and it serves it"), "{stand_in}");
        assert!(explanation(None, vec![]).ends_with("No node has it: it is not connected to the mesh."));
    }

    #[test]
    fn scores_are_sorted_and_the_first_is_the_owners() {
        let nodes = ["node-0", "node-1", "node-2"];
        let scores: Vec<(String, String)> = scores(0, nodes.into_iter(), "alice");
        let ranking = Ranking::new(0, nodes);
        let owner = ranking.owner(KeyHash::of("alice")).map(|at| ranking.id(at).to_owned());
        assert_eq!(owner.as_ref(), scores.first().map(|(node, _)| node));
        assert!(scores.windows(2).all(|pair| pair[0].1 > pair[1].1), "{scores:?}");
    }

    #[test]
    fn room_sentence_names_owner_state_and_nodes_it_waits_for() {
        let node = |name: &str, owned, unconfirmed: &[&str]| RoomAtNode {
            node: name.into(),
            owned,
            unconfirmed: unconfirmed.iter().map(ToString::to_string).collect(),
            majority: true,
            ..RoomAtNode::default()
        };
        let missing = |name: &str| Missing { node: name.into(), why: "no answer".into() };
        let room = OwnedRoom { version: 7, members: 2, waiting: 1, ..OwnedRoom::default() };
        let sentence = |nodes, missing| {
            let owner = Some("node-1".to_owned());
            RoomExplanation { owner, nodes, missing, ..RoomExplanation::default() }.sentence()
        };
        let beside = RoomAtNode { members: 1, ..node("node-3", None, &[]) };
        let isolated = RoomAtNode { majority: false, ..node("node-1", None, &[]) };
        for (text, end) in [
            (sentence(vec![isolated], vec![]), "fewer than half of the other nodes of its view answer."),
            (sentence(vec![node("node-1", Some(room.clone()), &[]), beside], vec![]), "It lacks seats of node-3."),
            (sentence(vec![node("node-1", Some(room), &[])], vec![]), "version 7 with 2 members and 1 waiting."),
            (sentence(vec![node("node-1", None, &[])], vec![]), "no client has a seat."),
            (sentence(vec![node("node-2", None, &[])], vec![missing("node-1")]), "It does not answer."),
            (
                sentence(vec![node("node-1", None, &["node-2", "node-3"])], vec![]),
                "have not confirmed its view (node-2, node-3).",
            ),
        ] {
            assert!(text.starts_with("node-1 owns it") && text.ends_with(end), "{text}");
        }
        assert!(RoomExplanation::default().sentence().contains("no node owns"));
    }
}
