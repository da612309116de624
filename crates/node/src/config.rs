//! Settings of a node, and their checked form [`Config`], for the binary and `run`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Parser, ValueEnum};
use signaling_core::edge::Rate;
use signaling_edge::{EdgeArgs, EdgeConfig};
use signaling_journal::{JournalUrl, KeyPrefix};
use signaling_server::coalescer::{BusyThresholds, Coalescer};
use signaling_server::load_readiness::LoadReadinessArgs;
use signaling_server::{Common, CommonArgs, ConfigError, ReloadableFile};
use signaling_wire::grant::SignalScope;

use crate::ice_args::{IceArgs, IceConfig};
use crate::journal::JournalConfig;
use crate::kick_file::KickFile;
use signaling_core::node::Rules;
use signaling_rooms::RoomSettings;

/// Signaling node: owns sessions, delivers messages and forwards messages to other nodes.
#[derive(Debug, Parser)]
#[command(name = "signaling-node", version)]
pub struct Args {
    /// Settings of both servers.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Address for direct clients; without it there are none
    #[arg(long, env = "SIGNALING_PUBLIC_LISTEN", value_name = "ADDR", help_heading = "Listeners")]
    pub public_listen: Option<SocketAddr>,

    /// Time in ms over which direct clients that other nodes own in a new view are closed (0 to
    /// 3,600,000). 0 disables it, as behind a proxy with another hash
    #[arg(long, env = "SIGNALING_REASSIGN_WINDOW_MS", value_name = "MS", default_value_t = 0, help_heading = "Discovery",
          value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    pub reassign_window_ms: u64,

