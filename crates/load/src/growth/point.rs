use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    /// Clients, at one rate of messages.
    Clients,
    /// Nodes, at one rate.
    Nodes,
    /// Bytes of a message, at one rate.
    Sizes,
    /// Sessions, of which some move.
    Handoffs,
}

/// One mesh, and the load on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Point {
    pub(super) curve: Curve,
    /// Of what grows.
    pub(super) amount: u32,
    pub(super) balancers: u32,
    pub(super) nodes: u32,
    pub(super) clients: u32,
    pub(super) rate: u64,
    /// Bytes of a message.
    pub(super) size: u32,
}

/// Where nodes are not what grows.
const NODES: u32 = 3;
/// Where clients are not what grows.
const CLIENTS: u32 = 1_000;
/// Where the sizes of messages are not what grows: those of a candidate.
const SIZE: u32 = 200;
/// A process may have 20,000 descriptors on many a machine, balancers and load processes alike.
pub(super) const MOST_SOCKETS: u32 = 18_000;

impl Curve {
    /// What its amounts count.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Nodes => "nodes",
            Self::Sizes => "bytes",
            Self::Handoffs => "sessions",
        }
    }
}

impl Point {
    pub(super) fn new(curve: Curve, amount: u32, rate: u64, low_rate: u64) -> Self {
        let usual = Self { curve, amount, balancers: 1, nodes: NODES, clients: CLIENTS, rate, size: SIZE };
        match curve {
            Curve::Clients => Self { clients: even(amount), balancers: amount.div_ceil(MOST_SOCKETS), ..usual },
            Curve::Nodes => Self { nodes: amount, ..usual },
            Curve::Sizes => Self { size: amount, rate: low_rate, ..usual },
            // One joins and leaves.
            Curve::Handoffs => Self { clients: even(amount), nodes: NODES - 1, rate: low_rate, ..usual },
        }
    }
}

/// Clients come in pairs.
fn even(clients: u32) -> u32 {
    clients.next_multiple_of(2)
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.amount, self.curve.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_balancer_has_more_clients_than_descriptors() {
        let balancers =
            [100, 18_000, 18_001, 36_000].map(|clients| Point::new(Curve::Clients, clients, 1, 1).balancers);

        assert_eq!(balancers, [1, 1, 2, 2]);
    }

    #[test]
    fn clients_come_in_pairs() {
        assert_eq!(Point::new(Curve::Handoffs, 301, 1, 1).clients, 302);
    }
}
