//! Answers as text, for `run`. Each function for `run` returns the lines of one answer; `-` stands
//! for an absent value.

use std::fmt::{Display, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use signaling_admin::clients::{Client, ClientState, Clients, Kicked};
use signaling_admin::explain::{
    Candidate, ClientOnNode, Explanation, JournalWrite, OwnedRoom, RoomExplanation, SeatOnNode, SeatStatus,
};
use signaling_admin::rooms::{Removed, Room, Rooms};
use signaling_admin::servers::{Draining, Node, Nodes};

use crate::table::Table;

const NONE: &str = "-";

/// Lists nodes, then balancers. VIEW is a part of the view's hash, AWAY the lingering sessions.
pub(crate) fn nodes(nodes: &Nodes) -> String {
    let mut table = Table::new("NODE  STATE  ZONE  CLIENTS  AWAY  ROOMS  HELD B  VIEW  VERSION  ADDRESS");
    for node in &nodes.nodes {
        let server = node.server.as_ref();
        table.row([
            &node.node,
            &state_of(node),
            &or_none(node.zone.as_ref()),
            &or_none(server.map(|server| server.clients)),
            &or_none(server.map(|server| server.lingering)),
            &or_none(server.map(|server| server.rooms)),
            &or_none(server.map(|server| server.held_bytes)),
            &or_none(server.map(|server| format!("{:.8}", server.view.hash))),
            &or_none(server.map(|server| &server.version)),
            &node.address,
        ]);
    }
    let mut balancers = Table::new("BALANCER  CLIENTS  TRUNKS  ADDRESS");
    for it in &nodes.balancers {
        balancers.row([&it.balancer, &it.clients, &it.trunks, &or_none(it.address.as_ref())]);
    }
    let mut journals = Table::new("NODE  ROOM JOURNAL");
    for (node, journal) in nodes.nodes.iter().filter_map(|it| Some((&it.node, it.server.as_ref()?.journal.as_ref()?))) {
        journals.row([node, journal]);
    }
    table.to_string() + &balancers.section() + &journals.section()
}

fn state_of(node: &Node) -> &str {
    match (&node.server, node.draining, node.suspect) {
        (None, ..) => "silent",
        (Some(_), true, _) => "draining",
        (Some(_), false, true) => "suspect",
        (Some(server), false, false) => server.obstacle.as_deref().unwrap_or("ready"),
    }
}

/// Lists a page of clients. FOR is the time since the session began.
pub(crate) fn clients(clients: &Clients) -> String {
    let mut table = Table::new("CLIENT  NODE  BALANCER  FOR  RELIABLE  SESSION");
    for row in &clients.clients {
        let (edge, age) = (or_none(row.edge.as_ref()), age(row.since_ms));
        table.row([&row.client_id, &row.node, &edge, &age, &yes(row.reliable), &row.session]);
    }
    table.to_string() + &more(clients.next.as_deref())
}

pub(crate) fn client(client: &Client) -> String {
    let state = match client.state {
        ClientState::Connected => "connected",
        ClientState::Lingering => "without a socket, its session can be resumed",
    };
    let owner = client.owner.as_deref().unwrap_or("no node");
    let mut text = format!("{}: {state}, at {}, owned by {owner}\n", client.client_id, client.at.node);
    text.push_str(&on_nodes(std::slice::from_ref(&client.at)));
    text
}

pub(crate) fn explanation(it: &Explanation) -> String {
    let text = format!("{}: {}\nSource: {}, view {:.8}.\n", it.client_id, it.why, it.asked, it.view.hash);
    text + &ranking(&it.ranking) + &on_nodes(&it.nodes)
}

fn ranking(nodes: &[Candidate]) -> String {
    let mut table = Table::new("RANK  NODE  SCORE  MAY OWN  DRAINING  SUSPECT");
    for (rank, node) in (1..).zip(nodes) {
        let (draining, suspect) = (yes(node.draining), yes(node.suspect));
        table.row([&rank, &node.node, &node.score, &yes(node.eligible), &draining, &suspect]);
    }
    table.section()
}

/// Shows a room's owner, then at each node its view, its seats, and its seats at the owner.
pub(crate) fn room_explanation(it: &RoomExplanation) -> String {
    let mut text = format!("{}: {}\nSource: {}, view {:.8}.\n", it.room, it.why, it.asked, it.view.hash);
    text.push_str(&ranking(&it.ranking));
    let mut nodes = Table::new("AT  VIEW  MEMBERS  WAITING  MEMBERS AT OWNER  WAITING AT OWNER  WAITS FOR");
    let owner = it.nodes.iter().find(|at| Some(&at.node) == it.owner.as_ref());
    let known = owner.and_then(|at| at.owned.as_ref());
    for at in &it.nodes {
        let counted = known.map(|known| known.nodes.iter().find(|seats| seats.node == at.node));
        let counted = counted.map(|seats| seats.map_or((0, 0), |seats| (seats.members, seats.waiting)));
        let (members, waiting) = (or_none(counted.map(|it| it.0)), or_none(counted.map(|it| it.1)));
        let view = format!("{:.8}", at.view.hash);
        let majority = (!at.majority).then_some("a majority");
        let waits_for: Vec<_> = at.unconfirmed.iter().map(String::as_str).chain(majority).collect();
        let waits_for = or_none(Some(waits_for.join(", ")).filter(|names| !names.is_empty()));
        nodes.row([&at.node, &view, &at.members, &at.waiting, &members, &waiting, &waits_for]);
    }
    text.push_str(&nodes.section());
    for (at, room) in it.nodes.iter().filter_map(|at| Some((at, at.owned.as_ref()?))) {
        let OwnedRoom { incarnation, version, backup, journal, .. } = room;
        let backup = or_none(backup.as_ref());
        // Writing to a string cannot fail.
        let _ = write!(text, "\nRoom at {}: backup {backup}, incarnation {incarnation}, version {version}", at.node);
        if let Some(JournalWrite { epoch, number }) = journal {
            let _ = write!(text, ", in the journal as write {number} of epoch {epoch}");
        }
        text.push('\n');
    }
    text
}

fn on_nodes(nodes: &[ClientOnNode]) -> String {
    let mut table = Table::new("AT  SESSION  BALANCER  SLOT  GENERATION  NO OUTCOME  UNCONFIRMED  HELD  LOCATED AT");
    let mut seats = Table::new("AT  ROOM  SEAT  AHEAD");
    for node in nodes {
        let session = node.session.as_ref();
        let name = match (session, &node.lingering) {
            (Some(session), _) => session.session.clone(),
            (None, Some(left)) => format!("{} (for {})", left.session, span(Duration::from_millis(left.left_ms))),
            (None, None) => NONE.to_owned(),
        };
        table.row([
            &node.node,
            &name,
            &or_none(session.and_then(|session| session.edge.as_ref())),
            &or_none(session.map(|session| session.slot)),
            &or_none(session.map(|session| session.generation)),
            &or_none(session.map(|session| session.without_outcome)),
            &or_none(session.map(|session| session.unconfirmed.messages)),
            &or_none(node.held.map(|held| held.messages)),
            &or_none(node.located.as_ref()),
        ]);
        for SeatOnNode { room, status, ahead } in &node.rooms {
            let status = match status {
                SeatStatus::Member => "member",
                SeatStatus::Waiting => "waiting",
                SeatStatus::Unknown => "unconfirmed",
            };
            seats.row([&node.node, room, &status, &or_none(*ahead)]);
        }
    }
    table.section() + &seats.section()
}

/// Lists a page of rooms. NODES has members and waiting clients of each node. CAPACITY is `?` if
/// the owner did not answer; MEMBERS and WAITING are then sums over the nodes.
pub(crate) fn rooms(rooms: &Rooms) -> String {
    let mut table = Table::new("ROOM  MEMBERS  CAPACITY  WAITING  NODES");
    for row in &rooms.rooms {
        let nodes: Vec<_> = row.nodes.iter().map(|at| format!("{} {}+{}", at.node, at.members, at.waiting)).collect();
        let capacity =
            if row.from_owner { row.capacity.map_or("none".to_owned(), |it| it.to_string()) } else { "?".into() };
        table.row([&row.room, &row.members, &capacity, &row.waiting, &nodes.join(", ")]);
    }
    table.to_string() + &more(rooms.next.as_deref())
}

pub(crate) fn room(room: &Room) -> String {
    let Room { count, waiting, blocks, version, .. } = room;
    let (name, holds) = (&room.room, holds(room));
    let state = if room.closed { closed(room) + ", " } else { String::new() };
    let numbers = format!("{count} members, {holds}, {waiting} waiting, {blocks} blocked, version {version}");
    let text = format!("{name}: {state}{numbers}\n");
    let mut table = Table::new("MEMBER  DATA");
    for member in &room.members {
        let data = or_none(Some(&member.data).filter(|data| !data.is_null()));
        table.row([&member.client_id, &data]);
    }
    text + &table.section() + if room.more { "\nThere are more: --all\n" } else { "" }
}

pub(crate) fn capacity(room: &Room) -> String {
    format!("{}: {}\n", room.room, holds(room))
}

fn holds(room: &Room) -> String {
    room.capacity.map_or_else(|| "no limit".to_owned(), |capacity| format!("at most {capacity}"))
}

pub(crate) fn removed(Removed { room, client_id, was_here }: &Removed) -> String {
    format!("{client_id} {} {room}\n", if *was_here { "was removed from" } else { "was not in" })
}

pub(crate) fn blocked(removed @ Removed { client_id, .. }: &Removed, seconds: u64) -> String {
    format!("{}{client_id} cannot join for {}\n", self::removed(removed), span(Duration::from_secs(seconds)))
}

pub(crate) fn blocks(Room { room, blocks, .. }: &Room) -> String {
    format!("{room}: {blocks} blocked\n")
}

pub(crate) fn closure(room: &Room) -> String {
    format!("{}: {}\n", room.room, if room.closed { closed(room) } else { "open".to_owned() })
}

fn closed(room: &Room) -> String {
    let time = room.closed_for_ms.map(|ms| format!(" for {}", span(Duration::from_millis(ms))));
    format!("closed{}", time.unwrap_or_default())
}

pub(crate) fn kicked(kicked: &Kicked) -> String {
    let subject =
        kicked.subject.as_ref().map(|subject| format!(", with all clients whose token has the sub {subject}"));
    let what = if kicked.was_here { "was kicked" } else { "was not connected" };
    format!("{} {what}{}\n", kicked.client_id, subject.unwrap_or_default())
}

/// `server`: name of the drained or undrained server; `None` for the asked one.
pub(crate) fn draining(server: Option<&str>, draining: Draining) -> String {
    let server = server.unwrap_or("the server");
    format!("{server} is {} service\n", if draining.draining { "out of" } else { "in" })
}

fn more(next: Option<&str>) -> String {
    next.map_or_else(String::new, |next| format!("\nThere are more: --after {next}, or --all\n"))
}

fn or_none(value: Option<impl Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { NONE }
}

fn age(since_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    span(now.saturating_sub(Duration::from_millis(since_ms)))
}

fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, ..) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use signaling_admin::rooms::Member;

    use super::*;

    #[test]
    fn span_is_formatted_in_its_two_largest_units() {
        let spans = [5, 65, 3_600 * 3 + 61, 86_400 * 12 + 3_600].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(spans, ["5s", "1m05s", "3h01m", "12d01h"]);
    }

    #[test]
    fn page_has_its_headings_and_the_next_cursor() {
        let mut page = Clients::default();
        assert_eq!(clients(&page), "CLIENT  NODE  BALANCER  FOR  RELIABLE  SESSION\n");
        page.next = Some("m".into());
        assert!(clients(&page).ends_with("\nThere are more: --after m, or --all\n"));
    }

    #[test]
    fn room_lists_the_data_of_its_members() {
        let members = vec![Member { client_id: "alice".into(), data: serde_json::json!({ "name": "Alice" }) }];
        let it = Room {
            room: "standup".to_owned(),
            version: 7,
            capacity: Some(8),
            count: 1,
            waiting: 0,
            blocks: 2,
            closed: true,
            closed_for_ms: Some(65_000),
            members,
            more: false,
        };
        assert_eq!(
            room(&it),
            "standup: closed for 1m05s, 1 members, at most 8, 0 waiting, 2 blocked, version 7\n\nMEMBER  DATA\nalice   {\"name\":\"Alice\"}\n"
        );
    }
}