    /// Clients that a client may signal if its token has no `signal` claim
    #[arg(long, env = "SIGNALING_SIGNAL_SCOPE", value_name = "SCOPE", value_enum, default_value_t = Scope::Any,
          help_heading = "Tokens and secrets")]
    pub signal_scope: Scope,

    /// Maximum TTL of messages in ms, and so the time that one is held for an absent recipient
    /// (2,000 to 655,350). A message with `ttl_ms` 0 is not held
    #[arg(long, env = "SIGNALING_HOLD_MS", value_name = "MS", default_value_t = 20_000, help_heading = SESSIONS,
          value_parser = clap::value_parser!(u64).range(2_000..=655_350))]
    pub hold_ms: u64,

    /// Maximum bytes held for absent recipients, of which one recipient gets at most 1 MiB
    #[arg(long, env = "SIGNALING_HOLD_BYTES", value_name = "BYTES", default_value_t = 64 * 1024 * 1024, help_heading = SESSIONS)]
    pub hold_bytes: usize,

    /// Time in ms to resume the session of a disconnected client, in which rooms keep its seats (0
    /// to 300,000); equal on all nodes
    #[arg(long, env = "SIGNALING_RESUME_MS", value_name = "MS", default_value_t = 30_000, help_heading = SESSIONS,
          value_parser = clap::value_parser!(u64).range(..=300_000))]
    pub resume_ms: u64,

    /// Maximum members of a room without its own capacity (0 for no limit); equal on all nodes
    #[arg(long, env = "SIGNALING_ROOM_CAPACITY", value_name = "N", default_value_t = 1_000, help_heading = ROOMS)]
    pub room_capacity: u32,

    /// Bytes for rooms and seats, at least 1 MiB; more joins are refused
    #[arg(long, env = "SIGNALING_ROOM_BYTES", value_name = "BYTES", default_value_t = 128 * 1024 * 1024, help_heading = ROOMS,
          value_parser = clap::value_parser!(u64).range(1_048_576..))]
    pub room_bytes: u64,

    /// Members per second that requests of a token subject, else client, reach (0 for no limit),
    /// and twice as many at once; a member counts once for each started 4 KiB of a broadcast, and
    /// 64 bytes of a member list count as one
    #[arg(long, env = "SIGNALING_BROADCAST_RATE", value_name = "MEMBERS", default_value_t = 5_000, help_heading = ROOMS)]
    pub broadcast_rate: u32,

    /// Redis for a journal of rooms and clients, as redis://HOST:PORT, redis-sentinel:// or
    /// redis-cluster:// (docs/JOURNAL.md); equal on all nodes [default: none]
    #[arg(long, env = "SIGNALING_ROOM_JOURNAL", hide_env_values = true, value_name = "URL", help_heading = ROOMS,
          value_parser = parse_journal)]
    pub room_journal: Option<Result<JournalUrl, String>>,

    /// File with the password of the Redis of --room-journal, read at the start
    #[arg(long, env = "SIGNALING_ROOM_JOURNAL_PASSWORD_FILE", value_name = "PATH", help_heading = ROOMS)]
    pub room_journal_password_file: Option<PathBuf>,

    /// First part of the journal's keys, 1 to 64 of a-z A-Z 0-9 - _ . ; equal on all nodes
    #[arg(long, env = "SIGNALING_ROOM_JOURNAL_PREFIX", value_name = "PREFIX", default_value = "sig", help_heading = ROOMS)]
    pub room_journal_prefix: KeyPrefix,

    /// Hidden: refuses the former place of rooms
    #[arg(long, env = "SIGNALING_ROOM_STORE", value_name = "STORE", hide = true, hide_env_values = true,
          value_parser = OsStringValueParser::new().map(|_| Removed))]
    pub room_store: Option<Removed>,

    /// Time in ms after which a seat expires that no node claims. Hidden: tests shorten it.
    #[arg(long, env = "SIGNALING_SEAT_CLAIM_MS", value_name = "MS", default_value_t = 45_000, hide = true,
          value_parser = clap::value_parser!(u64).range(1_000..=300_000))]
    pub seat_claim_ms: u64,

    /// Time in ms that rooms keep a seat, at least --resume-ms, which it is by default. Hidden:
    /// tests set the two apart.
    #[arg(long, env = "SIGNALING_SEAT_GRACE_MS", value_name = "MS", hide = true,
          value_parser = clap::value_parser!(u64).range(..=300_000))]
    pub seat_grace_ms: Option<u64>,

    /// Folder of this node alone that keeps kicks over a restart of all
    #[arg(long, env = "SIGNALING_STATE_DIR", value_name = "PATH", help_heading = "Operations")]
    pub state_dir: Option<PathBuf>,

    /// Maximum read delay of a busy node in microseconds (0 to 10,000; 0 disables it), not during
    /// joins. Adds this latency per node and saves about a third of its CPU time
    #[arg(long, env = "SIGNALING_COALESCE_US", value_name = "US", default_value_t = 2_000, help_heading = "Operations",
          value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub coalesce_us: u64,

    /// Readiness by load.
    #[command(flatten)]
    pub load_readiness: LoadReadinessArgs,

    /// ICE servers for clients.
    #[command(flatten)]
    pub ice: IceArgs,

    /// Direct clients.
    #[command(flatten)]
    pub edge: EdgeArgs,
}

const SESSIONS: &str = "Sessions and messages";
const ROOMS: &str = "Rooms";

/// Clients that a client may signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// Every client
    Any,
    /// Clients that share a room with it
    Room,
}

/// A given value of a removed flag. The value itself may contain a password, so it is not kept.
#[derive(Debug, Clone, Copy)]
pub struct Removed;

/// Busy time, in percent, at which a node coalesces input.
const BUSY: BusyThresholds = BusyThresholds { enter: 12, exit: 5, full_delay_percent: 11 };

/// Checked settings of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// Settings of both servers.
    pub common: Common,
    /// Address for direct clients; `None`: there are none.
    pub public: Option<SocketAddr>,
    /// Maximum TTL of messages, and so the time that one is held for an absent recipient; 0: none.
    pub hold: Duration,
    /// Maximum bytes held for absent recipients.
    pub hold_bytes: usize,
    /// Time for which a disconnected client can resume its session; 0: it cannot.
    pub resume: Duration,
    /// Settings of rooms.
    pub rooms: RoomSettings,
    /// Journal of rooms and clients; `None`: there is none.
    pub journal: Option<JournalConfig>,
    /// Time over which direct clients that other nodes own in a new view are closed, so that they
    /// reconnect there; `None`: they stay.
    pub reassign_window: Option<Duration>,
    /// ICE servers for clients.
    pub ice: IceConfig,
    /// Kicks that outlast a restart of all servers; `None`: they do not.
    pub kicks: Option<KickFile>,
    /// Thresholds of unreadiness by direct clients; `None`: readiness ignores the load.
    pub load_readiness: Option<LoadReadinessArgs>,
    /// Settings of the edge for direct clients.
    pub edge: EdgeConfig,
}

