//! Settings of client admission. `EdgeArgs` contains and checks them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser as _};
use jsonwebtoken::Algorithm;
use signaling_core::rate_class::RateClass;
use signaling_server::{ConfigError, ReloadableFile};
use tracing::warn;

use super::{Origins, TokenRules, Tokens};

const KEY_FILE: &str = "--token-key-file";
/// Supported signature algorithms. With HS256 each server that verifies tokens can also sign them.
const ALGORITHMS: [&str; 4] = ["HS256", "EdDSA", "ES256", "RS256"];

/// Flags of client admission.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tokens and secrets")]
pub struct IdentityArgs {
    /// File with the keys of client tokens (JWT): a secret of at least 32 bytes for HS256, else a
    /// public key (PEM), or a JWK set. Reloaded when it changes
    #[arg(
        long,
        env = "SIGNALING_TOKEN_KEY_FILE",
        value_name = "PATH",
        requires = "token_algorithm",
        requires = "token_audience",
        requires = "token_issuer"
    )]
    pub token_key_file: Option<PathBuf>,

    /// Signature algorithm of client tokens
    #[arg(long, env = "SIGNALING_TOKEN_ALGORITHM", value_name = "ALGORITHM", requires = "token_key_file",
          value_parser = PossibleValuesParser::new(ALGORITHMS).try_map(|name| name.parse::<Algorithm>()))]
    pub token_algorithm: Option<Algorithm>,

    /// Required `aud` claim of client tokens
    #[arg(long, env = "SIGNALING_TOKEN_AUDIENCE", value_name = "AUDIENCE", requires = "token_key_file")]
    pub token_audience: Option<String>,

    /// Required `iss` claim of client tokens
    #[arg(long, env = "SIGNALING_TOKEN_ISSUER", value_name = "ISSUER", requires = "token_key_file")]
    pub token_issuer: Option<String>,

    /// Clock tolerance for `exp` and `nbf` in seconds (0 to 30). Hidden: tests set 0.
    #[arg(long, env = "SIGNALING_TOKEN_LEEWAY_S", value_name = "SECONDS", default_value_t = 10, hide = true,
          value_parser = clap::value_parser!(u64).range(..=30))]
    pub token_leeway_s: u64,

    /// Admit clients without tokens beyond loopback: each can take any free client_id and signal
    /// every client; ignored with tokens
    #[arg(long, env = "SIGNALING_ALLOW_ANONYMOUS", value_parser = FalseyValueParser::new())]
    pub allow_anonymous: bool,

    /// Origins of pages, separated by commas: https://HOST:PORT, https://*.HOST, SCHEME://HOST,
    /// file://, null [default: all]
    #[arg(long, env = "SIGNALING_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,
}

/// Checked settings of client admission. The default admits all clients.
#[derive(Debug, Clone, Default)]
pub struct IdentityConfig {
    /// Verifier of tokens; `None`: clients need none.
    pub tokens: Option<Rc<Tokens>>,
    /// Origins that browsers and web views may connect from. The default allows all.
    pub origins: Origins,
    key_file: Option<ReloadableFile>,
}

impl IdentityArgs {
    /// Checks the flags and reads the key file. `listen` is the address for clients, which `flag`
    /// sets; `None`: there is none. `new_rooms` are the rates of [`TokenRules`]. Tokens are
    /// required if all four flags of tokens are set.
    ///
    /// # Errors
    /// Names the flag of an invalid origin, or of a key file that is unreadable or has no usable
    /// key. Names `flag` if other hosts can connect without tokens or `--allow-anonymous`.
    pub fn check(
        self,
        flag: &'static str,
        listen: Option<SocketAddr>,
        new_rooms: BTreeMap<RateClass, u32>,
    ) -> Result<IdentityConfig, ConfigError> {
        let origins = Origins::new(&self.allowed_origins)
            .map_err(|error| ConfigError { flag: "--allowed-origins", why: error.to_string() })?;
        let (Some(path), Some(algorithm), Some(audience), Some(issuer)) =
            (self.token_key_file, self.token_algorithm, self.token_audience, self.token_issuer)
        else {
            return match listen {
                Some(listen) if !listen.ip().is_loopback() && !self.allow_anonymous => {
                    let why = format!(
                        "other hosts can reach {listen}, and without tokens each can take any free client_id and signal \
                         every client: give {KEY_FILE}, --token-algorithm, --token-audience and --token-issuer, or \
                         --allow-anonymous"
                    );
                    Err(ConfigError { flag, why })
                }
                _ => Ok(IdentityConfig { tokens: None, origins, key_file: None }),
            };
        };
        let leeway = Duration::from_secs(self.token_leeway_s);
        let rules = TokenRules { algorithm, audience, issuer, leeway, new_rooms };
        let key_file = ReloadableFile::open(KEY_FILE, &path)?;
        let tokens = key_file.parsed(|content| Tokens::new(&rules, content))?;
        Ok(IdentityConfig { tokens: Some(Rc::new(tokens)), origins, key_file: Some(key_file) })
    }
}

impl IdentityConfig {
    /// Logs a warning with the address for clients, `listen`, if clients need no tokens.
    pub fn warn_if_open(&self, listen: SocketAddr) {
        if self.tokens.is_none() {
            warn!(
                %listen,
                "ANONYMOUS: clients need no tokens, each can take any free client_id and signal every client \
                 (--token-key-file requires tokens)"
            );
        }
    }

    /// Reloads the keys within 1 s of a change of their file. The old keys stay if the new file is
    /// unusable, which is logged. Never returns, also without tokens.
    pub async fn follow(self) {
        match (self.key_file, self.tokens) {
            (Some(file), Some(tokens)) => file.follow(|content| tokens.change_keys(content), |()| {}).await,
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        identity: IdentityArgs,
    }

    fn check(flags: &[&str], listen: &str) -> Result<IdentityConfig, String> {
        let cli = Cli::try_parse_from([&["x"], flags].concat()).map_err(|error| error.to_string())?;
        cli.identity
            .check("--listen", Some(listen.parse().unwrap()), BTreeMap::new())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn tokens_need_all_their_flags_and_a_usable_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let path = path.to_str().unwrap();
        std::fs::write(path, "0123456789abcdef0123456789abcdef").unwrap();
        let key = ["--token-key-file", path];
        let rest = ["--token-algorithm", "HS256", "--token-audience", "mesh", "--token-issuer", "app"];
        for flags in [&key[..], &rest[..], &[&key[..], &rest[..4]].concat()] {
            assert!(check(flags, "127.0.0.1:1").is_err(), "{flags:?}");
        }
        let all = [&key[..], &rest[..]].concat();
        let config = check(&all, "0.0.0.0:8080").unwrap();
        let printed = format!("{config:?}");
        assert!(config.tokens.is_some() && !printed.contains("content"), "{printed}");
        assert!(check(&[&all[..], &["--token-leeway-s", "31"]].concat(), "127.0.0.1:1").is_err());
        std::fs::write(path, "short").unwrap();
        let message = check(&all, "127.0.0.1:1").unwrap_err();
        assert!(message.starts_with("--token-key-file:") && message.contains("32 bytes"), "{message}");
        assert!(!message.contains("short"), "{message}");
    }
}
