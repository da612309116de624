//! What a client tells its application.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ending::Ending;
use crate::outcome::Refusal;

/// Something happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of the connection has changed.
    State(State),
    /// Another client sent this.
    Signal(Signal),
    /// Another client sent this to a room that both are in.
    Broadcast(Broadcast),
    /// The state of a room: answers `join` and `members`.
    Joined(Joined),
    /// A room is full, and the client stands in line.
    Waiting {
        /// The room.
        room: String,
        /// How many are in front.
        ahead: u64,
        /// How many stand in line.
        queue_length: u64,
    },
    /// Who came to a room, and who left.
    MembersChanged {
        /// The room.
        room: String,
        /// The room's version after these changes.
        version: u64,
        /// Who came.
        joined: Vec<Member>,
        /// Who left.
        left: Vec<DepartedMember>,
    },
    /// The client is out of a room, by `leave` or not; after a lost session also because it could not join again.
    Left {
        /// The room.
        room: String,
        /// `left`, `kicked`, `expired`, or the error code of the join that failed.
        reason: String,
    },
    /// Fresh ICE servers.
    IceServers(Vec<IceServer>),
    /// Another node serves the client now. Nothing to do.
    Moved {
        /// That node.
        node: String,
    },
    /// The server refused something that was no request, a renewed token say.
    Problem(Refusal),
}

/// The state of the connection.
#[derive(Debug, Clone)]
pub enum State {
    /// A server is being asked.
    Connecting {
        /// Which of the client's URLs is tried.
        url: usize,
    },
    /// Requests go out.
    Connected(Welcome),
    /// The connection was lost; another try comes.
    Waiting {
        /// When.
        retry_in: Duration,
        /// Why.
        why: Ending,
    },
    /// The end: no event comes after this one.
    Closed {
        /// Why; `None` if the application closed it.
        why: Option<Ending>,
    },
}

/// What a server says first.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// The client's own id.
    pub client_id: String,
    /// Whether an earlier session goes on. If not, what others sent while the client was away is lost.
    pub resumed: bool,
    /// The largest message that the client may send, in bytes.
    pub max_message_bytes: usize,
    /// For `RTCPeerConnection`.
    pub ice_servers: Vec<IceServer>,
    /// Which node serves the client; only where the operator reveals nodes.
    pub node: Option<String>,
}

/// A message from another client.
#[derive(Debug, Clone, Deserialize)]
pub struct Signal {
    /// Who sent it.
    pub from: String,
    /// What, as it was written.
    pub data: Box<RawValue>,
    /// The sender's number for it.
    pub id: Option<u64>,
}

/// A message from another client to a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Broadcast {
    /// The room.
    pub room: String,
    /// Who sent it.
    pub from: String,
    /// What, as it was written.
    pub data: Box<RawValue>,
    /// The sender's number for it.
    pub id: Option<u64>,
}

impl Signal {
    /// Reads the data.
    ///
    /// # Errors
    /// If it is not of that form.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

impl Broadcast {
    /// Reads the data.
    ///
    /// # Errors
    /// If it is not of that form.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

/// The state of a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Joined {
    /// The room.
    pub room: String,
    /// Grows by one with every change.
    pub version: u64,
    /// How many members it takes; `None`: no limit.
    pub capacity: Option<u64>,
    /// How many it has.
    pub count: u64,
    /// Oldest first, at most 500.
    pub members: Vec<Member>,
    /// Whether there are more: ask for those after the last.
    pub more: bool,
}

/// Somebody in a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Member {
    /// Who.
    pub client_id: String,
    /// What the member shows to the others.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
}

/// Somebody who has left a room.
#[derive(Debug, Clone, Deserialize)]
pub struct DepartedMember {
    /// Who.
    pub client_id: String,
    /// `left`, `kicked` or `expired`.
    pub reason: String,
}

/// One entry for `RTCPeerConnection`'s `iceServers`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct IceServer {
    /// STUN and TURN addresses.
    pub urls: Vec<String>,
    /// TURN user name.
    #[serde(default)]
    pub username: Option<String>,
    /// TURN password.
    #[serde(default)]
    pub credential: Option<String>,
}
