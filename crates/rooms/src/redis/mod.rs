//! Rooms and registry in Redis 6.2, Valkey 7.2, or newer: one server, a master behind sentinels, or
//! a cluster. Keys begin with a [`KeyPrefix`](crate::KeyPrefix), by default `sig`:
//!
//! | key | kind | what |
//! |---|---|---|
//! | `sig:{ROOM}:members` | sorted set | members by their last sign of life |
//! | `sig:{ROOM}:order` | sorted set | members by the time of joining |
//! | `sig:{ROOM}:waiting` | sorted set | the line |
//! | `sig:{ROOM}:checkin` | sorted set | those who wait or are gone, by their last sign of life |
//! | `sig:{ROOM}:info` | hash | of each: session, its time, last number, node, time of joining, data |
//! | `sig:{ROOM}:meta` | hash | version, incarnation, run of the server that wrote last, capacity, last place given out, when it was last asked of, how many each node serves |
//! | `sig:client:ID` | hash | the registry: node, session, since |
//! | `sig:node:NODE:clients` | set | whom a node serves, for the cleaner |
//! | `sig:nodes` | sorted set | nodes by their last heartbeat |

mod address;
mod connection;
mod health;
mod link;
mod registry;
mod reply;
mod scripts;
mod store;

pub use self::registry::RedisRegistry;
pub use self::store::RedisStore;
