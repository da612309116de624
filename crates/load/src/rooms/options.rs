use anyhow::{Result, ensure};
use clap::Args;

use crate::exchange::RunOptions;
use crate::fleet::FleetOptions;

/// Changes of one visitor are at least so far apart, so that each is seen by itself: servers gather
/// those of a fifth of a second.
const SECONDS_BETWEEN: u64 = 1;

/// Options of `mesh-load rooms`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Servers, and clients without those of the waiting queue.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Rooms that the clients are spread over.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rooms: u32,
    /// How many percent of a room's clients come and go; the others stay and listen, at least one.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(..=100))]
    pub visitors: u32,
    /// Changes a second: a visitor joins, or leaves.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// Duration and seed.
    #[command(flatten)]
    pub run: RunOptions,
    /// Further clients, who all want into one more room. Its seats are set through a node of --dir.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub line: u32,
    /// How many that room takes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seats: u32,
    /// How many leave it a second, so that others are let in.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub line_rate: u64,
    /// Fail when the 99th percentile of the time of a join is above this.
    #[arg(long)]
    pub max_join_p99_ms: Option<f64>,
    /// Fail when the 99th percentile of the time until others hear of a change is above this.
    #[arg(long)]
    pub max_event_p99_ms: Option<f64>,
    /// Fail when the memory of a process or the keys of the store grow by more than this during the
    /// run, in percent.
    #[arg(long, value_name = "PERCENT")]
    pub max_growth: Option<f64>,
}

impl Options {
    /// Whether the numbers fit together.
    pub(crate) fn check(&self, visitors: usize) -> Result<()> {
        let (rooms, clients) = (self.rooms, self.fleet.clients);
        ensure!(rooms <= clients, "--rooms {rooms} are more than there are --clients {clients}");
        ensure!(
            visitors as u64 >= self.rate * SECONDS_BETWEEN,
            "--rate {} is more than a change a second of each of {visitors} visitors: take more --clients or --visitors",
            self.rate
        );
        ensure!(
            self.line == 0 || self.fleet.dir.is_some(),
            "--line needs --dir: a room's seats are set through a node, and are no matter of clients"
        );
        let admitted = u64::from(self.seats) + self.line_rate * (self.run.warmup + self.run.seconds);
        ensure!(
            self.line == 0 || u64::from(self.line) > admitted,
            "--line {} is over before the run is: with {} --seats and --line-rate {} it takes more than {admitted}",
            self.line,
            self.seats,
            self.line_rate
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    fn check(arguments: &[&str], visitors: usize) -> Option<String> {
        let checked = options::<Options>(arguments).unwrap().check(visitors);
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn conflicting_options_are_named() {
        assert_eq!(check(&[], 500), None);
        assert!(check(&["--rooms=2000"], 500).unwrap().contains("--rooms 2000"));
        assert!(check(&["--rate=501"], 500).unwrap().contains("--rate 501"));
        assert!(check(&["--line=1000"], 500).unwrap().contains("needs --dir"));
        let line = ["--dir=x", "--line=100", "--line-rate=3", "--seconds=27"];
        assert!(check(&line, 500).unwrap().contains("more than 100"));
        assert_eq!(check(&["--dir=x", "--line=101", "--line-rate=3", "--seconds=27"], 500), None);
    }
}
