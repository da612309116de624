//! One file per scenario.

pub mod crash;
pub mod idle;
pub mod rescale;
pub mod steady;

use anyhow::Result;
use clap::Subcommand;

use crate::fleet::FleetOptions;
use crate::outcome::Outcome;

/// One scenario with its options.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// Pairs of clients exchange numbered messages at a fixed rate.
    Steady(steady::Options),
    /// Clients that only hold their sockets: what each of them costs.
    Idle(idle::Options),
    /// The steady load while nodes are added and taken away.
    Rescale(rescale::Options),
    /// The steady load while nodes are killed, paused, drained, replaced or restarted.
    Crash(crash::Options),
}

impl Scenario {
    /// Where its clients connect.
    #[must_use]
    pub fn fleet(&self) -> &FleetOptions {
        match self {
            Self::Steady(options) => &options.fleet,
            Self::Idle(options) => &options.fleet,
            Self::Rescale(options) => &options.fleet,
            Self::Crash(options) => &options.fleet,
        }
    }

    /// Runs it, on one thread: it has to be called within a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// When the options do not fit together, the clients cannot connect, or the mesh cannot be acted on.
    pub async fn run(&self) -> Result<Outcome> {
        match self {
            Self::Steady(options) => steady::run(options).await,
            Self::Idle(options) => idle::run(options).await,
            Self::Rescale(options) => rescale::run(options).await,
            Self::Crash(options) => crash::run(options).await,
        }
    }
}
