use anyhow::{Result, bail};
use clap::Args;

use crate::traffic::TrafficOptions;

/// Each message of such a run is kept in memory until its end.
const MAX_SECONDS: u64 = 600;

/// When the acts are, and what is allowed to follow from them.
#[derive(Clone, Debug, Args)]
pub struct DrillOptions {
    /// When the first act is, in seconds of the measured time [default: drawn by the seed].
    #[arg(long, value_name = "SECONDS")]
    pub at: Option<f64>,
    /// Where several acts follow each other: seconds from the end of one to the next.
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    pub gap: u32,
    /// The share of messages that ask for an ack.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    pub ack_share: f64,
    /// Closed sockets are no failure.
    #[arg(long)]
    pub allow_closed: bool,
    /// Fail when the effects of an act last longer.
    #[arg(long)]
    pub max_settle_ms: Option<u64>,
    /// Fail when the p99 of clients that an act did not move is above this multiple of theirs before (and above 20 ms).
    #[arg(long, value_name = "FACTOR")]
    pub max_unmoved_factor: Option<f64>,
}

impl DrillOptions {
    pub(crate) fn check(&self, traffic: &TrafficOptions) -> Result<()> {
        if traffic.seconds > MAX_SECONDS {
            bail!("--seconds {}: such a run may take {MAX_SECONDS} at most", traffic.seconds);
        }
        Ok(())
    }
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "use a number from 0 to 1".to_owned())
}
