//! Preview of clients that would move if a node joined or left, for `GET /admin/preview`. No I/O.
//!
//! Each node counts its own clients and one node adds up the counts, so no list of all clients is
//! ever built. The result depends only on the view; it ignores suspect states.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use signaling_rendezvous::{KeyHash, Ranking};

use crate::servers::ViewName;
use crate::{Missing, Page};

/// A change of the view to preview, with the name of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", content = "node", rename_all = "snake_case")]
pub enum Change {
    /// A node joins, or a draining one returns to service.
    Join(String),
    /// A node leaves the view. A drain moves the same clients, unless all other members drain.
    Leave(String),
}

/// Reason why a change cannot be previewed, with the name of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviewError {
    /// The node to join is in the view and does not drain.
    AlreadyServing(String),
    /// The node to leave is not in the view.
    Unknown(String),
    /// The node to leave is the only one in the view.
    Last(String),
}

impl PreviewError {
    /// Returns a text for the operator.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::AlreadyServing(node) => {
                format!("{node} is in the view and takes clients already: nothing would change")
            }
            Self::Unknown(node) => format!("there is no node {node} in the view"),
            Self::Last(node) => format!("{node} is the only node: its clients could move nowhere"),
        }
    }
}

/// Returns the nodes that may own clients: members without a drain, or all if every one drains.
fn eligible(members: &[(&str, bool)]) -> Vec<String> {
    let settled = members.iter().any(|(_, draining)| !draining);
    members.iter().filter(|(_, draining)| !settled || !draining).map(|(id, _)| (*id).to_owned()).collect()
}

/// Rankings of the eligible nodes before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rankings {
    before: Ranking,
    after: Ranking,
}

impl Rankings {
    /// Creates the rankings from a view's members, each with `true` if it drains.
    ///
    /// # Errors
    /// If the change would have no effect, or no node would be left.
    pub fn new(hash_seed: u64, members: &[(&str, bool)], change: &Change) -> Result<Self, PreviewError> {
        let before = eligible(members);
        let after = match change {
            Change::Join(node) if members.contains(&(node.as_str(), false)) => {
                return Err(PreviewError::AlreadyServing(node.clone()));
            }
            Change::Join(node) => {
                let others = members.iter().copied().filter(|(id, _)| id != node);
                eligible(&others.chain([(node.as_str(), false)]).collect::<Vec<_>>())
            }
            Change::Leave(node) => {
                let others: Vec<_> = members.iter().copied().filter(|(id, _)| id != node).collect();
                match others.len() {
                    all if all == members.len() => return Err(PreviewError::Unknown(node.clone())),
                    0 => return Err(PreviewError::Last(node.clone())),
                    _ => eligible(&others),
                }
            }
        };
        Ok(Self { before: Ranking::new(hash_seed, before), after: Ranking::new(hash_seed, after) })
    }

    /// Returns the client's owner before and after; `None` if there is no node before or after.
    fn owners(&self, client: &str) -> Option<(&str, &str)> {
        let (key, Self { before, after }) = (KeyHash::of(client), self);
        Some((before.id(before.owner(key)?), after.id(after.owner(key)?)))
    }

