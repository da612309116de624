use anyhow::Result;
use clap::Args;

use crate::crew::Share;
use crate::schedule::Schedule;

/// Calls a second: more than the harness can begin.
pub(crate) const MAX_RATE: u64 = 100_000;

/// What calls there are, and for how long.
#[derive(Clone, Debug, Args)]
pub struct CallOptions {
    /// Calls begun a second.
    #[arg(long, default_value_t = 50, overrides_with = "rate", value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
    pub rate: u64,
    /// How long to measure.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// How long to make calls before measuring; what gets lost then counts all the same.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub warmup: u64,
    /// How long each side gathers its candidates, which leave one by one meanwhile; not part of the set-up time.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub gather_ms: u64,
    /// Decides all that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The grain of the schedule: what is due leaves together.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=100_000))]
    pub tick_us: u64,
    /// How long to wait for stragglers at the end.
    #[arg(long, default_value_t = 25_000)]
    pub settle_ms: u64,
    /// Fail when the 99th percentile of the set-up time is above this.
    #[arg(long)]
    pub max_setup_p99_ms: Option<f64>,
    /// Fail when more messages than this were lost.
    #[arg(long, default_value_t = 0)]
    pub max_lost: u64,
    /// Fail when less than this share of the calls was begun in time.
    #[arg(long, default_value_t = 0.99)]
    pub min_sent: f64,
}

impl CallOptions {
    /// The part of the calls that a process makes.
    pub(crate) fn of_share(&self, share: Share) -> Result<Self> {
        Ok(Self { rate: share.of_rate(self.rate)?, seed: share.seed(self.seed), ..self.clone() })
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let duration_us = (self.warmup + self.seconds) * 1_000_000;
        Schedule { rate: self.rate, tick_us: self.tick_us, duration_us }
    }

    pub(crate) fn gather_us(&self) -> u64 {
        self.gather_ms * 1_000
    }
}
