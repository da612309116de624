//! The flags of whoever runs an edge. Flatten them into a server's own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ipnet::IpNet;
use signaling_server::http::HttpLimits;
use signaling_server::{Common, ConfigError};

use super::{AddressSource, AdmissionLimits, ClientAddresses, EdgeConfig, Tls, TlsFiles};
use crate::core::{PaceLimits, Rate};
use crate::identity::IdentityArgs;
use crate::rate_class::ClassRates;

/// How long a burst lasts where nothing says so.
const BURST_SECONDS: u32 = 5;
/// Pings at once, in seconds of their rate: a page that was asleep may make up for it.
const PING_BURST_SECONDS: u32 = 10;

/// What clients may do, and how they are met.
#[derive(Debug, Clone, Args)]
pub struct EdgeArgs {
    /// Most client sockets
    #[arg(long, env = "SIGNALING_MAX_SOCKETS", value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_sockets: usize,

    /// Maximum client sockets of one address, or one IPv6 network of 64 bits; 0 disables it. Its
    /// other connections count too, but 8 other connections are always accepted; one more closes the oldest
    #[arg(long, env = "SIGNALING_MAX_PER_ADDRESS", value_name = "N", default_value_t = 0)]
    pub max_per_address: usize,

    /// Most new clients a second, not counting those whose tokens are refused
    #[arg(long, env = "SIGNALING_ACCEPT_RATE", value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accept_rate: u32,

    /// Most times a second that one address, or one IPv6 network of 64 bits, may ask to be let in, 0 for no limit
    #[arg(long, env = "SIGNALING_ACCEPT_RATE_PER_ADDRESS", value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub accept_rate_per_address: u32,

    /// Maximum connections that are not client sockets: before their upgrade, refused, or loading
    /// pages; one more closes the oldest
    #[arg(long, env = "SIGNALING_MAX_HANDSHAKES", value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_handshakes: usize,

    /// How long a connection may take to ask, in milliseconds, up to a minute: for TLS, and again for the request's head
    #[arg(long, env = "SIGNALING_HANDSHAKE_MS", value_name = "MS", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub handshake_ms: u64,

    /// Longest head of a request, 8 to 256 KiB
    #[arg(long, env = "SIGNALING_MAX_HEAD_BYTES", value_name = "BYTES", default_value_t = 16_384,
          value_parser = RangedU64ValueParser::<usize>::new().range(8_192..=262_144))]
    pub max_head_bytes: usize,

    /// Most header lines of a request
    #[arg(long, env = "SIGNALING_MAX_HEADERS", value_name = "N", default_value_t = 64,
          value_parser = RangedU64ValueParser::<usize>::new().range(8..=1_024))]
    pub max_headers: usize,

    /// Most messages a second of one client in the long run, 0 for no limit
    #[arg(long, env = "SIGNALING_MESSAGE_RATE", value_name = "N", default_value_t = 200)]
    pub message_rate: u32,

    /// Most messages of one client at once
    #[arg(long, env = "SIGNALING_MESSAGE_BURST", value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub message_burst: u32,

    /// Most bytes of messages a second of one client in the long run, 0 for no limit
    #[arg(long, env = "SIGNALING_BYTE_RATE", value_name = "BYTES", default_value_t = 1_048_576)]
    pub byte_rate: u32,

    /// Most bytes of messages of one client at once
    #[arg(long, env = "SIGNALING_BYTE_BURST", value_name = "BYTES", default_value_t = 4_194_304,
          value_parser = clap::value_parser!(u32).range(1_024..))]
    pub byte_burst: u32,

    /// Other rates of messages, and of bytes, for clients whose tokens name a `rate_class`: NAME=MESSAGES[/BYTES], several separated
    /// by commas. What they may send at once grows and shrinks with it
    #[arg(long, env = "SIGNALING_RATE_CLASSES", value_name = "CLASSES", value_delimiter = ',')]
    pub rate_classes: Vec<ClassRates>,

    /// Most pings a second of one client in the long run, 0 for no limit
    #[arg(long, env = "SIGNALING_PING_RATE", value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub ping_rate: u32,

    /// Bytes that all clients together may have this server keep, 1 MiB or more: messages whose fate is not known, and
    /// what is not read. As much again for messages that have begun and not ended
    #[arg(long, env = "SIGNALING_BUFFER_BYTES", value_name = "BYTES", default_value_t = 256 * 1024 * 1024,
          value_parser = RangedU64ValueParser::<usize>::new().range(1024 * 1024..))]
    pub buffer_bytes: usize,

    /// Where clients' addresses are read; other than `socket` needs --trusted-proxies
    #[arg(long, env = "SIGNALING_CLIENT_ADDRESS", value_name = "WHERE", value_enum, default_value_t = AddressSource::Socket)]
    pub client_address: AddressSource,

    /// Ranges of the proxies in front that are believed, such as 10.0.0.0/8,fd00::/8
    #[arg(long, env = "SIGNALING_TRUSTED_PROXIES", value_name = "RANGES", value_delimiter = ',')]
    pub trusted_proxies: Vec<IpNet>,

    /// File with the certificate that clients are shown, and those up to its root, PEM; read again when it changes. Without it
    /// clients come without TLS
    #[arg(long, env = "SIGNALING_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// File with its private key, PEM
    #[arg(long, env = "SIGNALING_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Who is let in.
    #[command(flatten)]
    pub identity: IdentityArgs,
}

