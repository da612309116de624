//! Who is connected, and where.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::explain::ClientAt;
use crate::{Missing, Page};

/// A client with a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    /// Its id.
    pub client_id: String,
    /// The node that serves it.
    pub node: String,
    /// The balancer that has its socket; none: the node itself.
    pub edge: Option<String>,
    /// Its session, in hexadecimal digits.
    pub session: String,
    /// Since when it has this socket, milliseconds since 1970.
    pub since_ms: u64,
    /// Of two sessions of one client the one with the higher number stays.
    pub generation: u64,
    /// Whether it takes part in custody.
    pub reliable: bool,
}

/// `GET /admin/clients`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// By id. Nodes answer at different moments: a client on its way from one to another stands here once, or is left out.
    pub clients: Vec<ClientRow>,
    /// `after` of the next page; none: this is the last one.
    pub next: Option<String>,
    /// Nodes whose clients are not among these.
    pub missing: Vec<Missing>,
}

impl Clients {
    /// What nodes have, each of its own clients, as one page.
    #[must_use]
    pub fn merge(page: &Page, nodes: Vec<Self>, missing: Vec<Missing>) -> Self {
        let more = nodes.iter().any(|node| node.next.is_some());
        let mut clients: Vec<_> = nodes.into_iter().flat_map(|node| node.clients).collect();
        clients.sort_by(|a, b| (&a.client_id, Reverse(a.generation)).cmp(&(&b.client_id, Reverse(b.generation))));
        clients.dedup_by(|later, earlier| later.client_id == earlier.client_id);
        let next = page.cut(&mut clients, more, |row| &row.client_id);
        Self { clients, next, missing }
    }
}

/// `GET /admin/clients/CLIENT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its id.
    pub client_id: String,
    /// Whether it has a socket, or may come back to what is left of its session.
    pub state: ClientState,
    /// The node that owns it, by the view of the node that was asked; none: there is no node.
    pub owner: Option<String>,
    /// What the node has of it that serves it.
    pub at: ClientAt,
    /// What the registry says, where nodes keep rooms in a Redis.
    pub registry: Option<Registered>,
    /// Nodes that did not say whether they have it.
    pub missing: Vec<Missing>,
}

/// Whether a client is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// It has a socket.
    Connected,
    /// It has none, and its session waits for it.
    Lingering,
}

/// An entry of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The node that serves the client.
    pub node: String,
    /// The session, in hexadecimal digits.
    pub session: String,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}

/// `POST /admin/clients/CLIENT/kick`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kicked {
    /// Whom.
    pub client_id: String,
    /// Whether it was there: with a socket, or a session that waited for it.
    pub was_here: bool,
    /// Nodes that did not hear of it. Where the client's socket is at such a node, or at a balancer that only that node
    /// reaches, it is still open. Left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// `GET /admin/kicks`: the clients whose tokens of before are refused, as one node remembers them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kicks {
    /// The longest ago first.
    pub kicks: Vec<Kick>,
}

/// A client that was put out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kick {
    /// Whom.
    pub client_id: String,
    /// When, in seconds since 1970.
    pub at: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: &str, ids: &[(&str, u64)], next: bool) -> Clients {
        let row = |&(id, generation): &(&str, u64)| ClientRow {
            client_id: id.into(),
            node: node.into(),
            edge: None,
            session: String::new(),
            since_ms: 0,
            generation,
            reliable: false,
        };
        let next = ids.last().filter(|_| next).map(|(id, _)| (*id).to_owned());
        Clients { clients: ids.iter().map(row).collect(), next, missing: Vec::new() }
    }

    fn merged(limit: usize, nodes: Vec<Clients>) -> (Vec<(String, String)>, Option<String>) {
        let Clients { clients, next, .. } = Clients::merge(&Page::new(None, limit), nodes, Vec::new());
        (clients.into_iter().map(|row| (row.client_id, row.node)).collect(), next)
    }

    fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(id, node)| ((*id).to_owned(), (*node).to_owned())).collect()
    }

    #[test]
    fn a_client_that_two_nodes_name_stands_there_once_with_its_latest_session() {
        let nodes = vec![node("x", &[("a", 1), ("b", 5)], false), node("y", &[("b", 9), ("c", 1)], false)];
        assert_eq!(merged(10, nodes), (rows(&[("a", "x"), ("b", "y"), ("c", "y")]), None));
    }

    #[test]
    fn the_page_ends_where_it_is_full_and_the_next_begins_there() {
        let nodes = || vec![node("x", &[("a", 1), ("d", 1)], true), node("y", &[("b", 1), ("c", 1)], false)];
        assert_eq!(merged(2, nodes()), (rows(&[("a", "x"), ("b", "y")]), Some("b".into())));
        let full = vec![node("x", &[("a", 1), ("b", 1)], true), node("y", &[], false)];
        assert_eq!(merged(2, full), (rows(&[("a", "x"), ("b", "x")]), Some("b".into())), "the node has more");
        let last = vec![node("x", &[("a", 1)], false), node("y", &[("b", 1)], false)];
        assert_eq!(merged(2, last), (rows(&[("a", "x"), ("b", "y")]), None));
    }
}
