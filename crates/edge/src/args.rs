//! Settings of an edge. Both servers flatten [`EdgeArgs`] into their own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{FalseyValueParser, RangedU64ValueParser};
use signaling_dialects::Dialect;
use signaling_dialects::peerjs::Keys;
use signaling_server::coalescer::Coalescer;
use signaling_server::http::HttpLimits;
use signaling_server::{Common, ConfigError};

use crate::identity::IdentityArgs;
use crate::{AdmissionLimits, ClientAddresses, DialectConfig, EdgeConfig, Tls, TlsFiles};
use signaling_core::edge::{Rate, RateLimits, Settings};
use signaling_core::rate_class::{ClassRates, Rates};

/// Bytes/s of one client if `--message-rate` has no byte rate: one message of the largest possible
/// size each second. 100 clients at this rate send 0.84 Gbit/s.
const BYTE_RATE: u32 = 1_048_576;
/// Seconds of its message rate that a client may send at once. An application sends its offers and
/// candidates to a whole room when it starts.
const MESSAGE_BURST_S: u32 = 5;
/// Seconds of its byte rate that a client may send at once: 4 MiB at the default rate.
const BYTE_BURST_S: u32 = 4;
/// Maximum client sockets of one address by default: an office or campus behind one address.
const MAX_PER_ADDRESS: usize = 1_000;
/// Control frames/s of one client: many times the rate of an SDK, with a burst for pages that wake
/// up.
const CONTROLS: Rate = Rate { per_second: 10, burst: 100 };

const LISTENERS: &str = "Listeners";

/// Flags of the listener for clients, and of their limits. The fields' comments are the help texts:
/// 429 in them is an HTTP status, and bytes of a rate include 64 for each message.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Clients and limits")]
pub struct EdgeArgs {
    /// Source of a client's address: socket, or for connections of trusted proxies
    /// x-forwarded-for:RANGES or proxy-v2:RANGES with their networks, such as
    /// proxy-v2:10.0.0.0/8,fd00::/8
    #[arg(long, env = "SIGNALING_CLIENT_ADDRESS", value_name = "SOURCE", default_value = "socket", help_heading = LISTENERS)]
    pub client_address: ClientAddresses,

    /// Share the clients' address with other processes (SO_REUSEPORT)
    #[arg(long, env = "SIGNALING_REUSE_PORT", value_parser = FalseyValueParser::new(), help_heading = LISTENERS)]
    pub reuse_port: bool,

    /// File with the certificate chain for clients, PEM; without it clients connect without TLS.
    /// Reloaded when it changes, if usable
    #[arg(long, env = "SIGNALING_TLS_CERT", value_name = "PATH", requires = "tls_key", help_heading = LISTENERS)]
    pub tls_cert: Option<PathBuf>,

    /// File with the private key, PEM. Reloaded when it changes, if usable
    #[arg(long, env = "SIGNALING_TLS_KEY", value_name = "PATH", requires = "tls_cert", help_heading = LISTENERS)]
    pub tls_key: Option<PathBuf>,

    /// Maximum client sockets, if open files allow as many; one more gets 429
    #[arg(long, env = "SIGNALING_MAX_SOCKETS", value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_sockets: usize,

    /// Maximum client sockets of one address or IPv6 /64 (0 for no limit) [default: a tenth of
    /// --max-sockets, at most 1000]
    #[arg(long, env = "SIGNALING_MAX_PER_ADDRESS", value_name = "N")]
    pub max_per_address: Option<usize>,

    /// Maximum sockets of one token subject (0 for no limit); one more gets 429
    #[arg(long, env = "SIGNALING_MAX_PER_SUBJECT", value_name = "N", default_value_t = 16)]
    pub max_per_subject: usize,

    /// Maximum new clients/s after token checks (1 to 1,000,000); more get 429
    #[arg(long, env = "SIGNALING_ACCEPT_RATE", value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accept_rate: u32,

    /// Maximum requests for a client socket per second of one address or IPv6 /64, before token
    /// checks (up to 1,000,000; 0 for no limit); one more gets 429
    #[arg(long, env = "SIGNALING_ACCEPT_RATE_PER_ADDRESS", value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub accept_rate_per_address: u32,

    /// Maximum connections that are not client sockets: before their upgrade, refused, or loading
    /// pages; one more closes the oldest
    #[arg(long, env = "SIGNALING_MAX_HANDSHAKES", value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_handshakes: usize,

    /// Time in ms for a PROXY header, for TLS and for a request's head, each (100 to 60,000).
    /// Hidden: tests shorten or lengthen it.
    #[arg(long, env = "SIGNALING_HANDSHAKE_MS", value_name = "MS", default_value_t = 5_000, hide = true,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub handshake_ms: u64,

    /// MESSAGES[/BYTES] per second of a token subject, else client (0 for no limit); more are
    /// refused or delayed. Bursts: 5 s of messages, 4 s of bytes
    #[arg(long, env = "SIGNALING_MESSAGE_RATE", value_name = "RATES", default_value = "200/1048576")]
    pub message_rate: Rates,

    /// NAME=MESSAGES[/BYTES[/ROOMS]] per second of clients by their token's `rate_class` (0 for no
    /// limit), separated by commas. Left out: as --message-rate, and 5 new rooms
    #[arg(long, env = "SIGNALING_RATE_CLASSES", value_name = "CLASSES", value_delimiter = ',')]
    pub rate_classes: Vec<ClassRates>,

