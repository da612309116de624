//! Journal of rooms and clients in a Redis 6.2, a Valkey 7.2, or newer: one server, a master behind
//! sentinels, or a cluster. The owners of rooms write it, other programs read it, and an owner
//! without any copy of a room reads it back. `docs/JOURNAL.md` has the keys.
//!
//! [`Journal::run`] asks an [`Owner`] every 100 ms for what changed, and writes it in one pipeline.
//! It never delays the owner. While the journal is away, it tries again every 5 s.
//!
//! | content | module |
//! |---|---|
//! | the loop: connection, writes, reads, clock | `writer` |
//! | clients by process, and the entries of dead processes | `registry` |
//! | commands of a write, and what a read returns | `commands`, `entry`, `bans`, `keys` |
//! | the scripts that apply a write and release clients | `scripts` |
//! | the address, and connections | `url`, `address`, `link` |

mod address;
mod bans;
mod commands;
mod entry;
mod keys;
mod link;
mod owner;
mod prefix;
mod registry;
mod scripts;
mod url;
mod writer;

pub use self::owner::{JournalStatus, Owner};
pub use self::prefix::{InvalidKeyPrefix, KeyPrefix};
pub use self::url::JournalUrl;
pub use self::writer::Journal;
