use std::path::PathBuf;

use clap::Args;

use super::point::{Curve, Point};

/// What `mesh-load growth` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How often every point is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long the load of a point is measured, after two seconds that do not count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Leave the other curves out.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [
        Curve::Clients, Curve::Nodes, Curve::Sizes, Curve::Handoffs])]
    pub only: Vec<Curve>,
    /// How many clients there are, point by point.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 300, 1_000, 3_000, 9_000, 18_000, 36_000],
          value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub clients: Vec<u32>,
    /// How many nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 5, 7, 10],
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub nodes: Vec<u32>,
    /// How many bytes a message has.
    #[arg(long, value_delimiter = ',', default_values_t = [200, 500, 1_000, 3_000, 10_000, 32_000],
          value_parser = clap::value_parser!(u32).range(100..=60_000))]
    pub sizes: Vec<u32>,
    /// How many sessions there are when a third node joins and leaves: a third of them moves each time.
    #[arg(long, value_delimiter = ',', default_values_t = [300, 1_000, 3_000, 9_000, 18_000],
          value_parser = clap::value_parser!(u32).range(10..=18_000))]
    pub sessions: Vec<u32>,
    /// Messages a second where clients or nodes grow.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// Messages a second where their sizes grow, or sessions move.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub low_rate: u64,
    /// Where signaling-node and signaling-balancer are [default: beside this program].
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
    /// Write all figures as JSON to this file, - for the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the tables to this file as well.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write a page with the curves to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Options {
    /// All points, curve by curve, in the order that tables have them.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut curves = self.only.clone();
        curves.sort_unstable();
        curves.dedup();
        let points = |curve: Curve| {
            let mut amounts = match curve {
                Curve::Clients => self.clients.clone(),
                Curve::Nodes => self.nodes.clone(),
                Curve::Sizes => self.sizes.clone(),
                Curve::Handoffs => self.sessions.clone(),
            };
            amounts.sort_unstable();
            amounts.dedup();
            amounts.into_iter().map(move |amount| Point::new(curve, amount, self.rate, self.low_rate))
        };
        curves.into_iter().flat_map(points).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn points_come_curve_by_curve_and_each_once() {
        let options: Options = options(&["--only=nodes,clients", "--clients=300,100,300", "--nodes=2,1"]).unwrap();

        let points: Vec<_> = options.points().iter().map(|point| (point.curve, point.amount)).collect();

        let expected = [(Curve::Clients, 100), (Curve::Clients, 300), (Curve::Nodes, 1), (Curve::Nodes, 2)];
        assert_eq!(points, expected);
    }
}
