//! Parses text messages of the server, for `received`. Unknown fields and types are ignored.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_protocol::server::{ClientRate, IceServer};

use super::Ms;
use super::request::present;
use crate::event::{Broadcast, DepartedMember, Event, Member, Signal, Welcome};
use crate::outcome::Refusal;

/// A message of the server. `id` is the number of a request of this client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// First message on a socket.
    Welcome(Box<Greeting>),
    /// A request was carried out. `members`: number that a broadcast reached, `None` for others.
    Ack { id: u64, members: Option<u64> },
    /// A request was refused; without `id`, another message. `room`: that of the message, if any.
    Error { id: Option<u64>, room: Option<String>, refusal: Refusal },
    /// The server will close the socket. `retry_after_ms`: wait that it asks for, if any.
    Goodbye { retry_after_ms: Option<Ms> },
    /// From another client, with its number on this socket and its name; `None` if it has none.
    Message(Event, Option<(u64, String)>),
    /// ICE servers, and the time until their credentials end, if they have any.
    IceServers(Vec<IceServer>, Option<Ms>),
    /// Any other message of interest to the application.
    Event(Event),
    /// A pong, or a type of a later release.
    Ignored,
}

/// Content of a `welcome`.
#[derive(Debug, Deserialize)]
pub(crate) struct Greeting {
    #[serde(flatten)]
    pub(crate) welcome: Welcome,
    /// Token that resumes the session.
    pub(crate) resume: String,
    #[serde(default)]
    pub(crate) rate: ClientRate,
    /// Time until the first TURN credential ends; `None`: there is none.
    pub(crate) ice_valid_ms: Option<Ms>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// Fields of all messages of known types, without those of `Welcome` and `Joined`.
#[derive(Deserialize)]
struct Fields {
    ice_servers: Option<Vec<IceServer>>,
    ice_valid_ms: Option<Ms>,
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
    ahead: Option<u64>,
    queue_length: Option<u64>,
    joined: Option<Vec<Member>>,
    left: Option<Vec<DepartedMember>>,
    reason: Option<String>,
}

/// Parses one message. Returns `None` if it is malformed or a field is missing.
pub(crate) fn parse(text: &str) -> Option<Incoming> {
    let Kind { kind } = read(text)?;
    let into_message: fn(Fields) -> Option<Incoming> = match &*kind {
        "welcome" => return Some(Incoming::Welcome(read(text)?)),
        "ack" => |it| Some(Incoming::Ack { id: it.id?, members: it.delivered }),
        "error" => |it| {
            let (message, retry_after) = (it.message.unwrap_or_default(), it.retry_after_ms.map(Duration::from_millis));
            Some(Incoming::Error {
                id: it.id,
                room: it.room,
                refusal: Refusal { code: it.code?, message, retry_after },
            })
        },
        "goodbye" => |it| Some(Incoming::Goodbye { retry_after_ms: it.retry_after_ms }),
        "signal" => |it| {
            let signal = Signal { from: it.from?, data: it.data?, id: it.id };
            Some(Incoming::Message(Event::Signal(signal), it.n.zip(it.m)))
        },
        "broadcast" => |it| {
            let broadcast = Broadcast { room: it.room?, from: it.from?, data: it.data?, id: it.id };
            Some(Incoming::Message(Event::Broadcast(broadcast), it.n.zip(it.m)))
        },
        "joined" => return Some(Incoming::Event(Event::Joined(read(text)?))),
        "waiting" => |it| {
            let (ahead, queue_length) = (it.ahead?, it.queue_length?);
            Some(Incoming::Event(Event::Waiting { room: it.room?, ahead, queue_length }))
        },
        "members_changed" => |it| {
            let (joined, left) = (it.joined.unwrap_or_default(), it.left.unwrap_or_default());
            Some(Incoming::Event(Event::MembersChanged { room: it.room?, version: it.version?, joined, left }))
        },
        "left" => |it| Some(Incoming::Event(Event::Left { room: it.room?, reason: it.reason? })),
        "ice_servers" => |it| Some(Incoming::IceServers(it.ice_servers?, it.ice_valid_ms)),
        "moved" => |it| Some(Incoming::Event(Event::Moved { node: it.node? })),
        // Fields of later types may have other forms.
        _ => return Some(Incoming::Ignored),
    };
    into_message(read(text)?)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}
