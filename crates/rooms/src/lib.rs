//! Rooms: who is present, an exact capacity, a fair line in front of it, and the registry of which node serves whom.
//!
//! Not here: clients, sockets and events on a wire. A node asks a [`RoomStore`] to carry out an [`Op`] and tells the members what
//! the [`Outcome`] says has changed; whoever made a change tells it.
//!
//! | what | where |
//! |---|---|
//! | what can be asked of a room, and what comes of it | [`Op`], [`Outcome`] |
//! | the rules, without I/O or clock | [`Rooms`] |
//! | the store of one process: the rules and a clock | [`MemoryStore`] |
//! | the store of a mesh: the same rules as scripts in Redis or Valkey | [`RedisStore`] |
//! | what a node tells its clients of a room, in order and without gaps | [`ChangeSequencer`] |
//! | which node serves whom, and the cleaner of what the dead left | [`RedisRegistry`] |
//!
//! A name in a room is in one of three places: among the members, in the line, or gone (remembered for a while, so that a command
//! that comes again is known). Whoever is not heard of for [`Rules::stale`] goes; who drops out keeps the seat for as long as
//! [`Op::Drop`] says. The first in line gets what becomes free in the same step.
//!
//! The Redis client is the `redis` crate: maintained, with pipelines, Redis Sentinel and Redis
//! Cluster in one package, and without a second version of anything that the workspace has.
//!
//! ```
//! use signaling_protocol::{ClientId, NodeId, RoomName};
//! use signaling_rooms::{Op, Request, Rooms, Rules, SeatStatus, Who};
//! use signaling_wire::SessionId;
//!
//! let mut rooms = Rooms::new(Rules { capacity: Some(1), ..Rules::default() });
//! let room = RoomName::new("standup").unwrap();
//! let mut join = |name: &str, session| {
//!     let (client, node) = (ClientId::new(name).unwrap(), NodeId::new("node-0").unwrap());
//!     let who = Who { client, session: SessionId([session; 16]), accepted_at_us: 1, number: 1, node };
//!     rooms.apply(1_700_000_000_000, &Request { room: room.clone(), op: Op::Join { who, data: None } })
//! };
//! assert!(matches!(join("alice", 1).standings[..], [SeatStatus::Member { .. }]));
//! assert!(matches!(join("bob", 2).standings[..], [SeatStatus::Waiting { ahead: 0, .. }]));
//! ```

mod change_sequencer;
mod clock;
mod core;
mod memory;
mod op;
mod prefix;
#[cfg(feature = "redis")]
mod redis;
mod registry;
mod rules;
mod store;

pub use self::change_sequencer::{ChangeSequencer, News};
pub use self::clock::Clock;
pub use self::core::Rooms;
pub use self::memory::MemoryStore;
pub use self::op::{Change, Member, Op, Outcome, Reason, Request, Seat, SeatStatus, Stamp, Who};
pub use self::prefix::{InvalidKeyPrefix, KeyPrefix};
#[cfg(feature = "redis")]
pub use self::redis::{RedisRegistry, RedisStore};
pub use self::registry::{Cleaned, Entry, Registration, Sweep};
pub use self::rules::Rules;
pub use self::store::{RoomStore, Store, StoreError};
