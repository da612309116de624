//! PeerJS, clients 1.0 to 1.5.5: HTTP requests, handshake, and the translator of a socket.
//!
//! A message is a `signal` with the `data` `{"k":TYPE,"p":PAYLOAD,"s":SENDER}`. Without a payload
//! `p` is absent. `s` is present if the sender's name is hashed.

mod expiry;
mod handshake;
mod http;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::value::RawValue;

use self::expiry::Expiry;
pub use self::handshake::Keys;
pub(crate) use self::http::request;
use crate::event::{AnswerKind, IgnoredReason};
use crate::json::{Object, quote};
use crate::native::{self, FromMesh};
use crate::translator::{Close, Input, Out, Translate};
use crate::{Dialect, name};

/// Maximum bytes of an id with JSON's escapes, so that it fits in an envelope beside a payload. A
/// client with a longer one gets 400, and a call to one `EXPIRE`.
const MAX_ID_BYTES: usize = 512;
/// Hold time of a call for an absent recipient in milliseconds, as upstream's. Others are not held.
const HOLD_MS: u64 = 5000;

const OPEN: &str = r#"{"type":"OPEN"}"#;

/// Messages that clients relay.
const CALLS: [&str; 3] = ["OFFER", "ANSWER", "CANDIDATE"];
const LEAVE: &str = "LEAVE";
const EXPIRE: &str = "EXPIRE";

fn is_relayed(kind: &str) -> bool {
    CALLS.contains(&kind) || kind == LEAVE || kind == EXPIRE
}

/// Returns `true` if an id is short enough for messages.
fn fits(id: &str) -> bool {
    // Escapes make no text shorter, and at most 6 times as long. Quoting adds the two quotes.
    id.len() <= MAX_ID_BYTES && (6 * id.len() <= MAX_ID_BYTES || quote(id).len() - 2 <= MAX_ID_BYTES)
}

#[derive(Debug)]
pub(crate) struct PeerJs {
    key: String,
    /// Its id as a JSON string.
    quoted_id: String,
    /// `true` if the name is hashed, so that messages contain the id.
    shows_id: bool,
    next_request: u64,
    expiry: Expiry,
}

enum Recipient<'a> {
    /// No `dst`, or one that is false in JavaScript.
    Absent,
    Named(Cow<'a, str>),
    /// Not a string, or longer than any id: no client has it.
    Impossible(&'a RawValue),
}

impl Recipient<'_> {
    fn of<'a>(message: &Object<'a>) -> Recipient<'a> {
        let Some(value) = message.get("dst") else { return Recipient::Absent };
        match (message.string("dst"), value.get()) {
            (Some(text), _) if text.is_empty() => Recipient::Absent,
            (Some(text), _) if fits(&text) => Recipient::Named(text),
            (None, "null" | "false") => Recipient::Absent,
            (None, number) if number.parse() == Ok(0.0) => Recipient::Absent,
            _ => Recipient::Impossible(value),
        }
    }
}

impl Translate for PeerJs {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) | Input::Binary(text) => self.client(now, text, out),
            Input::Tick | Input::Pong => {}
        }
    }

    fn is_full(&self) -> bool {
        self.expiry.is_full()
    }

    fn error_frame(&self, reason: &str) -> Option<String> {
        Some(format!(r#"{{"type":"ERROR","payload":{{"msg":{}}}}}"#, quote(reason)))
    }

    fn retained_bytes(&self) -> usize {
        self.key.len() + self.quoted_id.len() + self.expiry.bytes()
    }
}

impl PeerJs {
    fn new(key: String, id: &str, random: &[u8; 32]) -> Self {
        // A resumed session gets answers to requests of its former socket: no id repeats.
        let [a, b, c, d, ..] = *random;
        let first = (u64::from(u32::from_be_bytes([a, b, c, d])) << 20) + 1;
        let shows_id = name::is_hashed(&name::internal(Dialect::PeerJs, &[&key, id]));
        Self { key, quoted_id: quote(id), shows_id, next_request: first, expiry: Expiry::default() }
    }

    fn client(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        let Some(message) = Object::parse(text) else { return out.ignore(IgnoredReason::Json) };
        let kind = message.string("type").unwrap_or_default();
        if kind == "HEARTBEAT" {
            return;
        }
        if !is_relayed(&kind) {
            return out.ignore(IgnoredReason::Type);
        }
        let is_call = kind != LEAVE && kind != EXPIRE;
        match Recipient::of(&message) {
            Recipient::Named(to) => self.relay(now, &kind, &to, message.get("payload"), is_call, out),
            Recipient::Impossible(to) if is_call => self.expire(now, to.get(), out),
            Recipient::Absent if kind == LEAVE => out.close = Some(Close::EMPTY),
            Recipient::Impossible(_) | Recipient::Absent => out.ignore(IgnoredReason::Field),
        }
    }

    fn relay(&mut self, now: Instant, kind: &str, to: &str, payload: Option<&RawValue>, is_call: bool, out: &mut Out) {
        let id = self.next_request;
        if is_call && !self.expiry.sent(id, to) {
            out.ignore(IgnoredReason::Limit);
            return self.expire(now, &quote(to), out);
        }
        self.next_request += 1;
        let (field, payload) = payload.map_or(("", ""), |payload| (r#","p":"#, payload.get()));
        let mut data = String::with_capacity(payload.len() + 32);
        let _ = write!(data, r#"{{"k":"{kind}"{field}{payload}"#);
        if self.shows_id {
            data.push_str(",\"s\":");
            data.push_str(&self.quoted_id);
        }
        data.push('}');
        let name = name::internal(Dialect::PeerJs, &[&self.key, to]);
        out.requests.push(native::signal(id, &name, &data, if is_call { HOLD_MS } else { 0 }));
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Welcome { .. } => out.frames.push(OPEN.to_owned()),
            FromMesh::Signal { from, data } => self.deliver(&from, data, out),
            FromMesh::Ack { id } => drop(self.expiry.outcome(id)),
            FromMesh::Error { id, .. } => {
                if let Some(to) = self.expiry.outcome(id) {
                    self.expire(now, &quote(&to), out);
                }
            }
            _ => {}
        }
    }

    fn deliver(&self, from: &str, data: &RawValue, out: &mut Out) {
        let Some(message) = Object::parse(data.get().as_bytes()) else { return out.ignore(IgnoredReason::Foreign) };
        let Some(from) = name::foreign(Dialect::PeerJs, &[&self.key], from, message.string("s")) else {
            return out.ignore(IgnoredReason::Foreign);
        };
        let kind = message.string("k").unwrap_or_default();
        if !is_relayed(&kind) {
            return out.ignore(IgnoredReason::Type);
        }
        let (src, dst) = (quote(&from), &self.quoted_id);
        let (name, payload) = message.get("p").map_or(("", ""), |payload| (r#","payload":"#, payload.get()));
        let mut frame = String::with_capacity(kind.len() + src.len() + dst.len() + payload.len() + 48);
        let _ = write!(frame, r#"{{"type":"{kind}","src":{src},"dst":{dst}{name}{payload}}}"#);
        out.frames.push(frame);
    }

    /// Reports a recipient, given as JSON, that was not reached.
    fn expire(&mut self, now: Instant, to: &str, out: &mut Out) {
        if self.expiry.may_report(now, to) {
            let frame = format!(r#"{{"type":"EXPIRE","src":{to},"dst":{}}}"#, self.quoted_id);
            out.answer(AnswerKind::Expire, frame);
        }
    }
}
