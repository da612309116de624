//! How costs grow: the same load on meshes of different sizes, each started anew, and each point measured by the scenario
//! that users have for it, in a process of its own.
//!
//! | curve | what grows | what is read |
//! |---|---|---|
//! | `clients` | clients, at one rate of messages; further balancers where one has no more descriptors | CPU per message, latency, memory per client |
//! | `nodes` | nodes, at one rate | CPU per message, latency |
//! | `sizes` | bytes of a message, at one lower rate | CPU per message, latency |
//! | `handoffs` | sessions that move because a node joins, and leaves again | how long until all have moved |
//!
//! Costs that grow with the size of a mesh would show as a line that rises, and a limit as a bend. A measurement in which the
//! rate was not delivered, or a message was lost, does not count.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `point` | pure: which points a curve has |
//! | `figure` | pure: what is read at each |
//! | `probe` | starts a mesh for a point, and lets the other scenarios measure it |
//! | `report` | pure: medians, as tables and plots |

mod figure;
mod options;
mod point;
mod probe;
mod report;

pub use options::Options;
pub use point::Curve;

use anyhow::{Context, Result, bail};
use signaling_devmesh::Binaries;
use tokio::signal::unix::{SignalKind, signal};

use crate::outcome::Outcome;
use probe::probe;
use report::{Report, Run};

/// Measures all curves; when it is interrupted, nothing that it started is left.
///
/// # Errors
/// When a program is missing, or a mesh cannot be started.
pub(crate) async fn run(options: &Options) -> Result<Outcome> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    tokio::select! {
        outcome = measure(options) => outcome,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("interrupted"),
    }
}

async fn measure(options: &Options) -> Result<Outcome> {
    let binaries = Binaries::locate(options.bin_dir.as_deref())?;
    let points = options.points();
    let mut runs = Vec::new();
    for round in 0..options.rounds {
        for point in &points {
            let found = probe(&binaries, point, options.seconds).await?;
            let complaints = found.complaints.join("; ");
            eprintln!("round {}, {point}: {} {complaints}", round + 1, figure::line(&found.figures));
            runs.push(Run { point: *point, round, found });
        }
    }
    let report = Report::new(options, &points, runs);
    let table = report.table();
    if let Some(path) = &options.markdown {
        std::fs::write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let page = report.page();
    Ok(Outcome::new(table, &report, report.failures())?.with_page(page))
}
