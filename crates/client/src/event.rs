//! Events of a client for its application, which reads them from [`Events`](crate::Events).

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use signaling_protocol::server::IceServer;

use crate::ending::Ending;
use crate::outcome::Refusal;

/// An event of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of the connection has changed.
    State(State),
    /// A message from another client.
    Signal(Signal),
    /// A message to a room, from another member.
    Broadcast(Broadcast),
    /// The state of a room, after a join, as a page of `members`, or because changes were missed.
    Joined(Joined),
    /// The room is full, and the client is in its waiting queue.
    Waiting {
        /// The room.
        room: String,
        /// Number of clients ahead in the queue.
        ahead: u64,
        /// Number of clients in the queue, this one included.
        queue_length: u64,
    },
    /// Members joined or left a room.
    MembersChanged {
        /// The room.
        room: String,
        /// Version of the room after these changes.
        version: u64,
        /// New members.
        joined: Vec<Member>,
        /// Departed members.
        left: Vec<DepartedMember>,
    },
    /// The client left a room or was removed. Also sent if a rejoin after a lost session failed.
    Left {
        /// The room.
        room: String,
        /// `left`, `kicked`, `expired`, or the error code of the join that failed.
        reason: String,
    },
    /// Fresh ICE servers.
    IceServers(Vec<IceServer>),
    /// Another node serves the client now. No action is needed.
    Moved {
        /// Id of that node.
        node: String,
    },
    /// The server rejected a message without an `id`, for example a renewed token.
    Problem(Refusal),
}

/// The state of the connection.
#[derive(Debug, Clone)]
pub enum State {
    /// The client is connecting to a server.
    Connecting {
        /// Index of the URL in the list of [`Options::new`](crate::Options::new).
        url: usize,
    },
    /// The client is connected and sends requests.
    Connected(Welcome),
    /// The connection was lost; the client will try again.
    Waiting {
        /// Time until the next attempt.
        retry_in: Duration,
        /// Reason of the loss.
        why: Ending,
    },
    /// The client is closed. No event follows.
    Closed {
        /// Reason; `None` if the application closed or detached it.
        why: Option<Ending>,
    },
}

/// First message of a server.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// The client's own id.
    pub client_id: String,
    /// `true` if an earlier session was resumed. Otherwise messages that arrived for it in the
    /// meantime are lost.
    pub resumed: bool,
    /// Maximum size of a message from the client, in bytes.
    pub max_message_bytes: usize,
    /// ICE servers for `RTCPeerConnection`; empty if the mesh has none.
    pub ice_servers: Vec<IceServer>,
    /// Node that serves the client; `None` unless the operator reveals nodes.
    pub node: Option<String>,
}

/// A message from another client.
#[derive(Debug, Clone)]
pub struct Signal {
    /// Id of the sender.
    pub from: String,
    /// Data as sent.
    pub data: Box<RawValue>,
    /// Number that the sender gave the message; `None` from a sender without numbers.
    pub id: Option<u64>,
}

/// A message from another client to a room.
#[derive(Debug, Clone)]
pub struct Broadcast {
    /// The room.
    pub room: String,
    /// Id of the sender.
    pub from: String,
    /// Data as sent.
    pub data: Box<RawValue>,
    /// Number that the sender gave the message; `None` from a sender without numbers.
    pub id: Option<u64>,
}

impl Signal {
    /// Parses the data.
    ///
    /// # Errors
    /// If the data has another form.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

impl Broadcast {
    /// Parses the data.
    ///
    /// # Errors
    /// If the data has another form.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

/// The state of a room.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The room.
    pub room: String,
    /// Version of the room. Each published change makes it larger.
    pub version: u64,
    /// Maximum number of members; `None`: no limit.
    pub capacity: Option<u64>,
    /// Number of members in the whole room.
    pub count: u64,
    /// Members, oldest first, at most 500.
    pub members: Vec<Member>,
    /// `true` if members follow the last one: request them by `Client::members`.
    pub more: bool,
}

/// A member of a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Member {
    /// Id of the client.
    pub client_id: String,
    /// Data that the member shows to the others; `None` if it has none.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
}

/// A client that left a room.
#[derive(Debug, Clone, Deserialize)]
pub struct DepartedMember {
    /// Id of the client.
    pub client_id: String,
    /// `left`, `kicked` or `expired`.
    pub reason: String,
}
