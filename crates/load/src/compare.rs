//! The balancer beside other proxies: the same clients against each in turn, in front of the same nodes.
//!
//! A machine's speed drifts by more than the proxies differ. So all run at the same time, each measurement goes once
//! round the contestants before the next begins, each round begins with another of them, and a ratio is the median of
//! the ratios of rounds. A run in which the front did not deliver the whole rate, or lost a message, does not count, and
//! the next one begins with new servers. One during which the machine's host gave a share of its time to others is made
//! again, whoever was measured.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `contestant` | who takes part, and in which order |
//! | `config` | pure: what nginx and HAProxy are told |
//! | `certificate`, `handshakes` | with `--tls`: what all of them show, and handshakes as fast as each takes them |
//! | `programs` | where the contestants' programs are |
//! | `server` | a child process that ends with us |
//! | `stage` | the nodes, with the contestants in front of them |
//! | `echo` | a floor: a server with one read and one write per message |
//! | `steady`, `idle` | one measurement of one contestant: under a load, and with clients that only connect |
//! | `search` | pure: which rate to try next, to find the highest that is held |
//! | `rounds` | all measurements, in alternation |
//! | `stats` | pure: medians, and ratios between contestants |
//! | `rows`, `table` | pure: what the figures say, and how it is written |

mod certificate;
mod config;
mod contestant;
pub mod echo;
mod handshakes;
mod idle;
mod options;
mod programs;
mod rounds;
mod rows;
mod search;
mod server;
mod stage;
mod stats;
mod steady;
mod table;

#[cfg(test)]
pub(crate) use certificate::Certificate;
pub use contestant::Contestant;
pub use options::Options;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::Report;
use programs::Programs;
use rounds::{Results, play};
use rows::rows;

/// Runs the comparison; when it is interrupted, nothing that it started is left.
///
/// # Errors
/// When the options do not fit together, a program is missing, or a server does not start.
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
    let results = play(options, &Programs::find(&contestants, options.bin_dir.as_deref())?).await?;
    let rows = rows(options, &results);
    let table = format!("{}\n{}", table::table(&contestants, &rows), caption(options, &results));
    if let Some(path) = &options.markdown {
        std::fs::write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failures = failures(&contestants, &results);
    let mut report = Report::new("compare");
    report.set("rounds", options.rounds);
    report.set("seconds", options.seconds);
    report.set("clients", options.clients);
    report.set("rows", rows);
    report.set_fields(&results);
    (report.table, report.failures) = (Some(table), failures);
    Ok(report)
}

/// How the figures came about.
fn caption(options: &Options, results: &Results) -> String {
    let Options { rounds, seconds, clients, .. } = options;
    let tls = if options.tls { " TLS 1.3 with ECDSA on P-256, between clients and fronts." } else { "" };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let repeated = results.repeated;
    let versions: String = results.versions.values().map(|version| format!("; {version}")).collect();
    format!(
        "Medians of {rounds} rounds; ratios are the medians of the rounds' own ratios. {clients} clients in pairs, 3 \
         nodes, {seconds} s each; {cores} cores, which servers, proxies and generator share{versions}.{tls} Made again \
         because the machine's host disturbed it: {repeated} loads.\n"
    )
}

/// Who has no run that counts at all cannot be compared; that a rate is too high for somebody is a finding.
fn failures(contestants: &[Contestant], results: &Results) -> Vec<String> {
    let fails = |contestant: &&Contestant| {
        let mut runs = results.steady.iter().filter(|run| run.contestant == **contestant);
        !runs.any(|run| run.found.counted().is_some())
    };
    let failure = |contestant: &Contestant| format!("{}: no run counts, at any rate", contestant.name());
    contestants.iter().filter(fails).map(failure).chain(results.complaints.iter().cloned()).collect()
}
