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
    /// The state of a room after a join, resume, wait or missed changes, or a page of `members`.
    Joined(Joined),
    /// The client is in a full room's waiting queue. Sent again as its place changes, at most 1/s.
    Waiting {
        /// Name of the room.
        room: String,
        /// Number of clients ahead in the queue.
        ahead: u64,
        /// Number of clients in the queue, this one included.
        queue_length: u64,
    },
    /// Members other than the client itself joined or left a room. One event combines the changes
    /// of at least 0.2 s, with only the last one of each member.
    MembersChanged {
        /// Name of the room.
        room: String,
        /// Version of the room after these changes. See [`Joined::version`].
        version: u64,
        /// New members, and members with new data.
        joined: Vec<Member>,
        /// Departed members.
        left: Vec<DepartedMember>,
    },
    /// The client has no seat in a room and does not rejoin it: as answer to `leave`, because it
    /// was removed, or because its rejoin in a new session was refused for good.
    Left {
        /// Name of the room.
        room: String,
        /// `left` (by the client), `expired`, `forbidden`, `removed`, `closed`, the code of the
        /// error that refused the rejoin, or a reason of a later release. Expired: the client was
        /// silent for too long, or a refused `leave` was carried out late. Forbidden: its token
        /// does not admit the room. Removed or closed: an operator removed it or closed the room.
        reason: String,
    },
    /// The ICE servers, as answer to [`Client::ice_servers`](crate::Client::ice_servers).
    IceServers(Vec<IceServer>),
    /// Another node serves the client. No action is needed. Sent only if operators reveal nodes.
    Moved {
        /// Id of that node.
        node: String,
    },
    /// The server refused a message without an `id`, such as a renewed token or request of members.
    Problem(Refusal),
}

/// The state of the connection.
#[derive(Debug, Clone)]
pub enum State {
    /// An attempt to connect has begun. It may call the token source first.
    Connecting {
        /// Index of the URL, from 0, in the list of [`Options::new`](crate::Options::new).
        url: usize,
    },
    /// The client is connected and sends requests.
    Connected(Welcome),
    /// The connection was lost or an attempt failed. The client will try again. Sent again if
    /// [`Client::network_changed`](crate::Client::network_changed) shortens the wait.
    Waiting {
        /// Time until the next attempt.
        retry_in: Duration,
        /// Reason of the loss or the failure.
        why: Ending,
    },
    /// The client is closed. No event follows.
    Closed {
        /// Reason not to connect again. `None`: the application closed or detached the client.
        why: Option<Ending>,
    },
}

/// First message of a server on a connection.
#[derive(Debug, Clone, Deserialize)]
pub struct Welcome {
    /// The client's own id.
    pub client_id: String,
    /// `true` if the earlier session was resumed. `false`: it is the first one, or the earlier one
    /// has ended, and messages for it in the meantime are lost.
    pub resumed: bool,
    /// Maximum size of a message from the client, in bytes.
    pub max_message_bytes: usize,
    /// ICE servers for `RTCPeerConnection`; empty if the mesh has none.
    #[serde(default)]
    pub ice_servers: Vec<IceServer>,
    /// Id of the node that serves the client. `None`: the operator does not reveal nodes.
    pub node: Option<String>,
}

/// A message from another client.
#[derive(Debug, Clone)]
pub struct Signal {
    /// Id of the sender.
    pub from: String,
    /// JSON text, as the sender wrote it.
    pub data: Box<RawValue>,
    /// The message's `id` from its sender. `None`: the sender gave none.
    pub id: Option<u64>,
}

/// A message from another client to a room.
#[derive(Debug, Clone)]
pub struct Broadcast {
    /// Name of the room.
    pub room: String,
    /// Id of the sender.
    pub from: String,
    /// JSON text, as the sender wrote it.
    pub data: Box<RawValue>,
    /// The message's `id` from its sender. `None`: the sender gave none.
    pub id: Option<u64>,
}

impl Signal {
    /// Parses [`Self::data`] as a `T`.
    ///
    /// # Errors
    /// If the data does not have the form of a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

impl Broadcast {
    /// Parses [`Self::data`] as a `T`.
    ///
    /// # Errors
    /// If the data does not have the form of a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.data.get())
    }
}

/// The state of a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Joined {
    /// Name of the room.
    pub room: String,
    /// Version of the room, larger with each change published, or lower after a loss of the room.
    pub version: u64,
    /// Maximum number of members. `None`: no limit.
    pub capacity: Option<u64>,
    /// Number of members of the whole room, without its waiting queue.
    pub count: u64,
    /// Members, oldest first, at most 500, and fewer if their data is large.
    pub members: Vec<Member>,
    /// `true` if more members follow; [`Client::members`](crate::Client::members) requests them.
    pub more: bool,
    /// Last member of the page before, as given to `Client::members`. `None`: this is the first
    /// page, which replaces all former ones.
    pub after: Option<String>,
}

/// A member of a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Member {
    /// Id of the client.
    pub client_id: String,
    /// Data that the member gave for this room, as JSON text. `None`: it gave none, or `null`.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
}

/// A client that left a room.
#[derive(Debug, Clone, Deserialize)]
pub struct DepartedMember {
    /// Id of the client.
    pub client_id: String,
    /// `left` (by itself), or `expired` (silent too long, or removed late after a refused `leave`).
    pub reason: String,
}
