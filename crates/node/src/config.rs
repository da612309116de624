//! Flags of a node into a checked [`Config`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use signaling_edge::core::Rate;
use signaling_edge::shell::{EdgeArgs, EdgeConfig};
use signaling_protocol::grant::SignalScope;
use signaling_rooms::KeyPrefix;
use signaling_server::load_readiness::{self, LoadReadinessArgs};
use signaling_server::{Common, CommonArgs, ConfigError, WatchedFile};

use crate::ice::{IceArgs, IceConfig};
use crate::room_store::{RoomConfig, RoomStoreAt, RoomStoreText};

/// A signaling node: holds sessions, delivers messages, forwards those for clients of other nodes.
#[derive(Debug, Parser)]
#[command(name = "signaling-node", version)]
pub struct Args {
    /// What both servers take.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where to listen for clients that come without our balancer; without it there are none
    #[arg(long, env = "SIGNALING_PUBLIC", value_name = "ADDR")]
    pub public: Option<SocketAddr>,

    /// How long a message waits for an absent recipient, in milliseconds, at most 655,350
    #[arg(long, env = "SIGNALING_HOLD_MS", value_name = "MS", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(..=655_350))]
    pub hold_ms: u64,

    /// Most bytes that wait for absent recipients in all
    #[arg(long, env = "SIGNALING_HOLD_BYTES", value_name = "BYTES", default_value_t = 64 * 1024 * 1024)]
    pub hold_bytes: usize,

    /// How long input gathers at most while the node is busy, in microseconds, up to 10,000; 0 for never. Messages are up to so much
    /// slower at each node on their way, and cost nodes a third less
    #[arg(long, env = "SIGNALING_GATHER_US", value_name = "US", default_value_t = 2_000,
          value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub gather_us: u64,

    /// How long a client may be away and go on with its session, in milliseconds, at most 5 minutes
    #[arg(long, env = "SIGNALING_RESUME_MS", value_name = "MS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u64).range(..=300_000))]
    pub resume_ms: u64,

    /// Where rooms are kept: memory (one node alone),
    /// `redis://[user:password@]host:port[/database]`, `redis-cluster://host:port,host:port`, or
    /// `redis-sentinel://[user:password@]host:port,host:port/master[/database]`. User, password and
    /// database belong to the master; `?sentinelUsername=USER&sentinelPassword=PASSWORD` at the end
    /// is for the sentinels
    #[arg(long, env = "SIGNALING_ROOM_STORE", hide_env_values = true, value_name = "STORE", default_value = "memory")]
    pub room_store: RoomStoreText,

    /// File with the password of the Redis of --room-store: of the server, of the master behind the
    /// sentinels, or of all servers of the cluster
    #[arg(long, env = "SIGNALING_ROOM_STORE_PASSWORD_FILE", value_name = "PATH")]
    pub room_store_password_file: Option<PathBuf>,

    /// First part of every key in the Redis of --room-store: 1 to 64 characters of a-z, A-Z, 0-9,
    /// `-`, `_` and `.`. All nodes of a mesh need one prefix; meshes that share a Redis need
    /// different ones
    #[arg(long, env = "SIGNALING_ROOM_STORE_PREFIX", value_name = "PREFIX", default_value = "sig")]
    pub room_store_prefix: KeyPrefix,

    /// Most members of a room that has no capacity of its own, 0 for no limit; the same on all nodes
    #[arg(long, env = "SIGNALING_ROOM_CAPACITY", value_name = "N", default_value_t = 1_000)]
    pub room_capacity: u32,

    /// How many members one client's broadcasts may reach, a second, 0 for no limit: each counts for as many as it is sent to
    #[arg(long, env = "SIGNALING_BROADCAST_RATE", value_name = "MEMBERS", default_value_t = 5_000)]
    pub broadcast_rate: u32,

    /// How many at once, after a quiet time; one broadcast to more passes then
    #[arg(long, env = "SIGNALING_BROADCAST_BURST", value_name = "MEMBERS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub broadcast_burst: u32,

