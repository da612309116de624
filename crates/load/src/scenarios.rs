//! The command line. Scenarios with modules of their own are in `drill`, `hostile`, `rooms` and
//! `compare`.

pub mod calls;
pub mod idle;
pub mod steady;

use std::path::Path;

use anyhow::Result;
use clap::{Parser, Subcommand};
use futures_util::future::LocalBoxFuture;

use crate::report::Report;
use crate::{compare, drill, hostile, rooms};

/// Puts load on a signaling mesh and counts lost, duplicated and reordered messages.
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
    /// Steady load while a script scales, kills, pauses, drains, replaces or restarts servers, or
    /// cuts client sockets or lanes
    Drill(drill::Options),
    /// Steady load and visits of rooms beside slow handshakes, clients that never read, and clients
    /// that make rooms
    Hostile(hostile::Options),
    /// Clients join and leave rooms and wait for a full one: join time and event delay
    Rooms(rooms::Options),
    /// Balancer, nginx and HAProxy in turn, or the balancer and the server of npm's `peer` or
    /// `y-webrtc`: CPU per message, latency, highest rate, memory
    Compare(compare::Options),
}

impl Scenario {
    /// Returns the file for the report as JSON, if any (`-`: standard output), and the sockets of
    /// one process. With several processes the largest may have two more.
    pub fn json_and_sockets(&self) -> (Option<&Path>, u64) {
        let (fleet, sockets) = match self {
            Self::Steady(it) => (&it.fleet, it.workers.clients_of_one(it.fleet.clients)),
            Self::Calls(it) => (&it.fleet, it.workers.clients_of_one(it.fleet.clients)),
            Self::Idle(it) => (&it.fleet, it.workers.clients_of_one(it.fleet.clients)),
            Self::Drill(it) => (&it.fleet, it.fleet.clients),
            Self::Hostile(it) => (&it.fleet, it.fleet.clients + it.further_sockets()),
            Self::Rooms(it) => (&it.fleet, it.fleet.clients + it.waiting),
            Self::Compare(it) => return (it.json.as_deref(), it.max_clients().into()),
        };
        (fleet.json.as_deref(), sockets.into())
    }

    /// Runs it to its end. Returns `None` in a worker, a process of `--processes`, which prints its
    /// counts. Panics outside a [`tokio::task::LocalSet`] of a runtime with I/O and time.
    ///
    /// # Errors
    /// If options conflict, clients cannot connect, servers cannot be started or measured, or a
    /// worker fails. SIGINT or SIGTERM during `compare` is one too. A fault of the mesh is no
    /// error, but a failure in the report.
    pub fn run(&self) -> LocalBoxFuture<'_, Result<Option<Report>>> {
        // Boxed, so that the scenarios are compiled here and not again with each caller.
        Box::pin(async move {
            match self {
                Self::Steady(options) => steady::run(options).await,
                Self::Calls(options) => calls::run(options).await,
                Self::Idle(options) => idle::run(options).await,
                Self::Drill(options) => drill::run(options).await.map(Some),
                Self::Hostile(options) => hostile::run(options).await.map(Some),
                Self::Rooms(options) => rooms::visit(options, async { Ok(()) }).await.map(|(report, _)| Some(report)),
                Self::Compare(options) => compare::run(options).await.map(Some),
            }
        })
    }
}
