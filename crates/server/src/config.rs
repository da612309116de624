//! Settings of both servers ([`CommonArgs`]), and their checked form [`Common`]. The `config`
//! modules of both servers contain them.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::{Deref, RangeBounds};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{FalseyValueParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use signaling_discovery::Source;
use signaling_protocol::NodeId;
use signaling_wire::Incarnation;
use tracing_subscriber::EnvFilter;

use crate::config_file::ConfigFileArgs;
use crate::http::hosts::{Hosts, parse_host};
use crate::proofs::Proofs;
use crate::secrets::Secrets;
use crate::{AdminToken, HashSeed, ReloadableFile};

/// Settings of both servers, as flags. A server flattens them into its own.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Flags about the settings as a whole.
    #[command(flatten)]
    pub file: ConfigFileArgs,

    /// Name of this server, unique in the mesh and stable over restarts
    #[arg(long, env = "SIGNALING_ID", value_name = "ID", help_heading = "Listeners")]
    pub id: NodeId,

    /// Address for other servers, health, metrics and admin; keep it inside a private network
    #[arg(long, env = "SIGNALING_INTERNAL_LISTEN", value_name = "ADDR", help_heading = "Listeners",
          default_value_t = SocketAddr::from(([127, 0, 0, 1], 7900)))]
    pub internal_listen: SocketAddr,

    /// Further host names of /metrics and /dashboard
    ///
    /// IP addresses, localhost, --id and the machine's host name are allowed. Others get 421.
    #[arg(long, env = "SIGNALING_INTERNAL_HOSTS", value_name = "HOST", value_delimiter = ',', value_parser = parse_host,
          help_heading = "Listeners")]
    pub internal_hosts: Vec<String>,

    /// Source of the mesh's nodes: static:ID=HOST:PORT,... (each may end with @ZONE) or file:PATH
    /// (JSON) or dns:NAME:PORT or dns:_SERVICE._tcp.NAME or kubernetes:NAMESPACE/SERVICE:PORTNAME
    #[arg(long, env = "SIGNALING_DISCOVERY", value_name = "SOURCE", help_heading = "Discovery")]
    pub discovery: Source,

    /// File with the secret of all servers (`mesh-ctl secret`); a second line is accepted too.
    /// Reloaded when it changes
    ///
    /// A secret has at least 32 bytes in hexadecimal or base64.
    #[arg(long, env = "SIGNALING_MESH_SECRET_FILE", value_name = "PATH", help_heading = SECRETS)]
    pub mesh_secret_file: PathBuf,

    /// File with a secret that hides which node owns a client, equal on all servers (`mesh-ctl
    /// secret`); required beyond loopback
    ///
    /// Required if --internal-listen is beyond loopback. A number from 1 to 2^64 - 1, decimal or
    /// hexadecimal after `0x`, is accepted too.
    #[arg(long, env = "SIGNALING_HASH_SEED_FILE", value_name = "PATH", help_heading = SECRETS)]
    pub hash_seed_file: Option<PathBuf>,

    /// File with the bearer token of /admin, at least 16 bytes, read at the start. Without it
    /// /admin refuses every request
    #[arg(long, env = "SIGNALING_ADMIN_TOKEN_FILE", value_name = "PATH", help_heading = SECRETS)]
    pub admin_token_file: Option<PathBuf>,

    /// Maximum size of a client's message, 1 KiB to 1 MiB; equal on all servers
    #[arg(long, env = "SIGNALING_MAX_MESSAGE_BYTES", value_name = "BYTES", default_value = "65536", help_heading = LIMITS,
          value_parser = clap::value_parser!(u32).range(1_024..=1_048_576).map(|bytes| bytes as usize))]
    pub max_message_bytes: usize,

    /// Silence in ms until a Ping, 5,000 to 300,000; equal on all servers
    #[arg(long = "heartbeat-ms", env = "SIGNALING_HEARTBEAT_MS", value_name = "MS", default_value = "25000",
          help_heading = LIMITS, value_parser = millis(5_000..=300_000))]
    pub heartbeat: Duration,

    /// Maximum time in ms of a shutdown (0 to 3,600,000). Balancers close clients over all of it,
    /// nodes over half
    ///
    /// An operator's drain closes clients over the same times.
    #[arg(long = "drain-ms", env = "SIGNALING_DRAIN_MS", value_name = "MS", default_value = "30000",
          help_heading = OPERATIONS, value_parser = millis(..=3_600_000))]
    pub drain: Duration,

    /// Name the node that serves a client in its welcome message
    #[arg(long, env = "SIGNALING_REVEAL_NODES", value_parser = FalseyValueParser::new(), help_heading = OPERATIONS)]
    pub reveal_nodes: bool,

    /// Format of log lines
    #[arg(long, env = "SIGNALING_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text,
          help_heading = OPERATIONS)]
    pub log_format: LogFormat,

    /// Level of logs, or levels by module such as info,signaling_node=debug
    #[arg(long, env = "SIGNALING_LOG", value_name = "FILTER", default_value = "info", value_parser = parse_filter,
          help_heading = OPERATIONS)]
    pub log: String,
}

