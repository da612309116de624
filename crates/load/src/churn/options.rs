use anyhow::{Result, bail};
use clap::Args;

use crate::crew::Share;
use crate::schedule::Schedule;

/// Who comes how often, and what may be left of it.
#[derive(Clone, Debug, Args)]
pub struct ChurnOptions {
    /// How many visitors come, each under a name of its own.
    #[arg(long, default_value_t = 100_000, overrides_with = "visits", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub visits: u64,
    /// For how many seconds they come before, at the same rate, so that servers have what they need to remember of visitors:
    /// half a minute of them. 0 for none.
    #[arg(long, default_value_t = 45, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub warmup: u64,
    /// Visitors that come a second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// Visitors that may be there at the same time; more come late, and their visits have taken longer.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub at_once: u32,
    /// How long the servers have to put away what they need no more, before they are looked at.
    #[arg(long, default_value_t = 60_000)]
    pub settle_ms: u64,
    /// Fail when a process has more memory, threads or descriptors than before by more than this much of what it had.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub max_growth: f64,
    /// Fail when more visits than this have failed.
    #[arg(long, default_value_t = 0)]
    pub max_failed: u64,
    /// Fail when the 99th percentile of the time of a visit is above this.
    #[arg(long)]
    pub max_p99_ms: Option<f64>,
    /// What these visitors are called, to tell them from those that warmed up.
    #[arg(long, default_value = "visitor", overrides_with = "wave", hide = true)]
    pub(crate) wave: String,
}

/// The grain of the schedule.
const TICK_US: u64 = 1_000;

impl ChurnOptions {
    /// The visitors before those that count.
    pub(crate) fn warming_up(&self) -> Self {
        Self { visits: self.warmup * self.rate, wave: "early".to_owned(), ..self.clone() }
    }

    /// The part of the visitors that a process has.
    pub(crate) fn of_share(&self, share: Share) -> Result<Self> {
        let visits = share.of(self.visits);
        if visits.is_empty() {
            bail!("--visits {} are too few for so many --processes", self.visits);
        }
        let places = share.of(self.at_once.into());
        let at_once = u32::try_from(places.end - places.start).unwrap_or(self.at_once).max(1);
        Ok(Self { visits: visits.end - visits.start, rate: share.of_rate(self.rate)?, at_once, ..self.clone() })
    }

    /// Of as many visits as there are to be.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule { rate: self.rate, tick_us: TICK_US, duration_us: (self.visits * 1_000_000).div_ceil(self.rate) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn those_who_warm_up_have_other_names_than_those_who_count() {
        let churn: ChurnOptions = options(&["--visits=200", "--rate=200", "--warmup=1"]).unwrap();

        assert_eq!(churn.warming_up().visits, churn.visits);
        assert_ne!(churn.warming_up().wave, churn.wave);
    }
}