/// Maximum clients in a room's waiting queue; a further join is refused as `overloaded`. Equal on
/// all nodes. It bounds the memory of rooms.
const MAX_WAITING_CLIENTS: u32 = 10_000;
/// New rooms/s of a client. No page needs more; a bot has a rate class.
const NEW_ROOMS: u32 = 5;
/// Seconds of its fan-out that a client may use at once: 10,000 members at the default rate.
const BROADCAST_BURST_S: u32 = 2;

/// Minimum time that a room remembers a client which left, and is kept without members.
const MIN_REMEMBERED: Duration = Duration::from_secs(60);
/// Time that it remembers a client after the end of the client's resume time: for late claims.
const REMEMBERED_AFTER_RESUME: Duration = Duration::from_secs(30);

/// Bytes of a lingering session: its entries in tables, and two names.
const LINGERING_BYTES: usize = 512;

impl Config {
    /// Returns the maximum bytes of absent clients: held messages and 512 per lingering session.
    pub fn absent_bytes(&self) -> usize {
        self.hold_bytes.saturating_add(Rules::default().max_lingering.saturating_mul(LINGERING_BYTES))
    }
}

impl Args {
    /// Checks the settings that clap cannot check, and reads the files of flags.
    ///
    /// # Errors
    /// Names the flag whose value cannot be used.
    pub fn check(self) -> Result<Config, ConfigError> {
        if self.room_store.is_some() {
            let why = "is gone: the nodes keep rooms without a store; remove the flag, variable or key, and for \
                       readers of a Redis set --room-journal"
                .to_owned();
            return Err(ConfigError { flag: "--room-store", why });
        }
        let common = self.common.check()?;
        let load_readiness = self.load_readiness.thresholds();
        if load_readiness.is_some() && self.public_listen.is_none() {
            let why = "needs --public-listen: without it the node has no clients to count".to_owned();
            return Err(ConfigError { flag: "--unready-above-percent", why });
        }
        let journal = journal(self.room_journal, self.room_journal_password_file.as_deref(), self.room_journal_prefix)?;
        let coalescer = Coalescer::new(Duration::from_micros(self.coalesce_us), BUSY);
        Ok(Config {
            load_readiness,
            edge: EdgeConfig { coalescer, ..self.edge.check(&common, "--public-listen", self.public_listen)? },
            common,
            public: self.public_listen,
            hold: Duration::from_millis(self.hold_ms),
            hold_bytes: self.hold_bytes,
            resume: Duration::from_millis(self.resume_ms),
            rooms: RoomSettings {
                rules: signaling_rooms::Rules {
                    capacity: Some(self.room_capacity).filter(|&capacity| capacity > 0),
                    max_waiting: Some(MAX_WAITING_CLIENTS),
                    stale: Duration::from_millis(self.seat_claim_ms),
                    remembered: MIN_REMEMBERED.max(Duration::from_millis(self.resume_ms) + REMEMBERED_AFTER_RESUME),
                    ..signaling_rooms::Rules::default()
                },
                seat_grace: seat_grace(self.seat_grace_ms, self.resume_ms)?,
                max_bytes: usize::try_from(self.room_bytes).unwrap_or(usize::MAX),
                broadcast_rate: (self.broadcast_rate > 0).then(|| Rate {
                    per_second: self.broadcast_rate,
                    burst: self.broadcast_rate.saturating_mul(BROADCAST_BURST_S),
                }),
                new_rooms: Some(NEW_ROOMS),
                has_journal: journal.is_some(),
                signal_scope: match self.signal_scope {
                    Scope::Any => SignalScope::Any,
                    Scope::Room => SignalScope::Room,
                },
                ..RoomSettings::default()
            },
            journal,
            reassign_window: Some(self.reassign_window_ms).filter(|&ms| ms > 0).map(Duration::from_millis),
            ice: self.ice.check()?,
            kicks: self.state_dir.as_deref().map(KickFile::open).transpose()?,
        })
    }
}

