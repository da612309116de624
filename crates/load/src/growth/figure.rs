use std::collections::BTreeMap;

use serde::Serialize;

use super::point::Curve;
use crate::compare::short;

/// What is read at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    /// CPU time of all balancers per message, microseconds.
    BalancersUs,
    /// CPU time of all nodes per message, microseconds.
    NodesUs,
    /// Latency, milliseconds.
    P50Ms,
    /// Latency, milliseconds.
    P99Ms,
    /// Memory of all balancers per idle client, bytes.
    BalancersBytes,
    /// Memory of all nodes per idle client, bytes.
    NodesBytes,
    /// The generator's own CPU time per message, microseconds. It writes and reads as many frames of clients on as many
    /// sockets as the balancers do, so what the machine adds at one time or another it adds to both.
    GeneratorUs,
    /// The balancers' CPU time by the generator's.
    BalancersByGenerator,
    /// The nodes' CPU time by the generator's.
    NodesByGenerator,
    /// Sessions that moved when a node joined, or left.
    JoinMoved,
    /// From the order to scale until the last had moved, milliseconds: the start of the node is in it.
    JoinMs,
    /// From the signal to end until the last had moved, milliseconds.
    LeaveMs,
    /// The higher p99 of those who did not move, of both, milliseconds.
    UnmovedP99Ms,
}

pub(super) type Figures = BTreeMap<Figure, f64>;

/// One plot.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) lines: &'static [Figure],
}

const COSTS: Plot =
    Plot { title: "CPU per message", unit: "µs", lines: &[Figure::BalancersUs, Figure::NodesUs, Figure::GeneratorUs] };
const RATIOS: Plot = Plot {
    title: "CPU by the generator's own",
    unit: "times",
    lines: &[Figure::BalancersByGenerator, Figure::NodesByGenerator],
};
const LATENCY: Plot = Plot { title: "Latency", unit: "ms", lines: &[Figure::P50Ms, Figure::P99Ms] };
const MEMORY: Plot =
    Plot { title: "Memory per idle client", unit: "bytes", lines: &[Figure::BalancersBytes, Figure::NodesBytes] };
const HANDOFF: Plot =
    Plot { title: "Until the last session has moved", unit: "ms", lines: &[Figure::JoinMs, Figure::LeaveMs] };
const UNMOVED: Plot = Plot { title: "Latency of those who do not move", unit: "ms", lines: &[Figure::UnmovedP99Ms] };

impl Figure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BalancersUs | Self::BalancersBytes | Self::BalancersByGenerator => "balancers",
            Self::NodesUs | Self::NodesBytes | Self::NodesByGenerator => "nodes",
            Self::P50Ms => "p50",
            Self::P99Ms | Self::UnmovedP99Ms => "p99",
            Self::GeneratorUs => "generator",
            Self::JoinMoved => "moved",
            Self::JoinMs => "a node joins",
            Self::LeaveMs => "a node leaves",
        }
    }

    /// The head of its column.
    fn head(self) -> &'static str {
        match self {
            Self::BalancersUs => "balancers, µs a message",
            Self::NodesUs => "nodes, µs a message",
            Self::P50Ms => "p50, ms",
            Self::P99Ms => "p99, ms",
            Self::BalancersBytes => "balancers, bytes a client",
            Self::NodesBytes => "nodes, bytes a client",
            Self::GeneratorUs => "generator, µs a message",
            Self::BalancersByGenerator => "balancers by generator",
            Self::NodesByGenerator => "nodes by generator",
            Self::JoinMoved => "moved each time",
            Self::JoinMs => "a node joins, ms",
            Self::LeaveMs => "a node leaves, ms",
            Self::UnmovedP99Ms => "p99 of the unmoved, ms",
        }
    }
}

impl Curve {
    /// The columns of its table.
    pub(super) fn columns(self) -> Vec<(Figure, &'static str)> {
        let under_load = [
            Figure::BalancersUs,
            Figure::NodesUs,
            Figure::GeneratorUs,
            Figure::BalancersByGenerator,
            Figure::NodesByGenerator,
            Figure::P50Ms,
            Figure::P99Ms,
        ];
        let figures = match self {
            Self::Clients => [under_load.as_slice(), &[Figure::BalancersBytes, Figure::NodesBytes]].concat(),
            Self::Nodes | Self::Sizes => under_load.into(),
            Self::Handoffs => vec![Figure::JoinMoved, Figure::JoinMs, Figure::LeaveMs, Figure::UnmovedP99Ms],
        };
        figures.into_iter().map(|figure| (figure, figure.head())).collect()
    }

    pub(super) fn plots(self) -> &'static [Plot] {
        match self {
            Self::Clients => &[COSTS, RATIOS, LATENCY, MEMORY],
            Self::Nodes | Self::Sizes => &[COSTS, RATIOS, LATENCY],
            Self::Handoffs => &[HANDOFF, UNMOVED],
        }
    }
}

/// What was found at a point, in one line.
pub(super) fn line(figures: &Figures) -> String {
    figures.iter().map(|(figure, value)| format!("{} {}", figure.head(), short(*value))).collect::<Vec<_>>().join("; ")
}