    /// Returns the effect of the change on the clients of `node`: counts, and one page of moves.
    pub fn preview<'a>(
        &self,
        view: ViewName,
        change: &Change,
        node: &str,
        clients: impl Iterator<Item = &'a str> + Clone,
        page: &Page,
    ) -> Preview {
        let mut flows: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let (mut total, mut elsewhere) = (0, 0);
        let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for id in self.before.ids().iter().chain(self.after.ids()) {
            counts.entry(id).or_default();
        }
        for (from, to) in clients.clone().filter_map(|client| self.owners(client)) {
            total += 1;
            elsewhere += u64::from(from != node);
            counts.entry(from).or_default().0 += 1;
            counts.entry(to).or_default().1 += 1;
            if from != to {
                *flows.entry((from, to)).or_default() += 1;
            }
        }
        let moves = clients.filter(|client| self.owners(client).is_some_and(|(from, to)| from != to));
        let (picked, more) = page.pick(moves);
        let moving = |client: &str| {
            let (from, to) = self.owners(client)?;
            Some(Move { client_id: client.to_owned(), from: from.to_owned(), to: to.to_owned() })
        };
        // Linear in the number of clients, so that the values of several nodes can be added.
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let per_node = |nodes: usize| total as f64 / nodes.max(1) as f64;
        let of_node = |(node, (before, after)): (&str, _)| NodeClients { node: node.to_owned(), before, after };
        let flow = |((from, to), clients)| Flow::new(from, to, clients);
        Preview {
            change: change.clone(),
            view,
            total,
            moving: flows.values().sum(),
            ideal_moving: per_node(self.before.len().max(self.after.len())),
            ideal_share: per_node(self.after.len()),
            elsewhere,
            nodes: counts.into_iter().map(of_node).collect(),
            flows: flows.into_iter().map(flow).collect(),
            next: picked.last().filter(|_| more).map(|client| (*client).to_owned()),
            clients: picked.into_iter().filter_map(moving).collect(),
            missing: Vec::new(),
        }
    }
}

/// `GET /admin/preview`. Counts are of clients with a socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    #[serde(flatten)]
    pub change: Change,
    /// View that the result depends on.
    pub view: ViewName,
    /// All clients.
    pub total: u64,
    /// Clients that would get another owner.
    pub moving: u64,
    /// Value of `moving` if every node owned equally many clients.
    pub ideal_moving: f64,
    /// Clients per node after the change if every node owned equally many.
    pub ideal_share: f64,
    /// Clients that are not at their present owner; they move even without the change.
    pub elsewhere: u64,
    pub nodes: Vec<NodeClients>,
    pub flows: Vec<Flow>,
    /// One page of the moving clients.
    pub clients: Vec<Move>,
    /// Cursor of the next page; `None`: this is the last.
    pub next: Option<String>,
    pub missing: Vec<Missing>,
}

/// Numbers of clients that a node owns before and after the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClients {
    pub node: String,
    pub before: u64,
    pub after: u64,
}

/// Number of clients that move from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub from: String,
    pub to: String,
    pub clients: u64,
}

/// A client that would move, with its owners before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub client_id: String,
    pub from: String,
    pub to: String,
}

impl Flow {
    /// Creates a flow of `clients` clients between two nodes.
    #[must_use]
    pub fn new(from: &str, to: &str, clients: u64) -> Self {
        Self { from: from.to_owned(), to: to.to_owned(), clients }
    }
}

