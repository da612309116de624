use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde::{Serialize, Serializer};

use super::contestant::Contestant;
use crate::message::Size;

/// What `mesh-load compare` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How often everything is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Messages a second, of all clients together.
    #[arg(long, value_delimiter = ',', default_values_t = [2_000, 10_000, 30_000],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rates: Vec<u64>,
    /// What the messages are: ice (200 bytes), sdp (3,000), varied, or a number of bytes.
    #[arg(long, value_delimiter = ',', default_value = "ice,sdp")]
    pub sizes: Vec<Size>,
    /// How long each rate of each size is measured, after a second that does not count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Clients that send.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub clients: u32,
    /// Clients that only connect, to see what memory each costs.
    #[arg(long, default_value_t = 9_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub idle_clients: u32,
    /// How long these are held before the memory is read, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub hold: u64,
    /// Clients that connect as fast as they are let.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connects: u32,
    /// Everything over TLS 1.3: all fronts show one certificate, of ECDSA on P-256, and handshakes are measured too. Without the
    /// echo, which speaks no TLS.
    #[arg(long)]
    pub tls: bool,
    /// TLS handshakes of each kind: of clients that come for the first time, and of those that show a ticket.
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub handshakes: u32,
    /// The first rate of the search for the highest that is held; 0 leaves the search out.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub search_from: u64,
    /// Leave the others out.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [
        Contestant::Balancer, Contestant::Nginx, Contestant::Haproxy, Contestant::Echo])]
    pub only: Vec<Contestant>,
    /// Directory of signaling-node, signaling-balancer and mesh-echo [default: the one of this program].
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// Write all figures as JSON to this file, - for the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table to this file as well.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// A size and a rate, at which all are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Cell {
    #[serde(serialize_with = "name_of")]
    pub(super) size: Size,
    pub(super) rate: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}/s", name(self.size), self.rate)
    }
}

fn name(size: Size) -> String {
    match size {
        Size::Ice => "ICE".to_owned(),
        Size::Sdp => "SDP".to_owned(),
        Size::Varied => "varied".to_owned(),
        Size::Bytes(bytes) => format!("{bytes} bytes"),
    }
}

fn name_of<S: Serializer>(size: &Size, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&name(*size))
}

impl Options {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if !self.clients.is_multiple_of(2) {
            bail!("--clients is odd: clients come in pairs");
        }
        if self.contestants().is_empty() {
            bail!("--tls and --only leave nothing to compare: the echo speaks no TLS");
        }
        Ok(())
    }

    /// The most clients that are connected at the same time.
    pub(crate) fn most_clients(&self) -> u32 {
        self.clients.max(self.idle_clients).max(self.connects)
    }

    /// Each once, in the order that tables have them.
    pub(super) fn contestants(&self) -> Vec<Contestant> {
        let mut contestants = self.only.clone();
        contestants.sort_unstable();
        contestants.dedup();
        contestants.retain(|contestant| !self.tls || contestant.has_tls());
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
    use crate::testing;

    fn options(arguments: &[&str]) -> Options {
        testing::options(arguments).unwrap()
    }

    #[test]
    fn by_default_everybody_is_measured_at_three_rates_of_two_sizes() {
        let options = options(&[]);

        assert_eq!(options.contestants().len(), 4);
        let cells: Vec<_> = options.cells().iter().map(|cell| (cell.size, cell.rate)).collect();
        let rates = [2_000, 10_000, 30_000];
        let expected = [rates.map(|rate| (Size::Ice, rate)), rates.map(|rate| (Size::Sdp, rate))].concat();
        assert_eq!(cells, expected);
        assert_eq!(options.most_clients(), 9_000);
    }

    #[test]
    fn who_is_named_twice_takes_part_once() {
        assert_eq!(options(&["--only=nginx,balancer,nginx"]).contestants(), [Contestant::Balancer, Contestant::Nginx]);
    }

    #[test]
    fn who_speaks_no_tls_takes_no_part_in_it() {
        assert_eq!(options(&["--tls", "--only=echo,nginx"]).contestants(), [Contestant::Nginx]);
    }

    #[test]
    fn an_odd_number_of_clients_is_refused() {
        assert!(options(&["--clients=3"]).check().unwrap_err().to_string().contains("--clients"));
    }
}
