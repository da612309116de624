//! Visitors join and leave rooms, and wait in line for one more: how long that takes, and what it asks of the store.

use anyhow::Result;
use clap::Args;
use tokio::sync::oneshot;

use crate::fleet::FleetOptions;
use crate::report::Report;
use crate::rooms::{RoomOptions, play};
use crate::watch::{Usages, Watch};

/// What `mesh-load rooms` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect; these are all but those of the line.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What rooms there are.
    #[command(flatten)]
    pub rooms: RoomOptions,
}

/// Runs the scenario, in one process: rooms are judged by what all of their members hear.
///
/// # Errors
/// When the options do not fit together, the clients cannot connect or are not let into their rooms, or the store of `--dir` does
/// not answer.
pub async fn run(options: &Options) -> Result<Report> {
    let Options { fleet, rooms } = options;
    let watch = Watch::new(fleet);
    let ((begins, begun), (load_lasts, over)) = (oneshot::channel(), oneshot::channel());
    let load = async {
        let played = play(fleet, rooms, &watch, begins).await;
        drop(load_lasts);
        played
    };
    let beside = async { if begun.await.is_ok() { watch.run(over).await } else { Usages::default() } };
    let (played, usages) = tokio::join!(load, beside);
    let mut report = played?.report(fleet, rooms);
    report.set("usage", usages.lines());
    Ok(report)
}