    /// Maximum bytes of messages and unread output of all clients, at least 1 MiB; above it slow
    /// readers are closed. Unfinished messages may take as much again
    #[arg(long, env = "SIGNALING_MAX_CLIENT_BUFFER_BYTES", value_name = "BYTES", default_value_t = 256 * 1024 * 1024,
          value_parser = RangedU64ValueParser::<usize>::new().range(1024 * 1024..))]
    pub max_client_buffer_bytes: usize,

    /// Dialects to serve, separated by commas, such as peerjs (docs/DIALECTS.md) [default: none]
    #[arg(long, env = "SIGNALING_DIALECTS", value_name = "NAMES", value_delimiter = ',')]
    pub dialects: Vec<Dialect>,

    /// Keys that PeerJS clients may use, separated by commas, or `any` for all
    #[arg(long, env = "SIGNALING_PEERJS_KEYS", value_name = "KEYS", default_value = "peerjs")]
    pub peerjs_keys: Keys,

    /// Maximum players of one Pixel Streaming streamer (0: 10,000 including SFUs)
    #[arg(long, env = "SIGNALING_PIXELSTREAMING_MAX_PLAYERS", value_name = "PLAYERS", default_value_t = 0)]
    pub pixelstreaming_max_players: u32,

    /// Admission of clients.
    #[command(flatten)]
    pub identity: IdentityArgs,
}

impl EdgeArgs {
    /// Checks the settings that clap cannot check, and reads the files of keys and certificates.
    /// `listen` is the address for clients, which `flag` sets; `None`: there is none. The result
    /// has no limit of connections and no read delay. The caller sets them.
    ///
    /// # Errors
    /// Names `--tls-cert` for an unusable certificate or key. The text has the path of an
    /// unreadable file. Names the flag of an invalid origin, or of an unusable file of token keys.
    /// Names `flag` if other hosts can connect without tokens or `--allow-anonymous`.
    pub fn check(
        self,
        common: &Common,
        flag: &'static str,
        listen: Option<SocketAddr>,
    ) -> Result<EdgeConfig, ConfigError> {
        let files = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
        let tls = files.map(Tls::load).transpose();
        let tls = tls.map_err(|error| ConfigError { flag: "--tls-cert", why: error.to_string() })?;
        let largest = u32::try_from(common.max_message_bytes).unwrap_or(u32::MAX);
        let usual = RateLimits {
            messages: with_burst(self.message_rate.messages, MESSAGE_BURST_S, 1),
            bytes: with_burst(self.message_rate.bytes.unwrap_or(BYTE_RATE), BYTE_BURST_S, largest),
            controls: Some(CONTROLS),
        };
        let of_class = |class: &ClassRates| RateLimits {
            messages: with_burst(class.rates.messages, MESSAGE_BURST_S, 1),
            bytes: class.rates.bytes.map_or(usual.bytes, |bytes| with_burst(bytes, BYTE_BURST_S, largest)),
            controls: usual.controls,
        };
        let new_rooms = self.rate_classes.iter().filter_map(|class| Some((class.class.clone(), class.new_rooms?)));
        let new_rooms = new_rooms.collect();
        let rate_classes = self.rate_classes.iter().map(|class| (class.class.clone(), of_class(class))).collect();
        let defaults = Settings::for_messages_of(common.max_message_bytes);
        let mut dedup = defaults.dedup;
        dedup.latest_repeat = (dedup.latest_repeat + common.heartbeat).saturating_sub(defaults.heartbeat);
        let max_memory_bytes = self.max_client_buffer_bytes;
        let core =
            Settings { rates: usual, rate_classes, heartbeat: common.heartbeat, dedup, max_memory_bytes, ..defaults };
        let identity = self.identity.check(flag, listen, new_rooms)?;
        let dialects = signaling_dialects::Settings {
            tokens: identity.tokens.is_some(),
            peerjs_keys: self.peerjs_keys,
            pixelstreaming_max_players: Some(self.pixelstreaming_max_players).filter(|&limit| limit > 0),
        };
        let max_per_address = (self.max_sockets / 10).clamp(1, MAX_PER_ADDRESS);
        Ok(EdgeConfig {
            admission: AdmissionLimits {
                sockets: self.max_sockets,
                per_address: Some(self.max_per_address.unwrap_or(max_per_address)).filter(|&limit| limit > 0),
                per_subject: Some(self.max_per_subject).filter(|&limit| limit > 0),
                rate: self.accept_rate,
                rate_per_address: Some(self.accept_rate_per_address).filter(|&limit| limit > 0),
            },
            max_message_bytes: common.max_message_bytes,
            handshakes: self.max_handshakes,
            connections: usize::MAX,
            http: HttpLimits { head_timeout: Duration::from_millis(self.handshake_ms), ..HttpLimits::PUBLIC },
            addresses: self.client_address,
            reuse_port: self.reuse_port,
            tls,
            core,
            identity,
            dialects: DialectConfig { mounted: self.dialects, settings: dialects },
            coalescer: Coalescer::disabled(),
        })
    }
}

/// Returns a rate with a burst of `seconds`, at least `least` units; `None` for 0: no limit.
fn with_burst(per_second: u32, seconds: u32, least: u32) -> Option<Rate> {
    (per_second > 0).then(|| Rate { per_second, burst: per_second.saturating_mul(seconds).max(least) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_lasts_its_seconds_and_takes_the_largest_message() {
        for (per_second, seconds, least, burst) in [
            (200, MESSAGE_BURST_S, 1, Some(1_000)),
            (5, MESSAGE_BURST_S, 1, Some(25)),
            (BYTE_RATE, BYTE_BURST_S, 65_536, Some(4 * 1_048_576)),
            (u32::MAX, MESSAGE_BURST_S, 1, Some(u32::MAX)),
            (1_024, BYTE_BURST_S, 65_536, Some(65_536)),
            (0, MESSAGE_BURST_S, 65_536, None),
        ] {
            let rate = burst.map(|burst| Rate { per_second, burst });
            assert_eq!(with_burst(per_second, seconds, least), rate, "{per_second}");
        }
    }
}
