//! Flags of a balancer into a checked [`Config`].

use std::net::SocketAddr;

use clap::Parser;
use clap::builder::{FalseyValueParser, RangedU64ValueParser};
use signaling_server::{Common, CommonArgs, ConfigError};

/// The balancer: holds clients' sockets, and moves them between nodes behind their sockets.
#[derive(Debug, Parser)]
#[command(name = "signaling-balancer", version)]
pub struct Args {
    /// What both servers take.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where to listen for clients
    #[arg(long, env = "SIGNALING_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Serve the demo page under /
    #[arg(long, env = "SIGNALING_DEMO", value_parser = FalseyValueParser::new())]
    pub demo: bool,

    /// Most clients
    #[arg(long, env = "SIGNALING_MAX_SOCKETS", value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_sockets: usize,

    /// Most clients of one address, 0 for no limit
    #[arg(long, env = "SIGNALING_MAX_PER_ADDRESS", value_name = "N", default_value_t = 0)]
    pub max_per_address: usize,

    /// Most new clients a second
    #[arg(long, env = "SIGNALING_ACCEPT_RATE", value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accept_rate: u32,
}

/// What a balancer is told, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// What both servers are told.
    pub common: Common,
    /// Where to listen for clients.
    pub listen: SocketAddr,
    /// Whether to serve the demo page.
    pub demo: bool,
    /// Most clients.
    pub max_sockets: usize,
    /// Most clients of one address.
    pub max_per_address: Option<usize>,
    /// Most new clients a second.
    pub accept_rate: u32,
}

impl Args {
    /// Checks what clap could not, and reads the files that flags name.
    ///
    /// # Errors
    /// Names the flag that does not serve.
    pub fn check(self) -> Result<Config, ConfigError> {
        Ok(Config {
            common: self.common.check()?,
            listen: self.listen,
            demo: self.demo,
            max_sockets: self.max_sockets,
            max_per_address: Some(self.max_per_address).filter(|&limit| limit > 0),
            accept_rate: self.accept_rate,
        })
    }
}
