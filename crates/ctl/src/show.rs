use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use signaling_admin::clients::{Client, ClientState, Clients, Kicked};
use signaling_admin::explain::{ClientAt, Explanation, SeatAt, Standing};
use signaling_admin::placement::{BalancerExplanation, PlaceState, SocketState};
use signaling_admin::preview::{Kind, Preview};
use signaling_admin::rooms::{Room, Rooms};
use signaling_admin::servers::{Draining, Node, Nodes};

use crate::table::{Table, printable};

type Width = Option<usize>;

const NONE: &str = "-";

pub(crate) fn nodes(nodes: &Nodes, width: Width) -> String {
    let mut table =
        Table::new(&["NODE", "STATE", "CLIENTS#", "AWAY#", "ROOMS#", "HELD B#", "VIEW", "VERSION", "ADDRESS"]);
    for node in &nodes.nodes {
        let figure = |of: fn(&signaling_admin::servers::Server) -> usize| or_none(node.server.as_ref().map(of));
        table.row([
            node.node.clone(),
            state_of(node),
            figure(|server| server.clients),
            figure(|server| server.lingering),
            figure(|server| server.rooms),
            figure(|server| server.held_bytes),
            or_none(node.server.as_ref().map(|server| format!("{:.8}", server.view.hash))),
            or_none(node.server.as_ref().map(|server| server.version.clone())),
            node.address.clone(),
        ]);
    }
    let mut text = table.render(width);
    if !nodes.balancers.is_empty() {
        let mut table = Table::new(&["BALANCER", "CLIENTS#", "TRUNKS#", "ADDRESS"]);
        for balancer in &nodes.balancers {
            let (name, address) = (balancer.balancer.clone(), or_none(balancer.address.clone()));
            table.row([name, balancer.clients.to_string(), balancer.trunks.to_string(), address]);
        }
        text = text + "\n" + &table.render(width);
    }
    text
}

fn state_of(node: &Node) -> String {
    match (&node.server, node.draining, node.suspect) {
        (None, ..) => "silent".to_owned(),
        (Some(_), true, _) => "draining".to_owned(),
        (Some(_), false, true) => "suspect".to_owned(),
        (Some(server), false, false) => server.obstacle.clone().unwrap_or_else(|| "ready".to_owned()),
    }
}

pub(crate) fn clients(clients: &Clients, width: Width) -> String {
    let mut table = Table::new(&["CLIENT", "NODE", "BALANCER", "FOR", "RELIABLE", "SESSION"]);
    for row in &clients.clients {
        let (id, node, edge) = (row.client_id.clone(), row.node.clone(), or_none(row.edge.clone()));
        table.row([id, node, edge, age(row.since_ms), yes(row.reliable), row.session.clone()]);
    }
    table.render(width) + &more(clients.next.as_deref())
}

pub(crate) fn client(client: &Client, width: Width) -> String {
    let state = match client.state {
        ClientState::Connected => "connected",
        ClientState::Lingering => "without a socket; its session waits for it",
    };
    let owner = client.owner.as_deref().unwrap_or("no node");
    let mut text = format!("{}: {state}, at {}, owned by {owner}\n\n", client.client_id, client.at.node);
    text.push_str(&at(&[&client.at], width));
    text.push_str(&seats(&[&client.at], width));
    if let Some(entry) = &client.registry {
        let since = age(entry.since_ms);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nThe registry says: at {} for {since}, session {}", entry.node, entry.session);
    }
    text
}

pub(crate) fn explanation(it: &Explanation, width: Width) -> String {
    let mut ranking = Table::new(&["RANK#", "NODE", "SCORE", "MAY OWN", "DRAINING", "SUSPECT"]);
    for (rank, node) in (1..).zip(&it.ranking) {
        let (name, score) = (node.node.clone(), node.score.clone());
        ranking.row([rank.to_string(), name, score, yes(node.eligible), yes(node.draining), yes(node.suspect)]);
    }
    let nodes: Vec<_> = it.nodes.iter().collect();
    let mut text = format!("{}: {}\nAs {} sees it, by view {:.8}.\n\n", it.client_id, it.why, it.asked, it.view.hash);
    text.push_str(&ranking.render(width));
    if !nodes.is_empty() {
        text = text + "\n" + &at(&nodes, width) + &seats(&nodes, width);
    }
    text
}

