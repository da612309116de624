//! Flags of readiness by load.

use clap::Args;

use super::rule::Settings;

/// When a server reports unready because of its load.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Discovery")]
pub struct LoadReadinessArgs {
    /// Percentage above the mean client count of all servers at which this server reports unready (0 to 1,000; 0 disables it).
    /// For front proxies that only do round robin
    #[arg(long, env = "SIGNALING_UNREADY_ABOVE_PERCENT", value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub unready_above_percent: u32,

    /// Mean client count below which no server reports unready because of its load
    #[arg(long, env = "SIGNALING_UNREADY_MIN_CLIENTS", value_name = "CLIENTS", default_value_t = 500)]
    pub unready_min_clients: u64,
}

impl LoadReadinessArgs {
    /// Returns the settings, or `None` if readiness by load is off.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        (self.unready_above_percent > 0).then(|| Settings {
            above: f64::from(self.unready_above_percent) / 100.0,
            min_clients: self.unready_min_clients,
        })
    }
}