impl Preview {
    /// Adds another node's preview of the same change and view. The sum may exceed one page until
    /// [`finish`](Self::finish).
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.moving += other.moving;
        self.ideal_moving += other.ideal_moving;
        self.ideal_share += other.ideal_share;
        self.elsewhere += other.elsewhere;
        for node in other.nodes {
            match self.nodes.iter_mut().find(|known| known.node == node.node) {
                Some(known) => {
                    known.before += node.before;
                    known.after += node.after;
                }
                None => self.nodes.push(node),
            }
        }
        for flow in other.flows {
            match self.flows.iter_mut().find(|known| (&known.from, &known.to) == (&flow.from, &flow.to)) {
                Some(known) => known.clients += flow.clients,
                None => self.flows.push(flow),
            }
        }
        self.flows.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
        // One remaining cursor is enough to show that there are more clients.
        self.next = self.next.take().or(other.next);
        self.clients.extend(other.clients);
    }

    /// Cuts the moving clients of the sum to one page, and sets the nodes that are `missing` in it.
    #[must_use]
    pub fn finish(mut self, page: &Page, missing: Vec<Missing>) -> Self {
        let more = self.next.is_some();
        self.next = page.cut(&mut self.clients, more, |client| &client.client_id);
        self.missing = missing;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [(&str, bool); 3] = [("node-0", false), ("node-1", false), ("node-2", false)];

    fn view() -> ViewName {
        ViewName { hash: "00".into(), nodes: 3 }
    }

    fn clients() -> Vec<String> {
        (0..1_000).map(|n| format!("client-{n}")).collect()
    }

    /// Returns the sum of the previews of three nodes.
    fn preview(change: &Change, page: &Page) -> Preview {
        let (rankings, clients) = (Rankings::new(0, &MEMBERS, change).unwrap(), clients());
        let part = |node: &str| {
            let own = clients.iter().map(String::as_str).filter(|client| rankings.owners(client).unwrap().0 == node);
            rankings.preview(view(), change, node, own, page)
        };
        let mut whole = part("node-0");
        whole.add(part("node-1"));
        whole.add(part("node-2"));
        whole.finish(page, Vec::new())
    }

    #[test]
    fn joining_node_takes_its_share_from_the_others_only() {
        let preview = preview(&Change::Join("node-3".into()), &Page::new(None, 1_000));
        assert_eq!((preview.total, preview.elsewhere, preview.ideal_moving), (1_000, 0, 250.0));
        assert!((200..300).contains(&preview.moving), "{}", preview.moving);
        assert_eq!(preview.clients.len() as u64, preview.moving);
        assert!(preview.flows.iter().all(|flow| flow.to == "node-3"), "{:?}", preview.flows);
        let joined = preview.nodes.iter().find(|it| it.node == "node-3").unwrap();
        assert_eq!((joined.before, joined.after), (0, preview.moving));
        assert_eq!(preview.nodes.iter().map(|it| it.after).sum::<u64>(), 1_000);
        let json = serde_json::to_value(&preview).unwrap();
        assert_eq!((&json["change"], &json["node"]), (&"join".into(), &"node-3".into()));
        assert_eq!(serde_json::from_value::<Preview>(json).unwrap(), preview);
    }

    #[test]
    fn leaving_node_moves_its_clients_only() {
        let preview = preview(&Change::Leave("node-1".into()), &Page::new(None, 1_000));
        let left = preview.nodes.iter().find(|it| it.node == "node-1").unwrap();
        assert_eq!((left.before, left.after), (preview.moving, 0));
        assert!(preview.flows.iter().all(|flow| flow.from == "node-1"));
        assert_eq!((preview.ideal_share, preview.flows.len()), (500.0, 2));
    }

    #[test]
    fn draining_nodes_own_clients_only_if_all_drain() {
        let members = [("a", false), ("b", true)];
        let rankings = |members: &[(&str, bool)], change| Rankings::new(0, members, &change);
        let back = rankings(&members, Change::Join("b".into())).unwrap();
        assert_eq!((back.before.len(), back.after.len()), (1, 2));
        let last = rankings(&members, Change::Leave("a".into())).unwrap();
        assert_eq!(last.after.id(0), "b");
        let drained = rankings(&members, Change::Leave("b".into())).unwrap();
        assert_eq!(drained.before, drained.after, "it owned nothing any more");
        let only = rankings(&[("a", true), ("b", true)], Change::Join("b".into())).unwrap();
        assert_eq!((only.before.len(), only.after.len(), only.after.id(0)), (2, 1, "b"));
    }

    #[test]
    fn preview_without_changes_is_an_error() {
        let of = |change| Rankings::new(0, &MEMBERS, &change).unwrap_err();
        assert_eq!(of(Change::Join("node-1".into())), PreviewError::AlreadyServing("node-1".into()));
        assert_eq!(of(Change::Leave("node-9".into())), PreviewError::Unknown("node-9".into()));
        let only = Rankings::new(0, &[("a", false)], &Change::Leave("a".into()));
        assert_eq!(only.unwrap_err(), PreviewError::Last("a".into()));
    }
}
