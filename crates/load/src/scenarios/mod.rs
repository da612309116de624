//! The command line: one file per scenario.

pub mod calls;
pub mod drill;
pub mod hostile;
pub mod idle;
pub mod steady;

use std::path::Path;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::fleet::FleetOptions;
use crate::report::Report;
use crate::{compare, rooms};

/// Puts load on a signaling mesh and counts what becomes of every message.
#[derive(Debug, Parser)]
#[command(name = "mesh-load", version)]
pub struct Cli {
    /// The load.
    #[command(subcommand)]
    pub scenario: Scenario,
}

/// One scenario with its options.
#[derive(Debug, Subcommand)]
pub enum Scenario {
    /// Pairs of clients exchange numbered messages at a fixed rate
    Steady(steady::Options),
    /// Pairs of clients set up calls at a fixed rate: offer, answer and candidates
    Calls(calls::Options),
    /// Clients hold open sockets without traffic: memory per client
    Idle(idle::Options),
    /// Steady load while a script scales, kills, pauses or restarts servers, or cuts client sockets
    Drill(drill::Options),
    /// Steady load beside slow handshakes and clients that never read
    Hostile(hostile::Options),
    /// Clients join and leave rooms and wait for a full one: times, and store commands
    Rooms(rooms::Options),
    /// Balancer, nginx, HAProxy and an echo server in turn: CPU per message, latency, highest rate,
    /// memory
    Compare(compare::Options),
}

impl Scenario {
    /// Returns the file for the report as JSON.
    #[must_use]
    pub fn json(&self) -> Option<&Path> {
        match self {
            Self::Compare(options) => options.json.as_deref(),
            other => other.fleet()?.json.as_deref(),
        }
    }

    fn fleet(&self) -> Option<&FleetOptions> {
        match self {
            Self::Steady(options) => Some(&options.fleet),
            Self::Calls(options) => Some(&options.fleet),
            Self::Idle(options) => Some(&options.fleet),
            Self::Drill(options) => Some(&options.fleet),
            Self::Hostile(options) => Some(&options.fleet),
            Self::Rooms(options) => Some(&options.fleet),
            Self::Compare(_) => None,
        }
    }

    /// Returns the number of sockets that one process opens.
    #[must_use]
    pub fn sockets(&self) -> u64 {
        let clients = self.fleet().map_or(0, |fleet| fleet.clients);
        let of_one = match self {
            Self::Steady(options) => options.workers.clients_of_one(clients),
            Self::Calls(options) => options.workers.clients_of_one(clients),
            Self::Idle(options) => options.workers.clients_of_one(clients),
            Self::Drill(_) => clients,
            Self::Hostile(options) => clients + options.crowd.sockets(),
            Self::Rooms(options) => clients + options.line,
            Self::Compare(options) => options.most_clients(),
        };
        of_one.into()
    }

    /// Runs it within a [`tokio::task::LocalSet`]. Returns `None` in a worker.
    ///
    /// # Errors
    /// When the options do not fit together, the clients cannot connect, or the mesh cannot be
    /// acted on.
    pub async fn run(&self) -> Result<Option<Report>> {
        match self {
            Self::Steady(options) => steady::run(options).await,
            Self::Calls(options) => calls::run(options).await,
            Self::Idle(options) => idle::run(options).await,
            Self::Drill(options) => drill::run(options).await.map(Some),
            Self::Hostile(options) => hostile::run(options).await.map(Some),
            Self::Rooms(options) => rooms::play(options).await.map(Some),
            Self::Compare(options) => compare::run(options).await.map(Some),
        }
    }
}
