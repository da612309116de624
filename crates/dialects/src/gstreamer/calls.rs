//! Sessions between two peers: signals between their translators. The parent module passes signals
//! of the mesh to [`GStreamer::deliver`]. `client` calls this module for messages of the client.
//! `room` and the parent module end sessions without a partner or an answer.
//!
//! The mesh names the sender of a signal, so no field does. The asker of a session chooses its id.
//! The asked peer decides the roles, and answers before it sends a message of the session.
//!
//! | `data` | meaning |
//! |---|---|
//! | `{"k":"start","r":ROOM,"sid":ID,"roles":ROLES,"offer":SDP\|null}` | a peer with these roles asks for a session |
//! | `{"k":"started","sid":ID}` | the asked peer is the producer |
//! | `{"k":"started","sid":ID,"offer":SDP\|null}` | the asked peer is the consumer; `offer` is the asker's |
//! | `{"k":"no","sid":ID,"details":TEXT}` | there is no session |
//! | `{"k":"peer","sid":ID,"sdp":{..}}`, `"ice":{..}` | a message of the session |
//! | `{"k":"end","sid":ID,"error":TEXT\|null}` | the session has ended |

use std::fmt;
use std::time::Instant;

use serde_json::value::RawValue;

use super::client::Refusal;
use super::sessions::{ANSWER_TIMEOUT, Part, Presence, Session, session_id};
use super::status::{Role, parse_roles, quote_roles};
use super::{GStreamer, or_null};
use crate::event::IgnoredReason;
use crate::json::{Object, quote};
use crate::translator::Out;
use crate::{Dialect, name, native};
use uuid::Uuid;

/// Hold time of a signal for an absent peer, such as one whose node is gone, in milliseconds.
const HOLD_MS: u64 = 10_000;

impl GStreamer {
    /// Returns the `details` of the error for a peer that is absent or not reached.
    pub(super) fn not_found(peer: impl fmt::Display) -> String {
        format!("Peer with ID '{peer}' not found")
    }

    /// Returns the `details` of the error for two peers whose roles allow no session.
    pub(super) fn no_roles((asker, asker_roles): (Uuid, &[Role]), (asked, asked_roles): (Uuid, &[Role])) -> String {
        let ends = format!("id {asker} roles {asker_roles:?}, id {asked} roles {asked_roles:?}");
        format!("Missing a producer or a consumer: {ends}")
    }

    /// Returns the `details` of the error for a peer that has 256 sessions, the maximum.
    pub(super) fn too_many_sessions(peer: Uuid) -> String {
        format!("Peer {peer} has too many sessions")
    }

    /// Returns the open session with this id, which is text of a client message. Without such a
    /// session the message is to be ignored.
    pub(super) fn open_session(&self, id: &str) -> Result<(Uuid, Session), Refusal> {
        let open =
            |id: Uuid| self.sessions.by_id.get(&id).filter(|session| session.is_open()).map(|session| (id, *session));
        // It can be late: its session has ended.
        name::parse_uuid(id).and_then(open).ok_or(Refusal::Ignored(IgnoredReason::UnknownPeer))
    }