    /// Time that a room keeps the seat of a disconnected client, in milliseconds, from --resume-ms to
    /// 300,000 [default: 20000, or --resume-ms if that is longer]
    #[arg(long, env = "SIGNALING_GRACE_MS", value_name = "MS", value_parser = clap::value_parser!(u64).range(..=300_000))]
    pub grace_ms: Option<u64>,

    /// How often a node tells the room store who is still here, in milliseconds; the same on all nodes. A seat of which nothing
    /// is heard for two and a quarter of these is given up
    #[arg(long, env = "SIGNALING_PRESENCE_MS", value_name = "MS", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(500..=120_000))]
    pub presence_ms: u64,

    /// Over how long direct clients that a new view gives to other nodes are told to go there (goodbye and 4006), in
    /// milliseconds, at most an hour; 0 for never, which is right behind a proxy that picks nodes by another hash
    #[arg(long, env = "SIGNALING_REASSIGN_WINDOW_MS", value_name = "MS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub reassign_window_ms: u64,

    /// Most bytes that wait for one absent recipient
    #[arg(long, env = "SIGNALING_HOLD_BYTES_PER_CLIENT", value_name = "BYTES", default_value_t = 1024 * 1024)]
    pub hold_bytes_per_client: usize,

    /// Most sessions that wait for their clients to come back; one more cannot be resumed
    #[arg(long, env = "SIGNALING_MAX_LINGERING", value_name = "N", default_value_t = 100_000)]
    pub max_lingering: usize,

    /// Most rooms that a client may be in, or in line for
    #[arg(long, env = "SIGNALING_MAX_ROOMS_PER_CLIENT", value_name = "N", default_value_t = 256,
          value_parser = RangedU64ValueParser::<usize>::new().range(..=4_096))]
    pub max_rooms_per_client: usize,

    /// Most clients in line for a room, 0 for no limit; the same on all nodes
    #[arg(long, env = "SIGNALING_ROOM_LINE", value_name = "N", default_value_t = 10_000)]
    pub room_line: u32,

    /// Whom a client may signal whose token does not say
    #[arg(long, env = "SIGNALING_SIGNAL_SCOPE", value_name = "SCOPE", value_enum, default_value_t = Scope::Any)]
    pub signal_scope: Scope,

    /// What ICE servers clients are told of.
    #[command(flatten)]
    pub ice: IceArgs,

    /// When to leave new direct clients to other nodes: /readyz/clients says so.
    #[command(flatten)]
    pub load_readiness: LoadReadinessArgs,

    /// What direct clients may do.
    #[command(flatten)]
    pub edge: EdgeArgs,
}

/// Whom clients may signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// Anybody.
    Any,
    /// Only those who are in a room with them.
    Room,
}

/// What a node is told, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// What both servers are told.
    pub common: Common,
    /// Where to listen for direct clients.
    pub public: Option<SocketAddr>,
    /// How long a message waits for an absent recipient.
    pub hold: Duration,
    /// Most bytes that wait so.
    pub hold_bytes: usize,
    /// How long a session waits for its client to come back.
    pub resume: Duration,
    /// How long input gathers while the node is busy.
    pub gather: Duration,
    /// How rooms are kept.
    pub rooms: RoomConfig,
    /// Over how long direct clients are sent to the nodes that own them by a new view; none: they stay.
    pub reassign_window: Option<Duration>,
    /// Most bytes that wait for one absent recipient.
    pub hold_bytes_per_client: usize,
    /// Most sessions that wait for their clients to come back.
    pub max_lingering: usize,
    /// Most rooms that a client may be in, or in line for.
    pub max_rooms_per_client: usize,
    /// Whom a client may signal whose token does not say.
    pub signal_scope: SignalScope,
    /// What ICE servers clients are told of.
    pub ice: IceConfig,
    /// When to leave new direct clients to other nodes.
    pub load_readiness: Option<load_readiness::Settings>,
    /// What direct clients may do.
    pub edge: EdgeConfig,
}

/// Time that a room keeps a seat, in milliseconds, unless sessions can be resumed for longer.
const DEFAULT_GRACE_MS: u64 = 20_000;

/// A session without a socket: its places in tables, and two names.
const LINGERING_BYTES: usize = 512;