/// Lists the state of a client at each node.
fn at(nodes: &[&ClientAt], width: Width) -> String {
    let mut table = Table::new(&[
        "AT",
        "SESSION",
        "BALANCER",
        "SLOT#",
        "GENERATION#",
        "UNFATED#",
        "UNCONFIRMED#",
        "HELD#",
        "SENT ON TO",
    ]);
    for node in nodes {
        let session = node.session.as_ref();
        let name = match (session, &node.lingering) {
            (Some(session), _) => session.session.clone(),
            (None, Some(left)) => format!("{} (for {})", left.session, span(Duration::from_millis(left.left_ms))),
            (None, None) => NONE.to_owned(),
        };
        table.row([
            node.node.clone(),
            name,
            or_none(session.and_then(|session| session.edge.clone())),
            or_none(session.map(|session| session.slot)),
            or_none(session.map(|session| session.generation)),
            or_none(session.map(|session| session.unfated)),
            or_none(session.map(|session| session.unconfirmed.messages)),
            or_none(node.held.map(|held| held.messages)),
            or_none(node.located.clone()),
        ]);
    }
    table.render(width)
}

fn seats(nodes: &[&ClientAt], width: Width) -> String {
    let mut table = Table::new(&["AT", "ROOM", "STANDING", "AHEAD#"]);
    let seats = nodes.iter().flat_map(|node| node.rooms.iter().map(|seat| (&node.node, seat)));
    let mut any = false;
    for (node, SeatAt { room, standing, ahead }) in seats {
        any = true;
        let standing = match standing {
            Standing::Member => "in it",
            Standing::Waiting => "in line",
            Standing::Unknown => "not known yet",
        };
        table.row([node.clone(), room.clone(), standing.to_owned(), or_none(*ahead)]);
    }
    if any { format!("\n{}", table.render(width)) } else { String::new() }
}

pub(crate) fn balancer_explanation(it: &BalancerExplanation, width: Width) -> String {
    let mut ranking = Table::new(&["RANK#", "NODE", "SCORE", "TAKES CLIENTS", "TRUNK", "DRAINING", "SUSPECT"]);
    for (rank, node) in (1..).zip(&it.ranking) {
        let (name, score, trunk) = (node.node.clone(), node.score.clone(), yes(node.trunk == Some(true)));
        ranking.row([rank.to_string(), name, score, yes(node.eligible), trunk, yes(node.draining), yes(node.suspect)]);
    }
    let mut text = format!("{}: {}\nAs {} sees it, by view {:.8}.\n\n", it.client_id, it.why, it.asked, it.view.hash);
    text.push_str(&ranking.render(width));
    if it.sessions.is_empty() {
        return text;
    }
    let mut table = Table::new(&["SESSION", "SOCKET", "FOR", "NODE", "MOVES TO", "UNFATED#", "UNWRITTEN B#"]);
    for session in &it.sessions {
        let socket = match session.socket {
            SocketState::Waiting => "waiting",
            SocketState::Open => "open",
            SocketState::Paused => "not read",
            SocketState::Closed => "closed",
        };
        let node = match session.place {
            PlaceState::Nowhere => NONE.to_owned(),
            PlaceState::At => or_none(session.node.clone()),
            PlaceState::Leaving => format!("{} (leaving)", or_none(session.node.clone())),
        };
        table.row([
            session.session.clone(),
            socket.to_owned(),
            age(session.since_ms),
            node,
            or_none(session.moving_to.clone()),
            session.unfated.messages.to_string(),
            session.unwritten_bytes.to_string(),
        ]);
    }
    text + "\n" + &table.render(width)
}

pub(crate) fn preview(preview: &Preview, width: Width) -> String {
    let verb = match preview.change {
        Kind::Join => "joined",
        Kind::Leave => "left",
    };
    let Preview { node, moving, total, ideal_moving, .. } = preview;
    let mut text =
        format!("If {node} {verb}, {moving} of {total} clients would move; equal shares would be {ideal_moving:.1}.\n");
    if preview.elsewhere > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} are not at their owners now: they move anyway.", preview.elsewhere);
    }
    let mut shares = Table::new(&["NODE", "NOW#", "THEN#", "CHANGE#"]);
    for share in &preview.nodes {
        let change = i128::from(share.after) - i128::from(share.before);
        shares.row([share.node.clone(), share.before.to_string(), share.after.to_string(), format!("{change:+}")]);
    }
    let _ = write!(text, "\n{}equal shares: {:.1} each\n", shares.render(width), preview.ideal_share);
    if !preview.flows.is_empty() {
        let mut table = Table::new(&["FROM", "TO", "CLIENTS#"]);
        preview.flows.iter().for_each(|flow| table.row([flow.from.clone(), flow.to.clone(), flow.clients.to_string()]));
        text = text + "\n" + &table.render(width);
    }
    if !preview.clients.is_empty() {
        let mut table = Table::new(&["CLIENT", "FROM", "TO"]);
        preview.clients.iter().for_each(|it| table.row([it.client_id.clone(), it.from.clone(), it.to.clone()]));
        text = text + "\n" + &table.render(width) + &more(preview.next.as_deref());
    }
    text
}

