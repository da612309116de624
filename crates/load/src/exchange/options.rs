use anyhow::Result;
use clap::Args;

use crate::message::Size;
use crate::record::Record;
use crate::report::Report;
use crate::schedule::Schedule;
use crate::workers::Share;

/// How long a load lasts, and what it draws.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunOptions {
    /// Measured time, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Load before the measured time, in seconds; messages lost meanwhile count too.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub(crate) warmup: u64,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Maximum wait for late messages at the end, in milliseconds.
    #[arg(long, default_value_t = 30_000)]
    pub(crate) settle_ms: u64,
}

/// Messages of a load.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrafficOptions {
    /// Messages per second, of all clients together.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: u64,
    /// Message data: ice (200 bytes), sdp (3,000), varied (200 to 300 and 2,000 to 4,000, ten to
    /// one), or a number of bytes.
    #[arg(long, default_value = "ice")]
    pub(crate) size: Size,
    /// Duration and seed.
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

impl RunOptions {
    pub(crate) fn of_share(&self, share: Share) -> Self {
        Self { seed: share.seed(self.seed), ..self.clone() }
    }

    /// Reports the load, and the record of its clients.
    pub(crate) fn describe(&self, report: &mut Report, clients: u32, rate: u64, record: &Record) {
        report.set("clients", clients);
        report.set("rate", rate);
        report.set("seconds", self.seconds);
        report.set("warmup", self.warmup);
        report.set("seed", self.seed);
        report.set("sent_share", record.sent_share());
        record.describe(report);
    }

    pub(crate) fn schedule(&self, rate: u64) -> Schedule {
        Schedule { rate, duration_us: (self.warmup + self.seconds) * 1_000_000 }
    }
}

impl TrafficOptions {
    pub(crate) fn of_share(&self, share: Share) -> Result<Self> {
        Ok(Self { rate: share.of_rate(self.rate)?, run: self.run.of_share(share), ..self.clone() })
    }
}
