//! Answers about clients: lists, lookups, kicks.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::explain::ClientOnNode;
use crate::{Missing, Page};

/// A client with a socket. `node` serves it, and the balancer `edge` holds its socket (`None`: the
/// node itself, or an edge without a name). `session` is a hexadecimal id. `since_ms` is the Unix
/// time of the socket in ms, `generation` its rank: the session with the higher one stays. A
/// `reliable` client confirms messages and retransmits its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    pub client_id: String,
    pub node: String,
    pub edge: Option<String>,
    pub session: String,
    pub since_ms: u64,
    pub generation: u64,
    pub reliable: bool,
}

/// `GET /admin/clients`: rows by id, each once. `next` is `after` of the next page; `None`: last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    pub clients: Vec<ClientRow>,
    pub next: Option<String>,
    pub missing: Vec<Missing>,
}

impl Clients {
    /// Merges the nodes' answers to `page`, each of its own clients, into one page. Of two rows of
    /// a client that with the higher `generation` stays.
    pub fn merge(page: &Page, nodes: Vec<Self>, missing: Vec<Missing>) -> Self {
        let more = nodes.iter().any(|node| node.next.is_some());
        let mut clients: Vec<_> = nodes.into_iter().flat_map(|node| node.clients).collect();
        clients.sort_by_key(|row| Reverse(row.generation));
        let next = page.cut(&mut clients, more, |row| &row.client_id);
        Self { clients, next, missing }
    }
}

/// `GET /admin/clients/CLIENT`. Answered 404 if no node that answers has a session of the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub client_id: String,
    pub state: ClientState,
    /// Eligible node with the highest score, also while it is suspect; `None`: the view is empty.
    pub owner: Option<String>,
    /// State of the client at the node that serves it, or at which it lingers.
    pub at: ClientOnNode,
    pub missing: Vec<Missing>,
}

/// Connection state of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// Has a socket.
    Connected,
    /// Has no socket; its session lingers, so that the client can resume it.
    Lingering,
}

/// `POST /admin/clients/CLIENT/kick`. `CLIENT` is a client id or the `sub` of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kicked {
    pub client_id: String,
    /// `sub` of the client's token, which is kicked too. `None`: the client has no token, or its id
    /// is its `sub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// `true` if the client had a session, with a socket or lingering. A balancer, or a node with
    /// `here=true`, counts only its own sessions.
    pub was_here: bool,
    /// Nodes that did not confirm the kick. Empty if no other node was asked, as by a balancer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

/// `GET /admin/kicks`: the latest kick of each client that one node remembers, oldest first, at
/// most 10,000. A kick rejects the client's tokens that were issued up to then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kicks {
    pub kicks: Vec<Kick>,
}

/// A kicked client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kick {
    /// Id of the client, or `sub` of tokens: at most 255 characters.
    pub client_id: String,
    /// Time of the kick, in seconds since 1970.
    pub at: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageQuery;

    fn node(node: &str, ids: &[(&str, u64)], next: bool) -> Clients {
        let row = |&(id, generation): &(&str, u64)| ClientRow {
            client_id: id.into(),
            node: node.into(),
            generation,
            ..ClientRow::default()
        };
        let next = ids.last().filter(|_| next).map(|(id, _)| (*id).to_owned());
        Clients { clients: ids.iter().map(row).collect(), next, missing: Vec::new() }
    }

    /// Returns each client with its node, and the cursor of the next page.
    fn merged(limit: usize, nodes: Vec<Clients>) -> (String, Option<String>) {
        let page = PageQuery { limit: Some(limit), ..PageQuery::default() }.check(limit).unwrap();
        let Clients { clients, next, .. } = Clients::merge(&page, nodes, Vec::new());
        let rows: Vec<_> = clients.iter().map(|row| format!("{} {}", row.client_id, row.node)).collect();
        (rows.join(", "), next)
    }

    #[test]
    fn client_of_two_nodes_is_listed_once_with_its_latest_session() {
        let nodes = vec![node("x", &[("a", 1), ("b", 5)], false), node("y", &[("b", 9), ("c", 1)], false)];
        assert_eq!(merged(10, nodes), ("a x, b y, c y".into(), None));
    }

    #[test]
    fn next_page_starts_where_the_full_one_ends() {
        let nodes = || vec![node("x", &[("a", 1), ("d", 1)], true), node("y", &[("b", 1), ("c", 1)], false)];
        assert_eq!(merged(2, nodes()), ("a x, b y".into(), Some("b".into())));
        let full = vec![node("x", &[("a", 1), ("b", 1)], true), node("y", &[], false)];
        assert_eq!(merged(2, full), ("a x, b x".into(), Some("b".into())), "the node has more");
        let last = vec![node("x", &[("a", 1)], false), node("y", &[("b", 1)], false)];
        assert_eq!(merged(2, last), ("a x, b y".into(), None));
    }
}
