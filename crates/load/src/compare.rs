//! The balancer beside other proxies: the same clients against each in turn, in front of the same
//! nodes. A machine's speed drifts by more than the proxies differ. So all servers run at the same
//! time, and each measurement visits all contestants before the next begins. Each round begins with
//! another contestant, and a ratio is the median of the rounds' ratios. A run with a failure, such
//! as a lost message or less than 98% delivered in time, does not count. The next one begins with
//! new servers.

mod contestant;
mod figures;
mod measure;
mod rounds;
mod testbed;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::message::{Size, Wire};
use crate::report::Report;
use contestant::Programs;
use figures::{Run, rows, table};
use rounds::measure_all;

pub use contestant::Contestant;

/// Options of `mesh-load compare`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds of all measurements (1 to 100)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Messages per second of all clients together (1 to 1,000,000), in topics before they are
    /// copied; a comma-separated list
    #[arg(long, value_delimiter = ',', default_values_t = [2_000, 10_000, 30_000],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rates: Vec<u64>,
    /// Size of a message's data: ice (200 bytes), sdp (3,000 bytes), varied (200 to 4,000 bytes),
    /// or a number of bytes, at most 60,000; a comma-separated list
    #[arg(long, value_delimiter = ',', default_value = "ice,sdp")]
    sizes: Vec<Size>,
    /// Measured time of each size and rate, in seconds (1 to 3,600), after a warm-up of 1 s
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Number of clients that send; a multiple of 2, or of --topic-members
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    clients: u32,
    /// Number of idle clients for the memory measurement
    #[arg(long, default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..))]
    idle_clients: u32,
    /// Time from the connection of the idle clients to the memory reading, in seconds (0 to 3,600)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    hold: u64,
    /// Number of clients for the connection rate
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..))]
    connects: u32,
    /// First rate of the search for the highest rate, in messages per second; 0 skips the search
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    search_from: u64,
    /// Wire protocol of the clients. They connect to the balancer, and with peerjs or y-webrtc
    /// also to the server of the npm package `peer` or `y-webrtc`
    #[arg(long, value_enum, default_value_t)]
    dialect: Wire,
    /// Number of clients of each topic of y-webrtc clients (2 to 100); a message is copied to all
    /// others
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100))]
    topic_members: u32,
    /// Contestants; a comma-separated list [default: all that speak the protocol]
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Contestant>,
    /// Directory of signaling-node and signaling-balancer [default: the one of this program]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// File for all figures as JSON; - prints them to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    size: Size,
    rate: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, rate } = self;
        match size {
            Size::Ice => write!(out, "ICE at {rate}/s"),
            Size::Sdp => write!(out, "SDP at {rate}/s"),
            Size::Varied => write!(out, "varied at {rate}/s"),
            Size::Bytes(bytes) => write!(out, "{bytes} bytes at {rate}/s"),
        }
    }
}

impl Options {
    pub(crate) fn max_clients(&self) -> u32 {
        self.clients.max(self.idle_clients).max(self.connects)
    }

    /// Returns the number of clients that form a pair or a topic.
    fn group_size(&self) -> u32 {
        if self.dialect == Wire::YWebrtc { self.topic_members } else { 2 }
    }

    /// Returns each contestant once, in table order.
    fn contestants(&self) -> Vec<Contestant> {
        let all = Contestant::serving(self.dialect);
        let mut contestants = if self.only.is_empty() { all.to_vec() } else { self.only.clone() };
        contestants.sort_unstable();
        contestants.dedup();
        contestants
    }

    fn cells(&self) -> Vec<Cell> {
        let cells = |size: Size| self.rates.iter().map(move |rate| Cell { size, rate: *rate });
        self.sizes.iter().copied().flat_map(cells).collect()
    }
}

/// Runs the comparison. Fails if clients or contestants do not fit the protocol, a program is
/// missing, or servers do not start or stop. Fails on SIGINT or SIGTERM too, which stops them all.
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
    let Options { rounds, seconds, clients, dialect, .. } = options;
    let (size, contestants) = (options.group_size(), options.contestants());
    ensure!(clients.is_multiple_of(size), "--clients {clients} is not a multiple of {size}");
    if let Some(foreign) = contestants.iter().find(|it| !Contestant::serving(*dialect).contains(it)) {
        bail!("--only {}: it does not serve the protocol of --dialect", foreign.name());
    }
    let programs = Programs::find(&contestants, options.bin_dir.as_deref())?;
    let runs = measure_all(options, &programs).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let uncounted = runs.iter().filter(|run| run.is_load && !run.found.is_valid()).count();
    let rows = rows(&runs);
    let table = table(&contestants, &rows);
    let mut report = Report::new("compare");
    let groups = if *dialect == Wire::YWebrtc {
        format!("topics of {size} and {} copies", size - 1)
    } else {
        "pairs".to_owned()
    };
    report.table = Some(format!(
        "{table}\nMedians of {rounds} rounds; ratios are the medians of the rounds' own ratios. {clients} clients in \
         {groups}, 3 nodes, {seconds} s each; {cores} cores for servers, proxies and generator. Loads that do not \
         count: {uncounted}.\n"
    ));
    report.set("rounds", rounds);
    report.set("seconds", seconds);
    report.set("clients", clients);
    report.set("dialect", dialect);
    report.set("group_size", size);
    report.set("rows", rows);
    report.set("runs", &runs);
    report.failures = failures(&contestants, &runs);
    Ok(report)
}

/// Returns the failures. A rate that is too high for a contestant is a result, unless it holds no
/// rate. Other measurements must succeed.
fn failures(contestants: &[Contestant], runs: &[Run]) -> Vec<String> {
    let counts = |contestant: &Contestant| {
        runs.iter().any(|run| run.is_load && run.contestant == *contestant && run.found.is_valid())
    };
    let failing = contestants.iter().filter(|contestant| !counts(contestant));
    let others = runs.iter().filter(|run| !run.is_load && !run.found.is_valid());
    let failure = |run: &Run| {
        let Run { contestant, round, what, found, .. } = run;
        format!("{}, {what}, round {}: {}", contestant.name(), round + 1, found.complaints.join("; "))
    };
    failing.map(|it| format!("{}: no run counts, at any rate", it.name())).chain(others.map(failure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    #[tokio::test]
    async fn unfit_clients_and_contestants_are_refused() {
        let cases: [(&[&str], &str); 4] = [
            (&["--clients=3"], "--clients 3 is not a multiple of 2"),
            (&["--clients=24", "--dialect=y-webrtc"], "--clients 24 is not a multiple of 10"),
            (&["--only=balancer,y-webrtc"], "--only y-webrtc"),
            (&["--only=peer", "--dialect=y-webrtc"], "--only peer"),
        ];
        for (arguments, expected) in cases {
            let error = compare(&options(arguments).unwrap()).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