/// Returns the time that a room keeps a seat, by default the resume time.
///
/// # Errors
/// If it is shorter than the resume time: a resumed session keeps its seats.
fn seat_grace(grace_ms: Option<u64>, resume_ms: u64) -> Result<Duration, ConfigError> {
    let grace_ms = grace_ms.unwrap_or(resume_ms);
    if grace_ms < resume_ms {
        let why = format!(
            "{grace_ms} ms is less than --resume-ms ({resume_ms} ms), and a resumed session keeps its seats; raise it, or \
             lower --resume-ms"
        );
        return Err(ConfigError { flag: "--seat-grace-ms", why });
    }
    Ok(Duration::from_millis(grace_ms))
}

/// Parses `--room-journal` for clap, with errors as values: clap would quote the invalid text.
fn parse_journal(text: &str) -> Result<Result<JournalUrl, String>, Infallible> {
    Ok(text.parse())
}

/// Returns the journal, with the password of the file.
///
/// # Errors
/// If the address or the file cannot be used, or there is a file without an address.
fn journal(
    url: Option<Result<JournalUrl, String>>,
    password_file: Option<&Path>,
    prefix: KeyPrefix,
) -> Result<Option<JournalConfig>, ConfigError> {
    const FLAG: &str = "--room-journal-password-file";
    let url = url.transpose().map_err(|why| ConfigError { flag: "--room-journal", why })?;
    let url = match (url, password_file) {
        (Some(url), Some(path)) => ReloadableFile::open(FLAG, path)?.parsed(|content| url.with_password(content))?,
        (Some(url), None) => url,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let why = "needs --room-journal: set it, or remove this flag".to_owned();
            return Err(ConfigError { flag: FLAG, why });
        }
    };
    Ok(Some(JournalConfig { url, prefix }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_journal_is_refused_without_its_value() {
        let required = ["node", "--id=a", "--discovery=static:a=127.0.0.1:1", "--mesh-secret-file=/nowhere"];
        let args = |flag| Args::try_parse_from(required.into_iter().chain([flag])).unwrap();
        let args = args("--room-journal=redis://:hunter2@host:1/two");
        let why = journal(args.room_journal, None, KeyPrefix::default()).unwrap_err().to_string();
        assert!(why.contains("--room-journal") && !why.contains("hunter2"), "{why}");
        let why = journal(None, Some(Path::new("/nowhere")), KeyPrefix::default()).unwrap_err().to_string();
        assert!(why.contains("needs --room-journal"), "{why}");
    }

    #[test]
    fn former_place_of_rooms_is_refused_without_its_value() {
        let required = ["node", "--id=a", "--discovery=static:a=127.0.0.1:1", "--mesh-secret-file=/nowhere"];
        let flags = required.into_iter().chain(["--room-store=redis://:hunter2@host:1"]);
        let why = Args::try_parse_from(flags).unwrap().check().unwrap_err().to_string();
        assert!(
            why.contains("--room-store")
                && why.contains("--room-journal")
                && !why.contains("host")
                && !why.contains("hunter2"),
            "{why}"
        );
    }

    #[test]
    fn seat_grace_is_at_least_the_resume_time() {
        for (grace_ms, seconds) in [(None, 30), (Some(30_000), 30), (Some(40_000), 40)] {
            assert_eq!(seat_grace(grace_ms, 30_000).unwrap(), Duration::from_secs(seconds));
        }
        let why = seat_grace(Some(29_999), 30_000).unwrap_err().to_string();
        assert!(why.contains("--seat-grace-ms") && why.contains("--resume-ms"), "{why}");
    }
}
