use clap::ValueEnum;
use serde::Serialize;

/// A server under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Contestant {
    /// Our balancer.
    Balancer,
    /// nginx in front of the nodes' public listeners.
    Nginx,
    /// HAProxy in front of the nodes' public listeners.
    Haproxy,
    /// A server that writes each message back to its sender: the least that any server costs.
    Echo,
}

impl Contestant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Balancer => "balancer",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Echo => "echo",
        }
    }

    /// Returns `true` if it forwards messages to the nodes of the mesh.
    pub(super) fn has_nodes(self) -> bool {
        self != Self::Echo
    }
}

/// Returns the order of a round, which begins with another contestant each time.
pub(super) fn order(contestants: &[Contestant], round: u32) -> Vec<Contestant> {
    let mut order = contestants.to_vec();
    let first = round as usize % order.len().max(1);
    order.rotate_left(first);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_begin_with_each_contestant_in_turn() {
        let all = Contestant::value_variants();
        for (round, first) in (0..).zip(all) {
            let mut order = order(all, round);
            assert_eq!(order[0], *first);
            order.sort_unstable();
            assert_eq!(order, all);
        }
    }
}
