//! rxdb's simple-peer handler: its upgrade request and the translator of its sockets.
//!
//! A signal has the `data` `{"k":"s","m":MESSAGE}` with the client's whole message. Upstream closes
//! the socket of a client that sends a bad message, and so does the translator.

mod members;
mod peer_id;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use signaling_protocol::rooms::Member;

use self::members::Members;
use self::peer_id::PeerId;
use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::held::Held;
use crate::json::Object;
use crate::native::{self, FromMesh};
use crate::request::{Answer, Head, Opening};
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Input, Out, Translate};
use crate::{Dialect, name};

/// Maximum rooms of a client: the mesh's maximum of a session. Further joins are ignored.
const MAX_ROOMS: usize = 256;
/// Length of a room's name, in UTF-16 code units as JavaScript counts.
const ROOM_UNITS: std::ops::RangeInclusive<usize> = 6..=99;
/// Hold time of a signal for an absent recipient, in milliseconds.
const HOLD_MS: u64 = 5000;
/// Maximum held signals of one sender that no `joined` has listed. Further ones are dropped.
const MAX_EARLY_OF_PEER: usize = 64;
/// Time after which a held signal is dropped.
const EARLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Room and sender of a held signal: no `joined` lists the sender, and older clients would fail.
#[derive(Debug)]
struct Early {
    room: String,
    from: PeerId,
    /// Time when the signal is dropped.
    until: Instant,
}

/// Returns the answer to a request: an upgrade for any path and query, 404 for a plain request.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let own = PeerId::random(random);
    Opening::anonymous(head, &own.to_name(), Rxdb::new(own))
}

#[derive(Debug)]
pub(crate) struct Rxdb {
    own: PeerId,
    /// Joined rooms by their names in the mesh.
    rooms: BTreeMap<String, Members>,
    early: Held<Early, 256, { 1024 * 1024 }>,
    requests: RoomRequests,
}

fn room_name(room: &str) -> String {
    name::internal(Dialect::Rxdb, &[room])
}

fn peers<'a>(members: &'a [Member<'_>]) -> impl Iterator<Item = PeerId> + 'a {
    members.iter().filter_map(|member| PeerId::of_name(member.client_id))
}

impl Translate for Rxdb {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) | Input::Binary(text) => {
                if let Err(reason) = self.client(now, text, out) {
                    out.ignore(reason);
                    out.close = Some(Close::EMPTY);
                }
            }
            Input::Tick => self.tick(now, out),
            Input::Pong => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let list = self.rooms.values().filter_map(|members| members.due).min();
        [self.requests.deadline(), self.early.iter().next().map(|early| early.until), list].into_iter().flatten().min()
    }

    fn is_full(&self) -> bool {
        self.requests.is_full()
    }

    fn retained_bytes(&self) -> usize {
        let rooms: usize = self.rooms.iter().map(|(room, members)| room.len() + members.bytes() + 128).sum();
        rooms + self.early.retained_bytes() + self.requests.retained_bytes()
    }
}

impl Rxdb {
    fn new(own: PeerId) -> Self {
        Self { own, rooms: BTreeMap::new(), early: Held::default(), requests: RoomRequests::default() }
    }

    /// Handles a message of the client. Fails if the client must be closed.
    fn client(&mut self, now: Instant, text: &[u8], out: &mut Out) -> Result<(), IgnoredReason> {
        let message = Object::parse(text).ok_or(IgnoredReason::Json)?;
        match &*message.string("type").unwrap_or_default() {
            "join" => {
                let room = message.string("room").filter(|room| ROOM_UNITS.contains(&room.encode_utf16().count()));
                self.join(now, &room_name(&room.ok_or(IgnoredReason::Field)?), out);
                Ok(())
            }
            "signal" => {
                if message.string("senderPeerId").as_deref() != Some(self.own.as_str()) {
                    return Err(IgnoredReason::Field);
                }
                if let Err(reason) = self.signal(&message, text, out) {
                    out.ignore(reason);
                }
                Ok(())
            }
            "ping" => Ok(()),
            _ => Err(IgnoredReason::Type),
        }
    }

    fn join(&mut self, now: Instant, room: &str, out: &mut Out) {
        if self.rooms.contains_key(room) {
            return;
        }
        if self.rooms.len() >= MAX_ROOMS || !self.requests.push(now, room, RequestKind::Join(None), out) {
            return out.ignore(IgnoredReason::Limit);
        }
        self.rooms.insert(room.to_owned(), Members::default());
    }

