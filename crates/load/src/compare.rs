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
//! | `figures`, `table` | pure: named figures, their medians and ratios, and how they are written |

mod certificate;
mod config;
mod contestant;
pub mod echo;
mod figures;
mod handshakes;
mod idle;
mod options;
mod programs;
mod rounds;
mod search;
mod server;
mod stage;
mod steady;
mod table;

#[cfg(test)]
pub(crate) use certificate::Certificate;
pub use contestant::Contestant;
pub use options::Options;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::Report;
use figures::{Run, rows};
use programs::Programs;
use rounds::{Results, play};

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
    let rows = rows(&results.runs);
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
    report.set("versions", &results.versions);
    report.set("repeated", results.repeated);
    report.set("runs", &results.runs);
    (report.table, report.failures) = (Some(table), failures);
    Ok(report)
}

/// How the figures came about.
fn caption(options: &Options, results: &Results) -> String {
    let Options { rounds, seconds, clients, .. } = options;
    let tls = if options.tls { " TLS 1.3 with ECDSA on P-256, between clients and fronts." } else { "" };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let repeated = results.repeated;
    let uncounted = results.runs.iter().filter(|run| run.is_load && !run.complaints.is_empty()).count();
    let versions: String = results.versions.values().map(|version| format!("; {version}")).collect();
    format!(
        "Medians of {rounds} rounds; ratios are the medians of the rounds' own ratios. {clients} clients in pairs, 3 \
         nodes, {seconds} s each; {cores} cores, which servers, proxies and generator share{versions}.{tls} Made again \
         because the machine's host disturbed it: {repeated} loads. Loads that do not count: {uncounted}.\n"
    )
}

/// A contestant without any load that counts cannot be compared; a rate that is too high for one is a finding. Other
/// measurements have to succeed.
fn failures(contestants: &[Contestant], results: &Results) -> Vec<String> {
    let is_load = |run: &&Run| run.is_load;
    let counts = |contestant: &Contestant| {
        results.runs.iter().filter(is_load).any(|run| run.contestant == *contestant && run.complaints.is_empty())
    };
    let failing = contestants.iter().filter(|contestant| !counts(contestant));
    let others = results.runs.iter().filter(|run| !is_load(run) && !run.complaints.is_empty());
    let failure = |run: &Run| {
        let Run { contestant, round, what, complaints, .. } = run;
        format!("{}, {what}, round {}: {}", contestant.name(), round + 1, complaints.join("; "))
    };
    failing.map(|it| format!("{}: no run counts, at any rate", it.name())).chain(others.map(failure)).collect()
}
