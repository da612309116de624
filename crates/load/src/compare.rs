//! The balancer beside other proxies: the same clients against each in turn, in front of the same
//! nodes.
//!
//! A machine's speed drifts by more than the proxies differ. So all run at the same time, and each
//! measurement visits all contestants before the next begins. Each round begins with another
//! contestant, and a ratio is the median of the rounds' ratios. A run that lost a message or did
//! not deliver the whole rate does not count. The next one begins with new servers.
//!
//! | module | content |
//! |---|---|
//! | `options` | command line |
//! | `contestant` | servers under comparison, and their order in a round |
//! | `config` | pure: configurations of nginx and HAProxy |
//! | `programs`, `server` | their programs; a child process |
//! | `stage` | the nodes with contestants in front of them |
//! | `echo` | the minimum cost of a server: one read and one write per message |
//! | `steady`, `idle` | one measurement of one contestant: under a load, and with idle clients |
//! | `search` | pure: the next rate to try, to find the highest |
//! | `rounds` | all measurements, in alternation |
//! | `figures`, `table` | pure: named figures, their medians and ratios, and their text |

mod config;
mod contestant;
pub mod echo;
mod figures;
mod idle;
mod options;
mod programs;
mod rounds;
mod search;
mod server;
mod stage;
mod steady;
mod table;

pub use contestant::Contestant;
pub use options::Options;
#[cfg(test)]
pub(crate) use steady::Common;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::Report;
use figures::{Run, rows};
use programs::Programs;
use rounds::play;

/// Runs the comparison. An interrupt stops all servers.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    tokio::select! {
        outcome = compare(options) => outcome,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("interrupted"),
    }
}

async fn compare(options: &Options) -> Result<Report> {
    options.check()?;
    let contestants = options.contestants();
    let programs = Programs::find(&contestants, options.bin_dir.as_deref())?;
    let versions = programs.versions().await?;
    let runs = play(options, &programs).await?;
    let Options { rounds, seconds, clients, .. } = options;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let uncounted = runs.iter().filter(|run| run.is_load && !run.complaints.is_empty()).count();
    let (rows, listed) = (rows(&runs), versions.values().map(|version| format!("; {version}")).collect::<String>());
    let table = table::table(&contestants, &rows);
    let mut report = Report::new("compare");
    report.table = Some(format!(
        "{table}\nMedians of {rounds} rounds; ratios are the medians of the rounds' own ratios. {clients} clients in \
         pairs, 3 nodes, {seconds} s each; {cores} cores for servers, proxies and generator{listed}. Loads that do not \
         count: {uncounted}.\n"
    ));
    report.set("rounds", rounds);
    report.set("seconds", seconds);
    report.set("clients", clients);
    report.set("rows", rows);
    report.set("versions", versions);
    report.set("runs", &runs);
    report.failures = failures(&contestants, &runs);
    Ok(report)
}

/// Returns the failures. A rate that is too high for a contestant is a result, unless it holds no
/// rate. Other measurements must succeed.
fn failures(contestants: &[Contestant], runs: &[Run]) -> Vec<String> {
    let counts = |contestant: &Contestant| {
        runs.iter().any(|run| run.is_load && run.contestant == *contestant && run.complaints.is_empty())
    };
    let failing = contestants.iter().filter(|contestant| !counts(contestant));
    let others = runs.iter().filter(|run| !run.is_load && !run.complaints.is_empty());
    let failure = |run: &Run| {
        let Run { contestant, round, what, complaints, .. } = run;
        format!("{}, {what}, round {}: {}", contestant.name(), round + 1, complaints.join("; "))
    };
    failing.map(|it| format!("{}: no run counts, at any rate", it.name())).chain(others.map(failure)).collect()
}
