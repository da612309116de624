//! Parses messages of the server.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;

use super::Ms;
use crate::event::{Broadcast, DepartedMember, Event, IceServer, Joined, Member, Signal, Welcome};
use crate::outcome::Refusal;

/// A message of the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// First message on a socket, with the token that resumes the session.
    Welcome(Welcome, String),
    Ack {
        id: u64,
        members: Option<u64>,
    },
    Error {
        id: Option<u64>,
        refusal: Refusal,
    },
    Goodbye {
        retry_after_ms: Option<Ms>,
    },
    /// From another client, with its number on this socket and its name.
    Message(Event, Option<(u64, String)>),
    /// Passed to the application unchanged.
    Event(Event),
    /// A pong, or a type of a later release.
    Nothing,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Receipt {
    n: Option<u64>,
    m: Option<String>,
}

#[derive(Deserialize)]
struct Greeting {
    client_id: String,
    resume: String,
    resumed: bool,
    max_message_bytes: usize,
    #[serde(default)]
    ice_servers: Vec<IceServer>,
    node: Option<String>,
}

#[derive(Deserialize)]
struct Ack {
    id: u64,
    delivered: Option<u64>,
}

#[derive(Deserialize)]
struct Failure {
    id: Option<u64>,
    code: String,
    #[serde(default)]
    message: String,
    retry_after_ms: Option<Ms>,
}

#[derive(Deserialize)]
struct Goodbye {
    retry_after_ms: Option<Ms>,
}

#[derive(Deserialize)]
struct Line {
    room: String,
    ahead: u64,
    queue_length: u64,
}

#[derive(Deserialize)]
struct Changes {
    room: String,
    version: u64,
    #[serde(default)]
    joined: Vec<Member>,
    #[serde(default)]
    left: Vec<DepartedMember>,
}

#[derive(Deserialize)]
struct Out {
    room: String,
    reason: String,
}

#[derive(Deserialize)]
struct Servers {
    ice_servers: Vec<IceServer>,
}

#[derive(Deserialize)]
struct Moved {
    node: String,
}

/// Parses one message. Unknown types become [`Incoming::Nothing`].
pub(crate) fn read(text: &str) -> serde_json::Result<Incoming> {
    let Kind { kind } = serde_json::from_str(text)?;
    Ok(match &*kind {
        "welcome" => welcome(serde_json::from_str(text)?),
        "ack" => {
            let Ack { id, delivered } = serde_json::from_str(text)?;
            Incoming::Ack { id, members: delivered }
        }
        "error" => error(serde_json::from_str(text)?),
        "signal" => Incoming::Message(Event::Signal(serde_json::from_str::<Signal>(text)?), receipt(text)?),
        "broadcast" => Incoming::Message(Event::Broadcast(serde_json::from_str::<Broadcast>(text)?), receipt(text)?),
        "goodbye" => {
            let Goodbye { retry_after_ms } = serde_json::from_str(text)?;
            Incoming::Goodbye { retry_after_ms }
        }
        "joined" => Incoming::Event(Event::Joined(serde_json::from_str::<Joined>(text)?)),
        "waiting" => {
            let Line { room, ahead, queue_length } = serde_json::from_str(text)?;
            Incoming::Event(Event::Waiting { room, ahead, queue_length })
        }
        "members_changed" => {
            let Changes { room, version, joined, left } = serde_json::from_str(text)?;
            Incoming::Event(Event::MembersChanged { room, version, joined, left })
        }
        "left" => {
            let Out { room, reason } = serde_json::from_str(text)?;
            Incoming::Event(Event::Left { room, reason })
        }
        "ice_servers" => {
            let Servers { ice_servers } = serde_json::from_str(text)?;
            Incoming::Event(Event::IceServers(ice_servers))
        }
        "moved" => {
            let Moved { node } = serde_json::from_str(text)?;
            Incoming::Event(Event::Moved { node })
        }
        _ => Incoming::Nothing,
    })
}

fn welcome(greeting: Greeting) -> Incoming {
    let Greeting { client_id, resume, resumed, max_message_bytes, ice_servers, node } = greeting;
    Incoming::Welcome(Welcome { client_id, resumed, max_message_bytes, ice_servers, node }, resume)
}

fn error(failure: Failure) -> Incoming {
    let Failure { id, code, message, retry_after_ms } = failure;
    let refusal = Refusal { code, message, retry_after: retry_after_ms.map(Duration::from_millis) };
    Incoming::Error { id, refusal }
}

fn receipt(text: &str) -> serde_json::Result<Option<(u64, String)>> {
    let Receipt { n, m } = serde_json::from_str(text)?;
    Ok(n.zip(m))
}
