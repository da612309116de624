//! One file per scenario.

pub mod crash;
pub mod idle;
pub mod rescale;
pub mod steady;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;

use crate::compare;
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
    /// The balancer beside other proxies in front of the same nodes: what each costs, and how fast it is.
    Compare(compare::Options),
}

impl Scenario {
    /// The most clients that are connected at the same time.
    #[must_use]
    pub fn clients(&self) -> u32 {
        match self {
            Self::Compare(options) => options.most_clients(),
            other => other.fleet().map_or(0, |fleet| fleet.clients),
        }
    }

    /// Where the report goes as JSON.
    #[must_use]
    pub fn json(&self) -> Option<&Path> {
        match self {
            Self::Compare(options) => options.json.as_deref(),
            other => other.fleet()?.json.as_deref(),
        }
    }

    /// Where its clients connect, if that is for the command line to say.
    fn fleet(&self) -> Option<&FleetOptions> {
        match self {
            Self::Steady(options) => Some(&options.fleet),
            Self::Idle(options) => Some(&options.fleet),
            Self::Rescale(options) => Some(&options.fleet),
            Self::Crash(options) => Some(&options.fleet),
            Self::Compare(_) => None,
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
            Self::Compare(options) => compare::run(options).await,
        }
    }
}
