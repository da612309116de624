//! matchbox: its requests and the translator of its sockets, for the full-mesh topology.
//!
//! A signal has the `data` `{"k":"s","r":ROOM,"d":DATA}` with the client's payload.

mod election;
mod http;
mod members;
mod names;
mod peers;
mod roster;
mod wire;

use std::time::Instant;

use serde_json::value::RawValue;

use self::election::Election;
use self::names::Rooms;
use self::peers::Peers;
use self::roster::Roster;
use crate::event::IgnoredReason;
use crate::json::Object;
use crate::native::{self, FromMesh};
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Input, Out, Translate};
use crate::{Dialect, name};
use uuid::Uuid;

pub(crate) use self::http::request;

/// Hold time of a signal for an absent recipient, in milliseconds.
const HOLD_MS: u64 = 5000;

/// The room in which the client has peers.
#[derive(Debug)]
struct Room {
    name: String,
    roster: Roster,
    /// `true` once peers may be announced.
    is_open: bool,
    /// `true` if the group has been full.
    was_full: bool,
}

#[derive(Debug)]
pub(crate) struct Matchbox {
    own: Uuid,
    rooms: Rooms,
    /// `true` once the session is open.
    is_welcome: bool,
    has_id: bool,
    /// Number of groups that the client has entered.
    entries: u64,
    /// `None`: the client is in no room.
    room: Option<Room>,
    /// Search for a group. `None`: the client needs none.
    election: Option<Election>,
    peers: Peers,
    requests: RoomRequests,
}

impl Translate for Matchbox {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) => {
                if let Err(reason) = self.client(text, out) {
                    out.ignore(reason);
                }
            }
            Input::Binary(_) => out.ignore(IgnoredReason::Binary),
            Input::Pong => {}
            Input::Tick => {
                if !self.requests.tick(now, out) {
                    out.close = Some(Close::TRY_AGAIN);
                }
                self.step(now, out);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let room = self.room.as_ref().map(|room| &room.roster);
        let election = self.election.as_ref().and_then(|election| election.deadline(room));
        self.requests.deadline().into_iter().chain(election).min()
    }

    fn is_full(&self) -> bool {
        self.requests.is_full()
    }

    fn retained_bytes(&self) -> usize {
        let room = self.room.as_ref().map_or(0, |room| room.roster.bytes());
        let election = self.election.as_ref().map_or(0, Election::bytes);
        self.requests.retained_bytes() + self.peers.bytes() + room + election
    }
}

impl Matchbox {
    fn new(own: Uuid, rooms: Rooms) -> Self {
        Self {
            own,
            rooms,
            is_welcome: false,
            has_id: false,
            entries: 0,
            room: None,
            election: None,
            peers: Peers::default(),
            requests: RoomRequests::default(),
        }
    }

    /// Handles a message of the client.
    fn client(&mut self, text: &[u8], out: &mut Out) -> Result<(), IgnoredReason> {
        let Some((receiver, data)) = wire::parse(text)? else { return Ok(()) };
        if receiver == self.own {
            out.frames.push(wire::signal(self.own, data));
            return Ok(());
        }
        let room = self.room.as_ref().filter(|_| self.peers.contains(receiver));
        let room = &room.ok_or(IgnoredReason::UnknownPeer)?.name;
        let data = format!(r#"{{"k":"s","r":"{room}","d":{data}}}"#);
        let name = name::of_uuid(Dialect::Matchbox, receiver);
        out.requests.push(native::signal(self.requests.next_id(), &name, &data, HOLD_MS));
        Ok(())
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Welcome { .. } => self.welcome(now, out),
            FromMesh::Signal { from, data } => {
                if let Err(reason) = self.deliver(&from, data, out) {
                    out.ignore(reason);
                }
            }
            FromMesh::Joined { room, members, more, after } => {
                if self.requests.page_came(&room, after.as_deref()) {
                    self.joined(now, &room, &members, (after.is_none(), more), out);
                }
            }
            FromMesh::MembersChanged { room, joined, left } => self.changed(now, &room, &joined, &left, out),
            FromMesh::Ack { id } => {
                if self.requests.finish(now, id, out).is_some() {
                    if let Some(election) = &mut self.election {
                        election.succeeded(now);
                    }
                    self.step(now, out);
                }
            }
            FromMesh::Error { id, code, retry_after } => self.error(now, id, &code, retry_after, out),
            FromMesh::SeatLost { room } if self.roster(&room).is_some() => {
                self.requests.seat_lost(&room, Close::TRY_AGAIN, out);
            }
            FromMesh::Broadcast { .. } => out.ignore(IgnoredReason::Foreign),
            FromMesh::ListFailed { room, retry_after } => {
                if self.requests.page_failed(now, &room, retry_after, out) {
                    out.close = Some(Close::TRY_AGAIN);
                }
            }
            FromMesh::SeatLost { .. } | FromMesh::Other => {}
        }
    }

    fn welcome(&mut self, now: Instant, out: &mut Out) {
        if std::mem::replace(&mut self.is_welcome, true) {
            return;
        }
        match &self.rooms {
            Rooms::Single(room) => self.enter(now, room.clone(), out),
            // The client is alone in its group.
            Rooms::Groups { size: 1, .. } => self.assign_id(out),
            Rooms::Groups { queue, .. } => {
                self.election = Some(Election::new(self.own));
                self.requests.push(now, queue, RequestKind::Join(None), out);
            }
        }
    }

    /// Sends the client its id, once. It is in its room: clients that connect later are younger.
    fn assign_id(&mut self, out: &mut Out) {
        if !std::mem::replace(&mut self.has_id, true) {
            out.frames.push(format!(r#"{{"IdAssigned":"{}"}}"#, self.own));
        }
    }

    fn enter(&mut self, now: Instant, name: String, out: &mut Out) {
        let is_open = matches!(self.rooms, Rooms::Single(_));
        self.entries += u64::from(!is_open);
        let data = (!is_open).then(|| roster::entry_to_json(self.entries));
        self.requests.push(now, &name, RequestKind::Join(data.as_deref()), out);
        self.room = Some(Room { name, roster: Roster::new(self.own), is_open, was_full: false });
    }

    /// Writes a signal of a peer in the same room.
    fn deliver(&mut self, from: &str, data: &RawValue, out: &mut Out) -> Result<(), IgnoredReason> {
        let from = name::uuid(Dialect::Matchbox, from).ok_or(IgnoredReason::Foreign)?;
        let envelope = Object::parse(data.get().as_bytes()).ok_or(IgnoredReason::Foreign)?;
        if envelope.string("k").as_deref() != Some("s") {
            return Err(IgnoredReason::Type);
        }
        let data = envelope.get("d").ok_or(IgnoredReason::Field)?;
        let room = self.room.as_ref().filter(|room| envelope.string("r").as_deref() == Some(&*room.name));
        let room = room.ok_or(IgnoredReason::UnknownPeer)?;
        // An older peer's offer can arrive before the list of members.
        if room.roster.is_complete && !room.roster.contains(from) || !self.peers.hear(from) {
            return Err(IgnoredReason::UnknownPeer);
        }
        // The peer has seen the client in the room.
        self.assign_id(out);
        out.frames.push(wire::signal(from, data));
        Ok(())
    }
}