const SEED_FLAG: &str = "--hash-seed-file";
const SECRETS: &str = "Tokens and secrets";
const LIMITS: &str = "Clients and limits";
const OPERATIONS: &str = "Operations";

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for terminals
    Text,
    /// One JSON object per line
    Json,
}

/// Checked settings of both servers, with the content of secret files. Derefs to [`CommonArgs`].
#[derive(Debug, Clone)]
pub struct Common {
    args: CommonArgs,
    /// Proofs of the mesh secret that this process makes and checks.
    pub proofs: Proofs,
    /// Seed of the rendezvous hash, 0 unless the mesh sets one. Beyond loopback it does.
    pub hash_seed: HashSeed,
    /// Bearer token of `/admin`; `None` if that refuses every request.
    pub admin_token: Option<AdminToken>,
}

impl Deref for Common {
    type Target = CommonArgs;

    fn deref(&self) -> &CommonArgs {
        &self.args
    }
}

/// Reason why a server cannot start with these flags. The message names the flag.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: {why}")]
pub struct ConfigError {
    /// The flag, with `--`.
    pub flag: &'static str,
    /// The defect of its value or file, with the file if the flag names one.
    pub why: String,
}

impl CommonArgs {
    /// Reads the files with the mesh secret, the hash seed and the admin token, and checks them.
    /// With `--check` also checks the file of the discovery source.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid, or the hash seed is missing beyond loopback.
    pub fn check(self) -> Result<Common, ConfigError> {
        let mesh_secrets = Secrets::read(&self.mesh_secret_file)?;
        let hash_seed = read_optional(SEED_FLAG, self.hash_seed_file.as_deref(), HashSeed::parse)?;
        if hash_seed.is_none() && !self.internal_listen.ip().is_loopback() {
            return Err(ConfigError { flag: SEED_FLAG, why: seed_is_missing(self.internal_listen) });
        }
        let admin_token =
            read_optional("--admin-token-file", self.admin_token_file.as_deref(), |content| AdminToken::new(content))?;
        let (mut incarnation, hash_seed) = ([0; 8], hash_seed.unwrap_or_default());
        let no_random = |error| ConfigError { flag: "--id", why: format!("no random number for the start: {error}") };
        getrandom::fill(&mut incarnation).map_err(no_random)?;
        let proofs = Proofs::new(self.id.clone(), Incarnation(incarnation), hash_seed, mesh_secrets);
        let common = Common { proofs, hash_seed, admin_token, args: self };
        common.check_source("--discovery", &common.discovery)?;
        Ok(common)
    }
}

impl Common {
    /// Returns the host names of pages at the internal listener.
    pub fn hosts(&self) -> Hosts {
        Hosts::new(&self.id, &self.internal_hosts)
    }

