//! One file per scenario.

pub mod calls;
pub mod churn;
pub mod crash;
pub mod herd;
pub mod hostile;
pub mod idle;
pub mod rescale;
pub mod rooms;
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
    /// Calls are set up at a fixed rate: offers, answers and candidates between two clients, then quiet.
    Calls(calls::Options),
    /// Clients that only hold their sockets: what each of them costs.
    Idle(idle::Options),
    /// All clients are cut off at once and come back.
    Herd(herd::Options),
    /// The steady load beside a crowd that means harm: slow handshakes, and clients that never read.
    Hostile(hostile::Options),
    /// Visitors connect, say something and leave; what the servers keep of that.
    Churn(churn::Options),
    /// Visitors join and leave rooms, and wait in line for one more: how long that takes, and what it asks of the store.
    Rooms(rooms::Options),
    /// The steady load while nodes are added and taken away.
    Rescale(rescale::Options),
    /// The steady load while nodes are killed, paused, drained, replaced or restarted.
    Crash(crash::Options),
    /// The balancer beside other proxies in front of the same nodes: what each costs, and how fast it is.
    Compare(compare::Options),
}

impl Scenario {
    /// Where the report goes as JSON.
    #[must_use]
    pub fn json(&self) -> Option<&Path> {
        match self {
            Self::Compare(options) => options.json.as_deref(),
            other => other.fleet()?.json.as_deref(),
        }
    }

    /// Where the report goes as a page with plots.
    #[must_use]
    pub fn html(&self) -> Option<&Path> {
        self.fleet()?.html.as_deref()
    }

    /// Where its clients connect, if that is for the command line to say.
    fn fleet(&self) -> Option<&FleetOptions> {
        match self {
            Self::Steady(options) => Some(&options.fleet),
            Self::Calls(options) => Some(&options.fleet),
            Self::Idle(options) => Some(&options.fleet),
            Self::Herd(options) => Some(&options.fleet),
            Self::Hostile(options) => Some(&options.fleet),
            Self::Churn(options) => Some(&options.fleet),
            Self::Rooms(options) => Some(&options.fleet),
            Self::Rescale(options) => Some(&options.fleet),
            Self::Crash(options) => Some(&options.fleet),
            Self::Compare(_) => None,
        }
    }

    /// How many sockets one process opens for it.
    #[must_use]
    pub fn sockets(&self) -> u64 {
        let clients = self.fleet().map_or(0, |fleet| fleet.clients);
        let of_one = match self {
            Self::Steady(options) => options.crew.clients_of_one(clients),
            Self::Calls(options) => options.crew.clients_of_one(clients),
            Self::Idle(options) => options.crew.clients_of_one(clients),
            Self::Herd(options) => options.crew.clients_of_one(clients),
            Self::Churn(options) => options.crew.clients_of_one(clients) + options.churn.at_once,
            Self::Hostile(options) => clients + options.crowd.sockets(),
            Self::Rooms(options) => clients + options.rooms.line,
            Self::Rescale(_) | Self::Crash(_) => clients,
            Self::Compare(options) => options.most_clients(),
        };
        of_one.into()
    }

    /// Runs it, on one thread: it has to be called within a [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// When the options do not fit together, the clients cannot connect, or the mesh cannot be acted on.
    pub async fn run(&self) -> Result<Outcome> {
        match self {
            Self::Steady(options) => steady::run(options).await,
            Self::Calls(options) => calls::run(options).await,
            Self::Idle(options) => idle::run(options).await,
            Self::Herd(options) => herd::run(options).await,
            Self::Hostile(options) => hostile::run(options).await,
            Self::Churn(options) => churn::run(options).await,
            Self::Rooms(options) => rooms::run(options).await,
            Self::Rescale(options) => rescale::run(options).await,
            Self::Crash(options) => crash::run(options).await,
            Self::Compare(options) => compare::run(options).await,
        }
    }
}
