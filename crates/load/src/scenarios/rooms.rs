//! Clients join and leave rooms and wait for a full one: times, and store commands.

use anyhow::Result;
use clap::Args;

use crate::fleet::FleetOptions;
use crate::report::Report;
use crate::rooms::{RoomOptions, play};

/// Options of `mesh-load rooms`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Servers, and clients without those of the waiting queue.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Rooms.
    #[command(flatten)]
    pub rooms: RoomOptions,
}

/// Runs the scenario in one process, since a room is judged by what all its members receive.
///
/// # Errors
/// When the options do not fit together, the clients cannot connect or join, or the store does not answer.
pub async fn run(options: &Options) -> Result<Report> {
    play(&options.fleet, &options.rooms).await
}
