//! The commands of a write, and what a room has in the journal.

use std::collections::HashMap;

use redis::Cmd;
use signaling_protocol::RoomName;
use signaling_rooms::{
    JournalBans, JournalBeat, JournalClient, JournalRoom, JournalState, JournalSummary, JournalWrite, Seat, SeatKind,
    SeatStatus,
};

use crate::keys::{Keys, RoomKeys};
use crate::{bans, entry, scripts};

/// Maximum clients of one command: a script passes its arguments on a stack of 8,000.
const CLIENTS_PER_COMMAND: usize = 500;
/// Time in ms for which the journal keeps a room that is not renewed: 25 h.
pub(crate) const KEPT_MS: &str = "90000000";
/// Time in ms for which it keeps the epoch of a room that has ended: 1 h.
const ENDED_KEPT_MS: &str = "3600000";

/// Commands inside the script.
#[derive(Debug, Default)]
struct Commands(Vec<Vec<String>>);

impl Commands {
    fn push(&mut self, parts: &[&str]) {
        self.0.push(parts.iter().map(|part| (*part).to_owned()).collect());
    }

    /// Has the journal keep these keys for 25 h more.
    fn keep(&mut self, keys: &[&str]) {
        keys.iter().for_each(|key| self.push(&["PEXPIRE", key, KEPT_MS]));
    }

    /// Adds a command for each 500 items, with the arguments of each.
    fn push_all<T>(&mut self, command: &str, key: &str, items: &[T], add: impl Fn(&mut Vec<String>, &T)) {
        for items in items.chunks(CLIENTS_PER_COMMAND) {
            let mut parts = vec![command.to_owned(), key.to_owned()];
            items.iter().for_each(|item| add(&mut parts, item));
            self.0.push(parts);
        }
    }
}

/// Returns the epoch in the form that texts compare by.
fn epoch_text(epoch: u64) -> String {
    format!("{epoch:016}")
}

/// Returns the call of a write. `owner`: the writing node. `now_ms`: the time of the server.
pub(crate) fn call(keys: &Keys, write: &JournalWrite, owner: &str, now_ms: u64) -> Cmd {
    let room = keys.of(&write.room);
    let commands = match &write.state {
        Some(state) => of_state(&room, state, write.after.is_none(), (owner, now_ms)),
        None => of_end(&room, owner),
    };
    let payload = rmp_serde::to_vec(&commands.0).unwrap_or_default();
    let after = write.after.map(|after| after.to_string()).unwrap_or_default();
    scripts::apply(&room.meta, (&epoch_text(write.epoch), write.number), &after, &payload)
}

fn of_end(room: &RoomKeys, owner: &str) -> Commands {
    let mut commands = Commands::default();
    commands.push(&[&["DEL"][..], &room.contents()].concat());
    // An owner that reads an ended room must not find what an operator set.
    commands.push(&["HDEL", &room.meta, "capacity", "capacity_kept", "blocks", "closed"]);
    commands.push(&["HSET", &room.meta, "owner", owner]);
    commands.push(&["PEXPIRE", &room.meta, ENDED_KEPT_MS]);
    commands
}

fn of_state(room: &RoomKeys, state: &JournalState, is_whole: bool, (owner, now_ms): (&str, u64)) -> Commands {
    let time_ms = &now_ms.to_string();
    let mut commands = Commands::default();
    if is_whole {
        commands.push(&[&["DEL"][..], &room.contents()].concat());
    }
    remove(&mut commands, room, &state.clients);
    let seats = |kind: SeatKind| {
        let seats = state.clients.iter().filter_map(|client| client.seat.as_ref());
        seats.filter(move |seat| kind_of(seat) == kind).collect::<Vec<_>>()
    };
    let (members, waiting) = (seats(SeatKind::Member), seats(SeatKind::Waiting));
    let at = |parts: &mut Vec<String>, score: String, client: &str| parts.extend([score, client.to_owned()]);
    let heard = |parts: &mut Vec<String>, seat: &&Seat| at(parts, time_ms.to_owned(), seat.requester.client.as_str());
    let placed = |parts: &mut Vec<String>, seat: &&Seat| at(parts, place_of(seat), seat.requester.client.as_str());
    let described = |parts: &mut Vec<String>, seat: &&Seat| {
        parts.extend([seat.requester.client.to_string(), entry::of_seat(seat)]);
    };
    commands.push_all("ZADD", &room.members, &members, heard);
    commands.push_all("HSET", &room.participants, &members, described);
    commands.push_all("ZADD", &room.waiting, &waiting, placed);
    commands.push_all("ZADD", &room.checkin, &waiting, heard);
    commands.push_all("HSET", &room.waiters, &waiting, described);
    if let Some(JournalBeat { members, waiting, .. }) = &state.beat {
        commands
            .push_all("ZADD", &room.members, members, |parts, client| at(parts, time_ms.to_owned(), client.as_str()));
        commands
            .push_all("ZADD", &room.checkin, waiting, |parts, client| at(parts, time_ms.to_owned(), client.as_str()));
    }
    let JournalSummary { incarnation, version, capacity, keeps_capacity } = state.summary;
    let number = |number: u64| number.to_string();
    commands.push(&[
        "HSET",
        &room.meta,
        "incarnation",
        &number(incarnation),
        "version",
        &number(version),
        "owner",
        owner,
        "capacity",
        &capacity.map(|capacity| capacity.to_string()).unwrap_or_default(),
        "capacity_kept",
        flag(keeps_capacity),
        "partial",
        flag(state.is_partial),
    ]);
    if let Some(bans) = &state.bans {
        let [blocks, closed] = bans::to_fields(bans, now_ms);
        commands.push(&["HSET", &room.meta, "blocks", &blocks, "closed", &closed]);
    }
    let renews = is_whole || state.is_partial || state.beat.as_ref().is_some_and(|beat| beat.renews);
    let is_new = |seats: &[&Seat], count: u64| !seats.is_empty() && seats.len() as u64 == count;
    if renews || is_new(&members, state.counts.0) {
        commands.keep(&[&room.members, &room.participants, &room.meta]);
    }
    if renews || is_new(&waiting, state.counts.1) {
        commands.keep(&[&room.waiting, &room.checkin, &room.waiters]);
    }
    commands
}

