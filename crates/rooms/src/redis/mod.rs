//! Rooms in Redis 6.2, Valkey 7.2, or newer: one server, a master behind sentinels, or a cluster.
//! Keys begin with a [`KeyPrefix`](crate::KeyPrefix), by default `sig`:
//!
//! | key | kind | content |
//! |---|---|---|
//! | `sig:{ROOM}:members` | sorted set | members by their last refresh |
//! | `sig:{ROOM}:order` | sorted set | members by the time of joining |
//! | `sig:{ROOM}:waiting` | sorted set | the waiting queue |
//! | `sig:{ROOM}:checkin` | sorted set | waiting and gone clients, by their last refresh |
//! | `sig:{ROOM}:info` | hash | per client: session, its time, last number, node, time of joining, data |
//! | `sig:{ROOM}:meta` | hash | version, incarnation, run of the last writing server, capacity, last place given out, time of the last operation, end of settling, whether it is sealed, clients per node |
//! | `sig:heartbeat` | string | empty; nodes write it to check the store |

mod address;
mod connection;
mod health;
mod link;
mod reply;
mod scripts;
mod store;

pub use self::store::RedisStore;
