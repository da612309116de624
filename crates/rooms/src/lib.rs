//! Rooms with an exact capacity and a waiting queue.
//!
//! Each [`Op`] is applied by the nodes that own the room or by a store. The changes in its
//! [`OpResult`] are announced to the members. `signaling-core` creates the operations and uses the
//! results, and a node sends them to the store. The crate has no client sockets and no messages.
//!
//! | content | item |
//! |---|---|
//! | operations on a room and their results | [`Op`], [`OpResult`] |
//! | the rules, without I/O or clock | [`Rules`], [`Room`] |
//! | options of a room, by its name | [`RoomOptions`] |
//! | rooms of a store in memory, for tests and simulations | [`Rooms`] |
//! | the store of a mesh: the same rules as scripts in Redis or Valkey | [`RedisStore`] |
//! | changes of a room, in order and without gaps | [`ChangeSequencer`] |
//!
//! A client in a room is a member, waiting, or gone. A gone client is remembered for a while, so
//! that a retransmitted command is recognized. A seat without a refresh expires after
//! [`Rules::stale`], except with [`Rules::claimed`]; [`Op::Drop`] sets its own time. The first
//! waiting client gets a free seat in the same step, unless seats may be lost or the room sealed.
//!
//! The Redis client is the `redis` crate: maintained, with pipelines, Sentinel and Cluster in one
//! package, and without a second version of any dependency.
//!
//! ```
//! use signaling_protocol::{ClientId, NodeId, RoomName};
//! use signaling_rooms::{Op, Request, Requester, Rooms, Rules, SeatStatus};
//! use signaling_wire::SessionId;
//!
//! let mut rooms = Rooms::new(Rules { capacity: Some(1), ..Rules::default() });
//! let room = RoomName::new("standup").unwrap();
//! let mut join = |name: &str, session| {
//!     let (client, node) = (ClientId::new(name).unwrap(), NodeId::new("node-0").unwrap());
//!     let session = SessionId([session; 16]);
//!     let requester = Requester { client, session, accepted_at_us: 1, turn: 1, number: 1, node };
//!     let op = Op::Join { requester, data: None, capacity: None };
//!     rooms.apply(1_700_000_000_000, &Request { room: room.clone(), op })
//! };
//! assert!(matches!(join("alice", 1).statuses[..], [SeatStatus::Member { .. }]));
//! assert!(matches!(join("bob", 2).statuses[..], [SeatStatus::Waiting { ahead: 0, .. }]));
//! ```

mod change_sequencer;
#[cfg(feature = "redis")]
mod clock;
mod core;
mod op;
mod options;
mod prefix;
#[cfg(feature = "redis")]
mod redis;
mod rules;
mod store;

pub use self::change_sequencer::{Announcement, ChangeSequencer};
#[cfg(feature = "redis")]
pub use self::clock::Clock;
pub use self::core::{Room, Rooms};
pub use self::op::{Change, Member, Op, OpResult, Request, Requester, Seat, SeatStatus, Stamp};
pub use self::options::{RoomEvents, RoomOptions};
pub use self::prefix::{InvalidKeyPrefix, KeyPrefix};
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub use self::rules::Rules;
pub use self::store::StoreError;
pub use signaling_protocol::rooms::LeftReason;