    /// Asks a peer for a session. `offer`: JSON of the client's SDP offer, or `null`. The client
    /// gets an error if the peer is not reached, refuses, or does not answer in 30 s.
    pub(super) fn ask(&mut self, now: Instant, peer: Uuid, offer: &str, out: &mut Out) {
        let id = session_id(self.secret, self.asked_sessions);
        self.asked_sessions += 1;
        let (room, roles) = (&self.room, quote_roles(&self.present_status().roles));
        let data = format!(r#"{{"k":"start","r":"{room}","sid":"{id}","roles":{roles},"offer":{offer}}}"#);
        // An absent peer is reported at once, unless the room lists it.
        let is_listed = self.members.get(peer).is_some();
        let request = Some(self.send(peer, &data, if is_listed { HOLD_MS } else { 0 }, out));
        let (part, presence) = (Part::Asker(now + ANSWER_TIMEOUT), Presence::new(is_listed));
        self.sessions.by_id.insert(id, Session { partner: peer, part, request, presence });
    }

    /// Sends a message of a session: the JSON `content` of its `field`, `sdp` or `ice`.
    pub(super) fn send_peer(&mut self, id: Uuid, to: Uuid, field: &str, content: &str, out: &mut Out) {
        self.send(to, &format!(r#"{{"k":"peer","sid":"{id}","{field}":{content}}}"#), HOLD_MS, out);
    }

    /// Ends a session for the other peer. `error`: a JSON string, or `null`.
    pub(super) fn send_end(&mut self, id: Uuid, to: Uuid, error: &str, out: &mut Out) {
        self.send(to, &format!(r#"{{"k":"end","sid":"{id}","error":{error}}}"#), HOLD_MS, out);
    }

    fn send(&mut self, to: Uuid, data: &str, ttl_ms: u64, out: &mut Out) -> u64 {
        let id = self.requests.next_id();
        out.requests.push(native::signal(id, &name::of_uuid(Dialect::GStreamer, to), data, ttl_ms));
        id
    }

    /// Handles a signal of another translator. Fails if it is invalid, or of no session that the
    /// client has now. A request for a session that is answered `no` is not a failure.
    pub(super) fn deliver(&mut self, from: &str, data: &RawValue, out: &mut Out) -> Result<(), IgnoredReason> {
        let from = name::uuid(Dialect::GStreamer, from).ok_or(IgnoredReason::Foreign)?;
        let message = Object::parse(data.get().as_bytes()).ok_or(IgnoredReason::Foreign)?;
        let id = message.string("sid").and_then(|id| name::parse_uuid(&id)).ok_or(IgnoredReason::Foreign)?;
        match &*message.string("k").unwrap_or_default() {
            "start" => self.asked(from, id, &message, out),
            "started" => self.started(from, id, message.get("offer"), out),
            "no" => {
                self.session_of(from, id).filter(|session| !session.is_open()).ok_or(IgnoredReason::UnknownPeer)?;
                self.sessions.by_id.remove(&id);
                self.error(&message.string("details").unwrap_or_default(), out);
                Ok(())
            }
            "peer" => {
                self.session_of(from, id).filter(Session::is_open).ok_or(IgnoredReason::UnknownPeer)?;
                let content = |field| message.get(field).map(|content| format!(r#""{field}":{content}"#));
                let content = content("sdp").or_else(|| content("ice")).ok_or(IgnoredReason::Field)?;
                out.frames.push(format!(r#"{{"type":"peer","sessionId":"{id}",{content}}}"#));
                Ok(())
            }
            "end" => {
                self.session_of(from, id).filter(Session::is_open).ok_or(IgnoredReason::UnknownPeer)?;
                self.sessions.by_id.remove(&id);
                self.write_end(id, or_null(message.get("error")), out);
                Ok(())
            }
            _ => Err(IgnoredReason::Type),
        }
    }

    /// Returns the session with this id. `None`: it is gone, or with another peer.
    fn session_of(&self, partner: Uuid, id: Uuid) -> Option<Session> {
        self.sessions.by_id.get(&id).filter(|session| session.partner == partner).copied()
    }

    /// Decides about a session that another peer asks for.
    fn asked(&mut self, from: Uuid, id: Uuid, message: &Object<'_>, out: &mut Out) -> Result<(), IgnoredReason> {
        if self.sessions.by_id.contains_key(&id) || from == self.own {
            return Err(IgnoredReason::Foreign);
        }
        let (status, offer) = (self.present_status(), or_null(message.get("offer")));
        let refusal = if message.string("r").as_deref() != Some(&*self.room) || !self.is_welcome {
            Some(Self::not_found(self.own))
        } else if !status.is_callable() {
            let asker_roles = message.get("roles").and_then(parse_roles).unwrap_or_default();
            Some(Self::no_roles((from, &asker_roles), (self.own, &status.roles)))
        } else {
            self.sessions.is_full().then(|| Self::too_many_sessions(self.own))
        };
        if let Some(details) = refusal {
            self.send(from, &format!(r#"{{"k":"no","sid":"{id}","details":{}}}"#, quote(&details)), HOLD_MS, out);
            return Ok(());
        }
        let is_producer = status.has(Role::Producer);
        let request = if is_producer {
            out.frames.push(start_session(from, id, offer));
            self.send(from, &format!(r#"{{"k":"started","sid":"{id}"}}"#), HOLD_MS, out)
        } else {
            out.frames.push(session_started(from, id));
            self.send(from, &format!(r#"{{"k":"started","sid":"{id}","offer":{offer}}}"#), HOLD_MS, out)
        };
        let part = if is_producer { Part::Producer } else { Part::Consumer };
        let presence = Presence::new(self.members.get(from).is_some());
        self.sessions.by_id.insert(id, Session { partner: from, part, request: Some(request), presence });
        Ok(())
    }

    /// Opens a session that the client has asked for. With an `offer`, also `null`, the other peer
    /// is the consumer. `None`: it is the producer. Fails if the client does not wait for it.
    fn started(&mut self, from: Uuid, id: Uuid, offer: Option<&RawValue>, out: &mut Out) -> Result<(), IgnoredReason> {
        let part = if offer.is_some() { Part::Producer } else { Part::Consumer };
        if !self.sessions.open(id, from, part) {
            if !self.sessions.by_id.contains_key(&id) {
                // The answer came too late.
                self.send_end(id, from, "null", out);
            }
            return Err(IgnoredReason::UnknownPeer);
        }
        out.frames.push(offer.map_or_else(|| session_started(from, id), |offer| start_session(from, id, offer.get())));
        Ok(())
    }

    /// Ends the sessions that `ends` selects, for the client only. An unanswered one is an error.
    pub(super) fn end_sessions(&mut self, ends: impl Fn(&Session) -> bool, out: &mut Out) {
        for (id, session) in self.sessions.remove_if(ends) {
            if session.is_open() {
                self.write_end(id, "null", out);
            } else {
                self.error(&Self::not_found(session.partner), out);
            }
        }
    }

    fn write_end(&self, id: Uuid, error: &str, out: &mut Out) {
        out.frames.push(if self.has_v1_1 {
            format!(r#"{{"type":"endSessionV1_1","sessionId":"{id}","error":{error}}}"#)
        } else {
            format!(r#"{{"type":"endSession","sessionId":"{id}"}}"#)
        });
    }
}

fn session_started(producer: Uuid, id: Uuid) -> String {
    format!(r#"{{"type":"sessionStarted","peerId":"{producer}","sessionId":"{id}"}}"#)
}

fn start_session(consumer: Uuid, id: Uuid, offer: &str) -> String {
    format!(r#"{{"type":"startSession","peerId":"{consumer}","sessionId":"{id}","offer":{offer}}}"#)
}