impl EdgeArgs {
    /// Checks what clap could not, and reads the files that flags name. `listen` is where clients come, if they do, by `flag`.
    ///
    /// # Errors
    /// Names the flag that does not serve.
    pub fn check(
        self,
        common: &Common,
        flag: &'static str,
        listen: Option<SocketAddr>,
    ) -> Result<EdgeConfig, ConfigError> {
        let invalid = |flag, why: String| ConfigError::Invalid { flag, why };
        if self.client_address != AddressSource::Socket && self.trusted_proxies.is_empty() {
            let why = "names who may say so, so it needs --trusted-proxies".to_owned();
            return Err(invalid("--client-address", why));
        }
        if (self.byte_burst as usize) < common.max_message_bytes {
            let why = format!("must be at least --max-message-bytes, which is {}", common.max_message_bytes);
            return Err(invalid("--byte-burst", why));
        }
        let files = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
        let tls = files.map(Tls::load).transpose().map_err(|error| invalid("--tls-cert", error.to_string()))?;
        let rate = |per_second, burst| (per_second > 0).then_some(Rate { per_second, burst });
        let pace = PaceLimits {
            messages: rate(self.message_rate, self.message_burst),
            bytes: rate(self.byte_rate, self.byte_burst),
            pings: rate(self.ping_rate, self.ping_rate * PING_BURST_SECONDS),
        };
        let least_bytes = u32::try_from(common.max_message_bytes).unwrap_or(u32::MAX);
        let pace_of = |class: &ClassRates| PaceLimits {
            messages: in_proportion(class.messages, self.message_rate, self.message_burst, 1),
            bytes: class
                .bytes
                .map_or(pace.bytes, |bytes| in_proportion(bytes, self.byte_rate, self.byte_burst, least_bytes)),
            pings: pace.pings,
        };
        let rate_classes = self.rate_classes.iter().map(|class| (class.class.clone(), pace_of(class))).collect();
        Ok(EdgeConfig {
            admission: AdmissionLimits {
                sockets: self.max_sockets,
                per_address: Some(self.max_per_address).filter(|&limit| limit > 0),
                rate: self.accept_rate,
                rate_per_address: Some(self.accept_rate_per_address).filter(|&limit| limit > 0),
            },
            max_message_bytes: common.max_message_bytes,
            handshakes: self.max_handshakes,
            connections: usize::MAX,
            http: HttpLimits {
                head_timeout: Duration::from_millis(self.handshake_ms),
                buffer_bytes: self.max_head_bytes,
                headers: self.max_headers,
            },
            addresses: ClientAddresses::new(self.client_address, self.trusted_proxies),
            tls,
            pace,
            rate_classes,
            heartbeat: common.heartbeat,
            buffer_bytes: self.buffer_bytes,
            identity: self.identity.check(flag, listen)?,
        })
    }
}

/// Such a rate, with a burst that lasts as long as the usual one at the usual rate (where that has no limit, one of
/// [`BURST_SECONDS`]), but for `least` at once.
fn in_proportion(per_second: u32, usual: u32, usual_burst: u32, least: u32) -> Option<Rate> {
    let (usual, usual_burst) = if usual > 0 { (usual, usual_burst) } else { (1, BURST_SECONDS) };
    let burst = u64::from(usual_burst) * u64::from(per_second) / u64::from(usual);
    let burst = u32::try_from(burst).unwrap_or(u32::MAX).max(least);
    (per_second > 0).then_some(Rate { per_second, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--message-rate` and `--message-burst` are unless told otherwise.
    const USUAL: (u32, u32) = (200, 1_000);

    fn burst_of(per_second: u32, (usual, usual_burst): (u32, u32), least: u32) -> Option<u32> {
        let rate = in_proportion(per_second, usual, usual_burst, least)?;
        assert_eq!(rate.per_second, per_second);
        Some(rate.burst)
    }

    #[test]
    fn a_class_may_send_as_long_at_once_at_its_own_rate_as_all_others_at_theirs() {
        for (per_second, burst) in [(5, 25), (199, 995), (200, 1_000), (201, 1_005), (20_000, 100_000)] {
            assert_eq!(burst_of(per_second, USUAL, 1), Some(burst), "{per_second} a second");
        }
        assert_eq!(burst_of(65_536, (1_048_576, 4_194_304), 65_536), Some(262_144), "bytes");
        assert_eq!(burst_of(3, (10, 5), 1), Some(1), "the half of one is none");
    }

    #[test]
    fn the_slowest_class_may_send_one_message_at_once_and_the_fastest_no_more_than_can_be_said() {
        assert_eq!(burst_of(1, (1_000, 10), 1), Some(1));
        assert_eq!(burst_of(1_024, (1_048_576, 4_194_304), 65_536), Some(65_536), "the largest message");
        assert_eq!(burst_of(u32::MAX, (1, u32::MAX), 1), Some(u32::MAX));
        assert_eq!(burst_of(u32::MAX, USUAL, 1), Some(u32::MAX));
    }

    #[test]
    fn a_class_of_rate_0_has_no_limit_and_one_of_another_rate_has_it_where_nobody_else_has() {
        assert_eq!(in_proportion(0, 200, 1_000, 1), None);
        assert_eq!(in_proportion(0, 0, 1_000, 65_536), None);
        assert_eq!(burst_of(5, (0, 1_000), 1), Some(25));
    }
}
