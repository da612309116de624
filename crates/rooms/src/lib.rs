//! Rooms with an exact capacity and a waiting queue.
//!
//! Each [`Operation`] is applied by the node that owns the room, and by the backup. The changes in
//! its [`OpResult`] are announced to the members. The crate has no I/O, no clock and no client
//! sockets.
//!
//! | content | item |
//! |---|---|
//! | operations on a room and their results | [`Operation`], [`OpResult`] |
//! | one room, and its rules | [`Room`], [`Rules`] |
//! | options of a room, by its name | [`RoomOptions`] |
//! | all rooms of a node: seats of its clients, rooms that it owns or backs up | [`Rooms`], [`Step`] |
//! | what rooms read of their node, and what they decide | [`Context`], [`Output`] |
//! | writes to a journal, and what is read back | [`JournalWrite`], [`JournalRead`] |
//!
//! A client in a room is a member, waiting, or gone. A gone client is remembered for a while, so
//! that a retransmitted command is recognized. A seat lives until its session or its node ends. It
//! then expires after [`Rules::stale`], unless its session claims it again; [`Operation::Drop`]
//! sets its own time. The first waiting client gets a free seat in the same step, unless seats may
//! be lost or the room is sealed.
//!
//! ```
//! use signaling_protocol::{ClientId, NodeId};
//! use signaling_rooms::{Operation, Requester, Room, Rules, SeatStatus};
//! use signaling_wire::{Rank, SessionId, SocketId};
//!
//! let rules = Rules { capacity: Some(1), ..Rules::default() };
//! let mut room = Room::new(1);
//! let mut join = |name: &str, session| {
//!     let (client, node) = (ClientId::new(name).unwrap(), NodeId::new("node-0").unwrap());
//!     let (socket, session) = (SocketId([session; 8]), SessionId([session; 16]));
//!     let (rank, attachment, number) = (Rank(1), 1, 1);
//!     let requester = Requester { client, session, socket, rank, attachment, number, node };
//!     let op = Operation::Join { requester, data: None, capacity: None };
//!     room.apply(&rules, 1_000, &op)
//! };
//! assert!(matches!(join("alice", 1).statuses[..], [SeatStatus::Member { .. }]));
//! assert!(matches!(join("bob", 2).statuses[..], [SeatStatus::Waiting { ahead: 0, .. }]));
//! ```

// The ban on clocks is for decisions; tests choose a start.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod attachment;
mod context;
mod counted;
#[cfg(test)]
mod fixtures;
mod journal;
mod machine;
mod op;
mod options;
mod outputs;
mod replication;
mod room;
mod rules;
mod seats;

pub use self::attachment::SeatAttachment;
pub use self::context::{Contact, Context, Peer, Socket, Step};
pub use self::journal::{
    JournalBans, JournalBeat, JournalClient, JournalCounts, JournalOutcome, JournalRead, JournalRoom, JournalState,
    JournalSummary, JournalWrite, Registrations,
};
pub use self::machine::{NodeProcess, Rooms, SocketKey};
pub use self::op::{
    Change, Member, OpRefusal, OpResult, Operation, Request, Requester, Seat, SeatStatus, Stamp, Unavailable,
};
pub use self::options::{RoomEvents, RoomOptions};
pub use self::outputs::{Output, Outputs};
pub use self::replication::{MeshRoomCounts, MeshRoomFigures, RoomCommit};
pub use self::room::{Room, SeatKind};
pub use self::rules::{RoomRule, Rules};
pub use self::seats::{
    CHECKS_PER_SWEEP, Command, CommandKind, Refusal, RoomAnswer, RoomCounts, RoomFigures, RoomSettings,
};
pub use signaling_protocol::rooms::LeftReason;
