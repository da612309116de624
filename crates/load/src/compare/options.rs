use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::contestant::Contestant;
use crate::message::Size;

/// Options of `mesh-load compare`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds of all measurements.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Messages per second of all clients together; a comma-separated list.
    #[arg(long, value_delimiter = ',', default_values_t = [2_000, 10_000, 30_000],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rates: Vec<u64>,
    /// Message data: ice (200 bytes), sdp (3,000), varied, or a number of bytes; a comma-separated
    /// list.
    #[arg(long, value_delimiter = ',', default_value = "ice,sdp")]
    pub sizes: Vec<Size>,
    /// Measured time of each size and rate, in seconds, after a warm-up of 1 s.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Number of clients that send.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub clients: u32,
    /// Number of idle clients for the memory measurement.
    #[arg(long, default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub idle_clients: u32,
    /// Time from the connection of the idle clients to the memory reading, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub hold: u64,
    /// Number of clients for the connection rate.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connects: u32,
    /// First rate of the search for the highest rate, in messages per second; 0 skips the search.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub search_from: u64,
    /// Contestants; a comma-separated list.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [
        Contestant::Balancer, Contestant::Nginx, Contestant::Haproxy, Contestant::Echo])]
    pub only: Vec<Contestant>,
    /// Directory of signaling-node, signaling-balancer and mesh-echo [default: the one of this
    /// program].
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// File for all figures as JSON; - prints them to standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) size: Size,
    pub(super) rate: u64,
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
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if !self.clients.is_multiple_of(2) {
            bail!("--clients is odd: clients come in pairs");
        }
        Ok(())
    }

    /// Returns the maximum number of clients connected at the same time.
    pub(crate) fn most_clients(&self) -> u32 {
        self.clients.max(self.idle_clients).max(self.connects)
    }

    /// Returns each contestant once, in table order.
    pub(super) fn contestants(&self) -> Vec<Contestant> {
        let mut contestants = self.only.clone();
        contestants.sort_unstable();
        contestants.dedup();
        contestants
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        let rates = |size: &Size| {
            let size = *size;
            self.rates.iter().map(move |rate| Cell { size, rate: *rate })
        };
        self.sizes.iter().flat_map(rates).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn defaults_measure_all_at_three_rates_of_two_sizes() {
        let options: Options = options(&[]).unwrap();

        assert_eq!(options.contestants().len(), 4);
        let cells: Vec<_> = options.cells().iter().map(|cell| (cell.size, cell.rate)).collect();
        let rates = [2_000, 10_000, 30_000];
        let expected = [rates.map(|rate| (Size::Ice, rate)), rates.map(|rate| (Size::Sdp, rate))].concat();
        assert_eq!(cells, expected);
        assert_eq!(options.most_clients(), 9_000);
    }

    #[test]
    fn contestants_named_twice_and_odd_clients_are_noticed() {
        let options: Options = options(&["--only=nginx,balancer,nginx", "--clients=3"]).unwrap();

        assert_eq!(options.contestants(), [Contestant::Balancer, Contestant::Nginx]);
        assert!(options.check().unwrap_err().to_string().contains("--clients"));
    }
}
