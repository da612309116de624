use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::fleet::{FleetOptions, Via};

/// How the clients are cut off, and what is asked of their return.
#[derive(Clone, Debug, Args)]
pub struct HerdOptions {
    /// How long the balancers are away.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(..=600_000))]
    pub away_ms: u64,
    /// Have the clients drop their sockets and leave the balancers alone; without --dir there is no other way.
    #[arg(long)]
    pub by_clients: bool,
    /// How long all are connected before the cut.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub before: u64,
    /// How long to wait for all to be back.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub patience: u64,
    /// Decides what the clients draw.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Fail when the last client is back later than this after the return of the balancers.
    #[arg(long)]
    pub max_return_ms: Option<u64>,
    /// Fail when the fullest node has more than so many times the mean.
    #[arg(long, value_name = "FACTOR")]
    pub max_unevenness: Option<f64>,
}

impl HerdOptions {
    pub(crate) fn check(&self, fleet: &FleetOptions) -> Result<()> {
        if fleet.via == Via::Nodes && !self.by_clients {
            bail!("this scenario cuts off balancers: with --via nodes say --by-clients");
        }
        Ok(())
    }

    /// Whether the clients drop their sockets themselves.
    pub(crate) fn is_cut_by_clients(&self, fleet: &FleetOptions) -> bool {
        self.by_clients || fleet.dir.is_none()
    }

    pub(crate) fn before(&self) -> Duration {
        Duration::from_secs(self.before)
    }

    pub(crate) fn away(&self) -> Duration {
        Duration::from_millis(self.away_ms)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}
