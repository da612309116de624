//! Settings of the ICE servers that clients get. `config` contains them, `run` follows their files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use signaling_server::{ConfigError, ReloadableFile};

use signaling_core::ice::{IceServers, Turn, is_turn, parse_list};

/// Flags of the ICE servers that a client gets when it requests them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "ICE and TURN")]
pub struct IceArgs {
    /// File with ICE servers for clients, a JSON list as RTCPeerConnection takes it. Reloaded when
    /// it changes
    #[arg(long, env = "SIGNALING_ICE_SERVERS_FILE", value_name = "PATH")]
    pub ice_servers_file: Option<PathBuf>,

    /// TURN servers with credentials for each client: turn:HOST:PORT,...
    #[arg(long, env = "SIGNALING_TURN_URLS", value_name = "URL", value_delimiter = ',', requires = "turn_secret_file")]
    pub turn_urls: Vec<String>,

    /// File with the secret of the TURN servers (coturn: static-auth-secret). Reloaded when it
    /// changes
    #[arg(long, env = "SIGNALING_TURN_SECRET_FILE", value_name = "PATH", requires = "turn_urls")]
    pub turn_secret_file: Option<PathBuf>,

    /// Lifetime of a client's TURN credentials in seconds, 1 to 604,800; a longer call needs new
    /// ones
    #[arg(long, env = "SIGNALING_TURN_TTL_S", value_name = "SECONDS", default_value_t = 86_400,
          value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub turn_ttl_s: u64,
}

/// Checked ICE servers for clients, with the files that they come from.
#[derive(Clone, Default)]
pub struct IceConfig {
    servers: IceServers,
    list_file: Option<ReloadableFile>,
    secret_file: Option<ReloadableFile>,
}

impl std::fmt::Debug for IceConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IceConfig").field("turn", &self.servers.turn).finish_non_exhaustive()
    }
}

/// Returns the only line of a file, without white space around it, as coturn configures a secret.
fn secret(content: &[u8]) -> Result<Arc<[u8]>, &'static str> {
    let secret = content.trim_ascii();
    let is_one_line = !secret.is_empty() && !secret.contains(&b'\n');
    if is_one_line { Ok(secret.into()) } else { Err("must hold a secret in one line") }
}

impl IceArgs {
    /// Reads the files and checks the URLs.
    ///
    /// # Errors
    /// Names the flag whose file or URL cannot be used.
    pub fn check(self) -> Result<IceConfig, ConfigError> {
        let open = |flag, path: Option<PathBuf>| path.map(|path| ReloadableFile::open(flag, &path)).transpose();
        let list_file = open("--ice-servers-file", self.ice_servers_file)?;
        let secret_file = open("--turn-secret-file", self.turn_secret_file)?;
        if let Some(url) = self.turn_urls.iter().find(|url| !is_turn(url)) {
            let why = format!("{url:?} does not begin with turn: or turns:");
            return Err(ConfigError { flag: "--turn-urls", why });
        }
        let fixed = list_file.as_ref().map(|file| file.parsed(parse_list)).transpose()?.unwrap_or_default();
        let (urls, lifetime) = (Arc::from(self.turn_urls), Duration::from_secs(self.turn_ttl_s));
        let secret = secret_file.as_ref().map(|file| file.parsed(secret)).transpose()?;
        let turn = secret.map(|secret| Turn { urls, secret, lifetime });
        Ok(IceConfig { servers: IceServers { fixed, turn }, list_file, secret_file })
    }
}

impl IceConfig {
    /// Returns the servers as read at the start; empty without flags.
    pub fn servers(&self) -> IceServers {
        self.servers.clone()
    }

    /// Calls `put` with all servers after each valid change of a file. An invalid change is logged
    /// and has no effect. Never returns, also without files.
    pub async fn follow(self, put: impl Fn(IceServers)) {
        let Self { servers, list_file, secret_file } = self;
        let servers = std::cell::RefCell::new(servers);
        let change = |change: &dyn Fn(&mut IceServers)| {
            change(&mut servers.borrow_mut());
            put(servers.borrow().clone());
        };
        let list = async {
            if let Some(file) = list_file {
                file.follow(parse_list, |fixed| change(&|servers| servers.fixed = Arc::clone(&fixed))).await;
            }
        };
        let turn = async {
            let new_secret = |secret: Arc<[u8]>| {
                change(&|servers| {
                    if let Some(turn) = &mut servers.turn {
                        turn.secret = Arc::clone(&secret);
                    }
                });
            };
            if let Some(file) = secret_file {
                file.follow(secret, new_secret).await;
            }
        };
        tokio::join!(list, turn);
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        ice: IceArgs,
    }

    fn check(flags: &[&str]) -> Result<IceConfig, String> {
        let cli = Cli::try_parse_from([&["x"], flags].concat()).map_err(|error| error.to_string())?;
        cli.ice.check().map_err(|error| error.to_string())
    }

    #[test]
    fn turn_needs_addresses_and_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let path = path.to_str().unwrap();
        std::fs::write(path, "north\n").unwrap();
        let with_url = |url: &str| check(&["--turn-urls", url, "--turn-secret-file", path]);
        let turn = with_url("turn:a:3478,turns:b").unwrap().servers().turn.unwrap();
        assert_eq!((turn.urls.len(), &turn.secret[..], turn.lifetime.as_secs()), (2, &b"north"[..], 86_400));
        assert!(!format!("{:?}", with_url("turn:a").unwrap()).contains("north"));
        assert!(check(&["--turn-urls", "turn:a"]).is_err());
        assert!(check(&["--turn-secret-file", path]).is_err());
        assert!(with_url("http://a").unwrap_err().starts_with("--turn-urls:"));
        std::fs::write(path, "\n").unwrap();
        assert!(with_url("turn:a").unwrap_err().starts_with("--turn-secret-file:"));
        assert!(check(&[]).unwrap().servers().fixed.is_empty());
    }
}
