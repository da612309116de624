//! The flags of whoever runs an edge. Flatten them into a server's own.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::AdmissionLimits;

/// How many clients are let in, and how fast.
#[derive(Debug, Clone, Args)]
pub struct AdmissionArgs {
    /// Most client sockets
    #[arg(long, env = "SIGNALING_MAX_SOCKETS", value_name = "N", default_value_t = 1_000_000,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_sockets: usize,

    /// Most client sockets of one address, 0 for no limit
    #[arg(long, env = "SIGNALING_MAX_PER_ADDRESS", value_name = "N", default_value_t = 0)]
    pub max_per_address: usize,

    /// Most new clients a second
    #[arg(long, env = "SIGNALING_ACCEPT_RATE", value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accept_rate: u32,
}

impl AdmissionArgs {
    /// The same as limits.
    #[must_use]
    pub fn limits(&self) -> AdmissionLimits {
        AdmissionLimits {
            sockets: self.max_sockets,
            per_address: Some(self.max_per_address).filter(|&limit| limit > 0),
            rate: self.accept_rate,
        }
    }
}
