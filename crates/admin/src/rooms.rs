//! Answers about rooms and their clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Missing, Page};

/// Maximum rooms on a page. A node sends one request for each to its owner.
pub const MAX_PAGE: usize = 200;

/// Numbers of one node's clients in a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomOnNode {
    pub node: String,
    pub members: u64,
    pub waiting: u64,
}

/// A room with at least one seat, and the numbers of its members and waiting clients. `nodes` has
/// the numbers of each node with a seat, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomRow {
    pub room: String,
    pub members: u64,
    pub waiting: u64,
    /// Maximum members; `None`: no limit, or `from_owner` is `false`.
    pub capacity: Option<u32>,
    /// `true` if the numbers are those of the room's owner. `false` if they are sums of
    /// `nodes`: with `here=true`, or without its answer within 2 s for the whole page.
    pub from_owner: bool,
    pub nodes: Vec<RoomOnNode>,
}

/// `GET /admin/rooms`: rows by name. `next` is `after` of the next page; `None`: this is the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rooms {
    pub rooms: Vec<RoomRow>,
    pub next: Option<String>,
    pub missing: Vec<Missing>,
}

impl RoomRow {
    /// Creates the row of one node, without data from the room's owner.
    pub fn on_node(room: &str, node: RoomOnNode) -> Self {
        let RoomOnNode { members, waiting, .. } = node;
        Self { room: room.to_owned(), members, waiting, capacity: None, from_owner: false, nodes: vec![node] }
    }
}

impl Rooms {
    /// Merges the nodes' answers to `page` into one page. Rows of one room are added up.
    pub fn merge(page: &Page, nodes: Vec<Self>, missing: Vec<Missing>) -> Self {
        let more = nodes.iter().any(|node| node.next.is_some());
        let mut by_name: BTreeMap<String, RoomRow> = BTreeMap::new();
        for row in nodes.into_iter().flat_map(|node| node.rooms) {
            match by_name.get_mut(&row.room) {
                Some(sum) => {
                    sum.members += row.members;
                    sum.waiting += row.waiting;
                    sum.nodes.extend(row.nodes);
                }
                None => drop(by_name.insert(row.room.clone(), row)),
            }
        }
        let mut rooms: Vec<_> = by_name.into_values().collect();
        rooms.iter_mut().for_each(|row| row.nodes.sort_by(|a, b| a.node.cmp(&b.node)));
        let next = page.cut(&mut rooms, more, |row| &row.room);
        Self { rooms, next, missing }
    }
}

/// `GET /admin/rooms/ROOM`, and without `members` the answer to other requests. `version`
/// rises with each change that members are sent. `capacity`: maximum members, `None` for no limit.
/// `count`: all members, also 0. `waiting`: clients in the waiting queue. `blocks`: clients that
/// operators keep out. `closed`: an operator has closed it, with an end in `closed_for_ms` or
/// (`None`) without. `members`: a page of at most 500, the oldest first. `more`: others follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Room {
    pub room: String,
    pub version: u64,
    pub capacity: Option<u32>,
    pub count: u64,
    pub waiting: u64,
    pub blocks: u64,
    pub closed: bool,
    pub closed_for_ms: Option<u64>,
    pub members: Vec<Member>,
    pub more: bool,
}

/// `DELETE /admin/rooms/ROOM/members/CLIENT` and `PUT /admin/rooms/ROOM/blocks/CLIENT`. `was_here`:
/// the client had a seat as a member or in the waiting queue, or an operator ended its last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    pub room: String,
    pub client_id: String,
    pub was_here: bool,
}

/// A member of a room, with its JSON for the others; `null` if it sent none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub client_id: String,
    pub data: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageQuery;

    #[test]
    fn rows_of_one_room_from_several_nodes_are_merged() {
        let at = |node: &str, members, waiting| RoomOnNode { node: node.into(), members, waiting };
        let node = |rooms: &[(&str, RoomOnNode)]| Rooms {
            rooms: rooms.iter().map(|(room, at)| RoomRow::on_node(room, at.clone())).collect(),
            ..Rooms::default()
        };
        let nodes = vec![node(&[("a", at("y", 2, 0)), ("c", at("y", 1, 0))]), node(&[("a", at("x", 3, 1))])];
        let page = PageQuery { limit: Some(1), ..PageQuery::default() }.check(MAX_PAGE).unwrap();
        let merged = Rooms::merge(&page, nodes, Vec::new());
        assert_eq!(merged.next.as_deref(), Some("a"));
        let [row] = &merged.rooms[..] else { panic!("no page of one") };
        assert_eq!((row.members, row.waiting), (5, 1));
        assert_eq!(row.nodes, [at("x", 3, 1), at("y", 2, 0)]);
    }
}