    /// With `--check` reads the file of a `file:` source that `flag` holds. Without `--check`, and
    /// for other sources, succeeds at once: a server starts without the file, and waits for it.
    ///
    /// # Errors
    /// If there is no usable file.
    pub fn check_source(&self, flag: &'static str, source: &Source) -> Result<(), ConfigError> {
        if !self.file.check {
            return Ok(());
        }
        source.check_file().map_err(|error| ConfigError { flag, why: format!("{source}: {error}") })
    }
}

fn seed_is_missing(listen: SocketAddr) -> String {
    format!(
        "is required because --internal-listen {listen} is beyond loopback; write the output of `mesh-ctl secret` \
         into a file, the same on all servers"
    )
}

fn read_optional<T, E: Display>(
    flag: &'static str,
    path: Option<&Path>,
    parse: impl Fn(&[u8]) -> Result<T, E>,
) -> Result<Option<T>, ConfigError> {
    path.map(|path| ReloadableFile::open(flag, path)?.parsed(parse)).transpose()
}

fn millis(range: impl RangeBounds<u64>) -> impl TypedValueParser<Value = Duration> {
    RangedU64ValueParser::<u64>::new().range(range).map(Duration::from_millis)
}

fn parse_filter(text: &str) -> Result<String, String> {
    EnvFilter::builder().parse(text).map(|_| text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::MeshSecret;

    const SECRET: &str = "a-mesh-secret-of-ours-in-base64-of-32-bytes";

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        common: CommonArgs,
    }

    #[test]
    fn files_are_read_and_secrets_do_not_show() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let secret = write("secret", &format!("{SECRET}\n"));
        let seed = write("seed", "0x10\n");
        let token = write("token", "an-admin-token-of-mine");
        let required = ["server", "--id", "a", "--discovery", "file:x", "--mesh-secret-file", &secret];
        let others = ["--hash-seed-file", &seed, "--admin-token-file", &token, "--reveal-nodes"];
        let cli = Cli::try_parse_from(required.iter().chain(&others)).unwrap();
        let common = cli.common.check().unwrap();
        assert_eq!((common.hash_seed.get(), common.reveal_nodes), (16, true));
        assert_eq!(common.proofs.secrets().primary(), MeshSecret::new(SECRET).unwrap());
        assert!(common.admin_token.as_ref().unwrap().matches(b"an-admin-token-of-mine"));
        let printed = format!("{common:?}");
        assert!(!printed.contains(SECRET) && !printed.contains("token-of"), "{printed}");
    }

    #[test]
    fn hash_seed_is_required_beyond_loopback() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, seed) = (dir.path().join("secret"), dir.path().join("seed"));
        std::fs::write(&secret, SECRET).unwrap();
        std::fs::write(&seed, SECRET).unwrap();
        let check = |listen: &str, with_seed: bool| {
            let mut flags = vec!["server".into(), "--id=a".into(), "--discovery=file:x".into()];
            flags.push(format!("--mesh-secret-file={}", secret.display()));
            flags.push(format!("--internal-listen={listen}"));
            flags.extend(with_seed.then(|| format!("--hash-seed-file={}", seed.display())));
            Cli::try_parse_from(flags).unwrap().common.check().map(|common| common.hash_seed.get() > 0)
        };
        for listen in ["0.0.0.0:7900", "10.0.0.1:7900", "[::]:7900"] {
            let refusal = check(listen, false).unwrap_err().to_string();
            assert!(refusal.starts_with("--hash-seed-file: is required"), "{refusal}");
            assert!(refusal.contains(listen) && refusal.contains("`mesh-ctl secret`"), "{refusal}");
            assert!(check(listen, true).unwrap());
        }
        for listen in ["127.0.0.1:7900", "[::1]:7900"] {
            assert!(!check(listen, false).unwrap(), "{listen}");
        }
    }
}
