//! Flags of the readiness by load.

use std::time::Duration;

use clap::Args;

use super::core::Settings;

/// When a server says that it is not ready because it has more clients than its peers. Flatten it into a server's own.
#[derive(Debug, Clone, Args)]
pub struct CrowdingArgs {
    /// Say unready while this server has so many percent more clients than the mean of its peers and itself, so that a front
    /// proxy that only takes turns sends new clients elsewhere; 0 for never. Never more than half of the servers do
    #[arg(long, env = "SIGNALING_READY_ABOVE", value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub ready_above: u32,

    /// While any server says so, those with so many percent more than the mean take turns at it
    #[arg(long, env = "SIGNALING_READY_BELOW", value_name = "PERCENT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub ready_below: u32,

    /// With fewer clients than this at each server on average nobody says so
    #[arg(long, env = "SIGNALING_READY_FLOOR", value_name = "N", default_value_t = 500)]
    pub ready_floor: u64,

    /// Longest time for which a server says so without a break as long, in milliseconds, a second to an hour
    #[arg(long, env = "SIGNALING_READY_LONGEST_MS", value_name = "MS", default_value_t = 600_000,
          value_parser = clap::value_parser!(u64).range(1_000..=3_600_000))]
    pub ready_longest_ms: u64,

    /// How long the front proxies take at most to see that a server is ready again, in milliseconds: until then no other takes
    /// its place
    #[arg(long, env = "SIGNALING_READY_SETTLE_MS", value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(..=600_000))]
    pub ready_settle_ms: u64,

    /// How often peers are asked how many clients they have, in milliseconds
    #[arg(long, env = "SIGNALING_READY_PERIOD_MS", value_name = "MS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub ready_period_ms: u64,
}

impl CrowdingArgs {
    /// Nothing if it is off.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        (self.ready_above > 0).then(|| Settings {
            above: f64::from(self.ready_above) / 100.0,
            below: f64::from(self.ready_below.min(self.ready_above)) / 100.0,
            floor: self.ready_floor,
            longest: Duration::from_millis(self.ready_longest_ms),
            settle: Duration::from_millis(self.ready_settle_ms),
            period: Duration::from_millis(self.ready_period_ms),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        crowding: CrowdingArgs,
    }

    #[test]
    fn the_flags_are_consistent_and_each_has_its_own_variable() {
        Cli::command().debug_assert();
        for arg in Cli::command().get_arguments().filter(|arg| arg.get_id() != "help") {
            let flag = arg.get_long().unwrap();
            let variable = format!("SIGNALING_{}", flag.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(variable.as_str()));
        }
    }

    #[test]
    fn it_is_off_unless_told_otherwise_and_percent_are_shares() {
        assert_eq!(Cli::parse_from(["x"]).crowding.settings(), None);
        let settings = Cli::parse_from(["x", "--ready-above=10"]).crowding.settings().unwrap();
        assert_eq!((settings.above, settings.below, settings.floor), (0.1, 0.01, 500));
        assert_eq!((settings.settle, settings.period), (Duration::from_secs(10), Duration::from_secs(1)));
        let settings = Cli::parse_from(["x", "--ready-above=10", "--ready-below=20"]).crowding.settings().unwrap();
        assert_eq!(settings.below, 0.1, "an episode never begins below where it ends");
    }
}