/// Removes clients from the keys of kinds that they had and do not have any more.
fn remove(commands: &mut Commands, room: &RoomKeys, clients: &[JournalClient]) {
    let former = |kind: SeatKind| {
        let is_over = move |client: &&JournalClient| {
            client.former == Some(kind) && client.seat.as_ref().is_none_or(|seat| kind_of(seat) != kind)
        };
        clients.iter().filter(is_over).map(|client| client.client.as_str()).collect::<Vec<_>>()
    };
    let name = |parts: &mut Vec<String>, client: &&str| parts.push((*client).to_owned());
    let members = former(SeatKind::Member);
    commands.push_all("ZREM", &room.members, &members, name);
    commands.push_all("HDEL", &room.participants, &members, name);
    let waiting = former(SeatKind::Waiting);
    commands.push_all("ZREM", &room.waiting, &waiting, name);
    commands.push_all("ZREM", &room.checkin, &waiting, name);
    commands.push_all("HDEL", &room.waiters, &waiting, name);
}

fn kind_of(seat: &Seat) -> SeatKind {
    if seat.status.is_member() { SeatKind::Member } else { SeatKind::Waiting }
}

fn place_of(seat: &Seat) -> String {
    match seat.status {
        SeatStatus::Member { place } | SeatStatus::Waiting { place, .. } => place.to_string(),
        SeatStatus::Out(_) | SeatStatus::Unknown => "0".to_owned(),
    }
}

fn flag(is_set: bool) -> &'static str {
    if is_set { "1" } else { "" }
}

/// Returns the commands that count what the journal has of a room.
pub(crate) fn counts(keys: &Keys, room: &RoomName) -> [Cmd; 4] {
    let RoomKeys { members, participants, waiting, waiters, .. } = keys.of(room);
    [("ZCARD", members), ("HLEN", participants), ("ZCARD", waiting), ("HLEN", waiters)]
        .map(|(command, key)| redis::cmd(command).arg(key).to_owned())
}

/// Returns the commands that read a room: `meta`, `participants`, `waiters`.
pub(crate) fn read(keys: &Keys, room: &RoomName) -> [Cmd; 3] {
    let RoomKeys { meta, participants, waiters, .. } = keys.of(room);
    [meta, participants, waiters].map(|key| redis::cmd("HGETALL").arg(key).to_owned())
}

/// Returns the room of three hashes. `None`: the journal has none. Damaged entries are left out.
/// `now_ms`: the time of the server.
pub(crate) fn room(hashes: [HashMap<String, String>; 3], now_ms: u64) -> Option<JournalRoom> {
    let [meta, participants, waiters] = hashes;
    let number = |name: &str| meta.get(name).and_then(|text| text.parse::<u64>().ok());
    let epoch = number("epoch")?;
    let capacity = number("capacity").and_then(|capacity| u32::try_from(capacity).ok());
    let members = participants.iter().map(|(client, json)| (client, json, true));
    let seats = members.chain(waiters.iter().map(|(client, json)| (client, json, false)));
    let mut seats: Vec<_> =
        seats.filter_map(|(client, json, is_member)| entry::to_seat(client, json, is_member)).collect();
    seats.sort_unstable_by(|a, b| a.requester.client.cmp(&b.requester.client));
    let bans = bans::of_fields(meta.get("blocks"), meta.get("closed"), now_ms);
    if seats.is_empty() && capacity.is_none() && bans == JournalBans::default() {
        return None;
    }
    let summary = JournalSummary {
        incarnation: number("incarnation").unwrap_or_default(),
        version: number("version").unwrap_or_default(),
        capacity,
        keeps_capacity: meta.get("capacity_kept").is_some_and(|flag| flag == "1"),
    };
    Some(JournalRoom { epoch, summary, bans, seats })
}
