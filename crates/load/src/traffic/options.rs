use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::crew::Share;
use crate::message::Size;
use crate::pairs::Pairing;
use crate::schedule::Schedule;

/// What is sent, and for how long.
#[derive(Clone, Debug, Args)]
pub struct TrafficOptions {
    /// Messages a second, of all clients together.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// How long to measure.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// How long to send before measuring; what gets lost then counts all the same.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub warmup: u64,
    /// ice (200 bytes), sdp (3,000), mixed (ten to one), varied (so too, of 200 to 300 and 2,000 to 4,000), or a number.
    #[arg(long, default_value = "ice")]
    pub size: Size,
    /// Who writes to whom.
    #[arg(long, value_enum, default_value_t = Pairing::Neighbours)]
    pub pairs: Pairing,
    /// Decides all that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The grain of the schedule: what is due leaves together.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=100_000))]
    pub tick_us: u64,
    /// How long to wait for stragglers at the end.
    #[arg(long, default_value_t = 25_000)]
    pub settle_ms: u64,
    /// Fail when more messages than this were lost.
    #[arg(long, default_value_t = 0)]
    pub max_lost: u64,
    /// Fail when less than this share of the schedule was sent.
    #[arg(long, default_value_t = 0.99)]
    pub min_sent: f64,
}

impl TrafficOptions {
    /// The part of the rate that a process has.
    pub(crate) fn of_share(&self, share: Share) -> Result<Self> {
        Ok(Self { rate: share.of_rate(self.rate)?, seed: share.seed(self.seed), ..self.clone() })
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let duration_us = self.warmup_us() + self.measured_us();
        Schedule { rate: self.rate, tick_us: self.tick_us, duration_us }
    }

    pub(crate) fn warmup_us(&self) -> u64 {
        self.warmup * 1_000_000
    }

    pub(crate) fn measured_us(&self) -> u64 {
        self.seconds * 1_000_000
    }

    pub(crate) fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }
}