pub(crate) fn rooms(rooms: &Rooms, width: Width) -> String {
    let mut table = Table::new(&["ROOM", "MEMBERS#", "CAPACITY#", "WAITING#", "NODES"]);
    for row in &rooms.rooms {
        let nodes: Vec<_> = row.nodes.iter().map(|at| format!("{} {}+{}", at.node, at.members, at.waiting)).collect();
        let capacity =
            if row.from_store { row.capacity.map_or("none".to_owned(), |it| it.to_string()) } else { "?".into() };
        let (members, waiting) = (row.members.to_string(), row.waiting.to_string());
        table.row([row.room.clone(), members, capacity, waiting, nodes.join(", ")]);
    }
    table.render(width) + &more(rooms.next.as_deref())
}

pub(crate) fn room(room: &Room, width: Width) -> String {
    let Room { count, waiting, version, .. } = room;
    let mut text = format!("{}: {count} members, {}, {waiting} in line, version {version}\n", room.room, holds(room));
    if !room.members.is_empty() {
        let mut table = Table::new(&["MEMBER", "SHOWS"]);
        for member in &room.members {
            let shows = if member.data.is_null() { NONE.to_owned() } else { member.data.to_string() };
            table.row([member.client_id.clone(), shows]);
        }
        text = text + "\n" + &table.render(width);
    }
    if room.more {
        text.push_str("\nThere are more: --all\n");
    }
    text
}

pub(crate) fn capacity(room: &Room) -> String {
    format!("{}: {}\n", room.room, holds(room))
}

fn holds(room: &Room) -> String {
    room.capacity.map_or_else(|| "no limit".to_owned(), |capacity| format!("{capacity} at most"))
}

pub(crate) fn kicked(kicked: &Kicked) -> String {
    let id = &kicked.client_id;
    if kicked.was_here { format!("{id} was put out\n") } else { format!("{id} was not there\n") }
}

pub(crate) fn draining(node: Option<&str>, draining: Draining) -> String {
    let node = node.map_or_else(|| "the server".to_owned(), printable);
    if draining.draining { format!("{node} is out of service\n") } else { format!("{node} is in service\n") }
}

fn more(next: Option<&str>) -> String {
    next.map_or_else(String::new, |next| format!("\nThere are more: --after {next}, or --all\n"))
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { NONE }.to_owned()
}

fn age(since_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    span(now.saturating_sub(Duration::from_millis(since_ms)))
}

/// Formats a duration in its two largest units.
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
    fn span_is_told_in_two_units() {
        let told = [5, 65, 3_600 * 3 + 61, 86_400 * 12 + 3_600].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(told, ["5s", "1m05s", "3h01m", "12d01h"]);
    }

    #[test]
    fn empty_page_is_a_heading_and_a_full_one_names_the_next() {
        let mut page = Clients::default();
        assert_eq!(clients(&page, None), "CLIENT  NODE  BALANCER  FOR  RELIABLE  SESSION\n");
        page.next = Some("m".into());
        assert!(clients(&page, None).ends_with("\nThere are more: --after m, or --all\n"));
    }

    #[test]
    fn room_shows_what_its_members_show() {
        let members = vec![Member { client_id: "alice".into(), data: serde_json::json!({ "name": "Alice" }) }];
        let (room_name, count) = ("standup".to_owned(), 1);
        let it = Room { room: room_name, version: 7, capacity: Some(8), count, waiting: 0, members, more: false };
        assert_eq!(
            room(&it, None),
            "standup: 1 members, 8 at most, 0 in line, version 7\n\nMEMBER  SHOWS\nalice   {\"name\":\"Alice\"}\n"
        );
    }
}
