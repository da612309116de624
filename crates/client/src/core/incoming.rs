//! Parses text messages of the server, for `received`. Unknown fields and types are ignored.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_protocol::server::IceServer;

use super::Ms;
use super::request::present;
use crate::event::{Broadcast, DepartedMember, Event, Joined, Member, Signal, Welcome};
use crate::outcome::Refusal;

/// A message of the server. `id` is the number of a request of this client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// First message on a socket, with the token that resumes the session.
    Welcome(Welcome, String),
    /// A request was carried out. `members`: number that a broadcast reached, `None` for others.
    Ack { id: u64, members: Option<u64> },
    /// A request was refused; without `id`, another message.
    Error { id: Option<u64>, refusal: Refusal },
    /// The server will close the socket. `retry_after_ms`: wait that it asks for, if any.
    Goodbye { retry_after_ms: Option<Ms> },
    /// From another client, with its number on this socket and its name; `None` if it has none.
    Message(Event, Option<(u64, String)>),
    /// Any other message of interest to the application.
    Event(Event),
    /// A pong, or a type of a later release.
    Ignored,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Fields of all messages of known types.
#[derive(Deserialize)]
struct Fields {
    client_id: Option<String>,
    resume: Option<String>,
    resumed: Option<bool>,
    max_message_bytes: Option<usize>,
    ice_servers: Option<Vec<IceServer>>,
    node: Option<String>,
    from: Option<String>,
    #[serde(default, deserialize_with = "present")]
    data: Option<Box<RawValue>>,
    id: Option<u64>,
    n: Option<u64>,
    m: Option<String>,
    delivered: Option<u64>,
    code: Option<String>,
    message: Option<String>,
    retry_after_ms: Option<Ms>,
    room: Option<String>,
    version: Option<u64>,
    capacity: Option<u64>,
    count: Option<u64>,
    members: Option<Vec<Member>>,
    more: Option<bool>,
    after: Option<String>,
    ahead: Option<u64>,
    queue_length: Option<u64>,
    joined: Option<Vec<Member>>,
    left: Option<Vec<DepartedMember>>,
    reason: Option<String>,
}

/// Parses one message. Returns `None` if it is malformed or a field is missing.
pub(crate) fn parse(text: &str) -> Option<Incoming> {
    let Kind { kind } = serde_json::from_str(text).ok()?;
    match &*kind {
        "welcome" | "ack" | "error" | "signal" | "broadcast" | "goodbye" | "joined" | "waiting" | "members_changed"
        | "left" | "ice_servers" | "moved" => serde_json::from_str::<Fields>(text).ok()?.into_message(&kind),
        // Fields of later types may have other forms.
        _ => Some(Incoming::Ignored),
    }
}

impl Fields {
    fn into_message(self, kind: &str) -> Option<Incoming> {
        let event = match kind {
            "welcome" => {
                let welcome = Welcome {
                    client_id: self.client_id?,
                    resumed: self.resumed?,
                    max_message_bytes: self.max_message_bytes?,
                    ice_servers: self.ice_servers.unwrap_or_default(),
                    node: self.node,
                };
                return Some(Incoming::Welcome(welcome, self.resume?));
            }
            "ack" => return Some(Incoming::Ack { id: self.id?, members: self.delivered }),
            "error" => {
                let message = self.message.unwrap_or_default();
                let retry_after = self.retry_after_ms.map(Duration::from_millis);
                return Some(Incoming::Error {
                    id: self.id,
                    refusal: Refusal { code: self.code?, message, retry_after },
                });
            }
            "goodbye" => return Some(Incoming::Goodbye { retry_after_ms: self.retry_after_ms }),
            "signal" => {
                let signal = Signal { from: self.from?, data: self.data?, id: self.id };
                return Some(Incoming::Message(Event::Signal(signal), self.n.zip(self.m)));
            }
            "broadcast" => {
                let broadcast = Broadcast { room: self.room?, from: self.from?, data: self.data?, id: self.id };
                return Some(Incoming::Message(Event::Broadcast(broadcast), self.n.zip(self.m)));
            }
            "joined" => Event::Joined(Joined {
                room: self.room?,
                version: self.version?,
                capacity: self.capacity,
                count: self.count?,
                members: self.members?,
                more: self.more?,
                after: self.after,
            }),
            "waiting" => Event::Waiting { room: self.room?, ahead: self.ahead?, queue_length: self.queue_length? },
            "members_changed" => Event::MembersChanged {
                room: self.room?,
                version: self.version?,
                joined: self.joined.unwrap_or_default(),
                left: self.left.unwrap_or_default(),
            },
            "left" => Event::Left { room: self.room?, reason: self.reason? },
            "ice_servers" => Event::IceServers(self.ice_servers?),
            "moved" => Event::Moved { node: self.node? },
            _ => return Some(Incoming::Ignored),
        };
        Some(Incoming::Event(event))
    }
}