    fn signal(&mut self, message: &Object<'_>, text: &[u8], out: &mut Out) -> Result<(), IgnoredReason> {
        let room = message.string("room").ok_or(IgnoredReason::Field)?;
        let receiver = message.string("receiverPeerId").ok_or(IgnoredReason::Field)?;
        let receiver = PeerId::parse(&receiver).ok_or(IgnoredReason::UnknownPeer)?;
        if !self.rooms.contains_key(&room_name(&room)) {
            return Err(IgnoredReason::UnknownPeer);
        }
        let text = str::from_utf8(text).map_err(|_| IgnoredReason::Json)?.trim();
        let data = format!(r#"{{"k":"s","m":{text}}}"#);
        out.requests.push(native::signal(self.requests.next_id(), &receiver.to_name(), &data, HOLD_MS));
        Ok(())
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Welcome { .. } => {
                out.frames.push(format!(r#"{{"type":"init","yourPeerId":"{}"}}"#, self.own.as_str()));
            }
            FromMesh::Signal { from, data } => {
                if let Err(reason) = self.deliver(now, &from, data, out) {
                    out.ignore(reason);
                }
            }
            FromMesh::Joined { room, members, .. } => {
                if let Some(known) = self.rooms.get_mut(&*room) {
                    known.replace(now, self.own, peers(&members));
                    self.list(now, &room, out);
                }
            }
            FromMesh::MembersChanged { room, joined, left } => {
                if let Some(known) = self.rooms.get_mut(&*room) {
                    let left = left.iter().filter_map(|former| PeerId::of_name(former.client_id));
                    known.change(now, peers(&joined), left);
                    self.list(now, &room, out);
                }
            }
            FromMesh::Ack { id } => drop(self.requests.finish(now, id, out)),
            FromMesh::Error { id, retry_after: Some(wait), .. } => self.requests.refuse(now, id, wait, out),
            FromMesh::Error { id, retry_after: None, .. } => self.fail(now, id, out),
            FromMesh::SeatLost { room } if self.rooms.contains_key(&*room) => {
                self.requests.seat_lost(&room, Close::TRY_AGAIN, out);
            }
            FromMesh::Broadcast { .. } => out.ignore(IgnoredReason::Foreign),
            FromMesh::SeatLost { .. } | FromMesh::ListFailed { .. } | FromMesh::Other => {}
        }
    }

    /// Writes a signal, or holds it until the client knows its sender.
    fn deliver(&mut self, now: Instant, from: &str, data: &RawValue, out: &mut Out) -> Result<(), IgnoredReason> {
        let from = PeerId::of_name(from).ok_or(IgnoredReason::Foreign)?;
        let envelope = Object::parse(data.get().as_bytes()).ok_or(IgnoredReason::Foreign)?;
        let frame = envelope.get("m").filter(|_| envelope.string("k").as_deref() == Some("s"));
        let frame = frame.ok_or(IgnoredReason::Type)?.get();
        let message = Object::parse(frame.as_bytes()).ok_or(IgnoredReason::Foreign)?;
        let is = |field: &str, peer: PeerId| message.string(field).as_deref() == Some(peer.as_str());
        if !is("senderPeerId", from)
            || !is("receiverPeerId", self.own)
            || message.string("type").as_deref() != Some("signal")
        {
            return Err(IgnoredReason::Foreign);
        }
        let room = room_name(&message.string("room").ok_or(IgnoredReason::Foreign)?);
        let members = self.rooms.get(&room).ok_or(IgnoredReason::UnknownPeer)?;
        if members.listed.contains(&from) {
            out.frames.push(frame.to_owned());
            return Ok(());
        }
        let of_peer = self.early.iter().filter(|early| early.from == from).count();
        let is_held =
            of_peer < MAX_EARLY_OF_PEER && self.early.push(Early { room, from, until: now + EARLY_TIMEOUT }, frame);
        if is_held { Ok(()) } else { Err(IgnoredReason::Limit) }
    }

    /// Writes the members of a room if a list is due, and the signals that waited for it.
    fn list(&mut self, now: Instant, room: &str, out: &mut Out) {
        let Some(members) = self.rooms.get_mut(room) else { return };
        if let Some(list) = members.next_list(now) {
            out.frames.push(list);
            let is_listed = |early: &Early| early.room == room && members.listed.contains(&early.from);
            out.frames.extend(self.early.take_if(is_listed));
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Out) {
        if !self.requests.tick(now, out) {
            out.close = Some(Close::TRY_AGAIN);
        }
        let is_due = |(room, members): (&String, &Members)| members.due.filter(|due| *due <= now).map(|_| room.clone());
        let due: Vec<String> = self.rooms.iter().filter_map(is_due).collect();
        due.iter().for_each(|room| self.list(now, room, out));
        let expired = self.early.take_if(|early| early.until <= now);
        expired.iter().for_each(|_| out.ignore(IgnoredReason::UnknownPeer));
    }

    fn fail(&mut self, now: Instant, id: u64, out: &mut Out) {
        let Some(outcome) = self.requests.finish(now, id, out) else { return };
        self.rooms.remove(&*outcome.room);
        out.count(Event::Answered(AnswerKind::SubscribeFailed));
    }
}