impl Config {
    /// Most memory that clients who are not there can take: what waits for them, and their sessions.
    #[must_use]
    pub fn absent_bytes(&self) -> usize {
        self.hold_bytes.saturating_add(self.max_lingering.saturating_mul(LINGERING_BYTES))
    }
}

impl Args {
    /// Checks what clap could not, and reads the files that flags name.
    ///
    /// # Errors
    /// Names the flag that does not serve.
    pub fn check(self) -> Result<Config, ConfigError> {
        let common = self.common.check()?;
        let load_readiness = self.load_readiness.settings();
        if load_readiness.is_some() && self.public.is_none() {
            let why = "needs --public: without it the node has no clients to count".to_owned();
            return Err(ConfigError::Invalid { flag: "--unready-above-percent", why });
        }
        Ok(Config {
            load_readiness,
            edge: self.edge.check(&common, "--public", self.public)?,
            common,
            public: self.public,
            hold: Duration::from_millis(self.hold_ms),
            hold_bytes: self.hold_bytes,
            resume: Duration::from_millis(self.resume_ms),
            gather: Duration::from_micros(self.gather_us),
            rooms: RoomConfig {
                store: room_store(&self.room_store, self.room_store_password_file.as_deref())?,
                prefix: self.room_store_prefix,
                capacity: Some(self.room_capacity).filter(|&capacity| capacity > 0),
                reach: (self.broadcast_rate > 0)
                    .then_some(Rate { per_second: self.broadcast_rate, burst: self.broadcast_burst }),
                line: Some(self.room_line).filter(|&line| line > 0),
                grace: seat_grace(self.grace_ms, self.resume_ms)?,
                presence: Duration::from_millis(self.presence_ms),
            },
            reassign_window: Some(self.reassign_window_ms).filter(|&ms| ms > 0).map(Duration::from_millis),
            hold_bytes_per_client: self.hold_bytes_per_client,
            max_lingering: self.max_lingering,
            max_rooms_per_client: self.max_rooms_per_client,
            signal_scope: match self.signal_scope {
                Scope::Any => SignalScope::Any,
                Scope::Room => SignalScope::Room,
            },
            ice: self.ice.check()?,
        })
    }
}

/// Returns the time that a room keeps a seat. A resumed session keeps its seats, so this is at least
/// `resume_ms`.
fn seat_grace(grace_ms: Option<u64>, resume_ms: u64) -> Result<Duration, ConfigError> {
    let grace_ms = grace_ms.unwrap_or_else(|| resume_ms.max(DEFAULT_GRACE_MS));
    if grace_ms < resume_ms {
        let why = format!(
            "{grace_ms} ms is less than --resume-ms ({resume_ms} ms), and a resumed session keeps its seats; raise it, or lower \
             --resume-ms"
        );
        return Err(ConfigError::Invalid { flag: "--grace-ms", why });
    }
    Ok(Duration::from_millis(grace_ms))
}

fn room_store(text: &RoomStoreText, password_file: Option<&Path>) -> Result<RoomStoreAt, ConfigError> {
    const FLAG: &str = "--room-store-password-file";
    let store = text.parse().map_err(|why| ConfigError::Invalid { flag: "--room-store", why })?;
    match password_file {
        None => Ok(store),
        Some(path) => WatchedFile::open(FLAG, path)?.parsed(|content| store.clone().with_password(content)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seat_grace_is_at_least_the_resume_time() {
        let seconds = |grace_ms, resume_ms| seat_grace(grace_ms, resume_ms).ok().map(|grace| grace.as_secs());
        assert_eq!(seconds(None, 5_000), Some(20));
        assert_eq!(seconds(None, 30_000), Some(30));
        assert_eq!(seconds(Some(30_000), 30_000), Some(30));
        assert_eq!(seconds(Some(1_000), 0), Some(1));
    }

    #[test]
    fn seat_grace_below_the_resume_time_is_refused() {
        let why = seat_grace(Some(29_999), 30_000).map_err(|error| error.to_string());
        assert!(why.as_ref().is_err_and(|why| why.contains("--grace-ms") && why.contains("--resume-ms")), "{why:?}");
    }
}
