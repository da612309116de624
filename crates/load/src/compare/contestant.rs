use clap::ValueEnum;
use serde::Serialize;

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Contestant {
    /// Our balancer.
    Balancer,
    /// nginx in front of the nodes' public listeners.
    Nginx,
    /// HAProxy in front of the nodes' public listeners.
    Haproxy,
    /// A server that writes each message back to its sender, without any node: the floor of any server.
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

    /// Whether it is there to be compared with, and serves nobody.
    pub(super) fn is_floor(self) -> bool {
        self == Self::Echo
    }

    /// Whether it can be told to speak TLS.
    pub(super) fn has_tls(self) -> bool {
        !self.is_floor()
    }

    /// Whether it passes messages on to the mesh's nodes.
    pub(super) fn has_nodes(self) -> bool {
        !self.is_floor()
    }
}

/// The order of a round: each of them has its turn to be first.
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
    fn each_round_has_all_of_them_and_begins_with_another() {
        let all = Contestant::value_variants();

        let rounds: Vec<_> = (0..4).map(|round| order(all, round)).collect();

        let firsts: Vec<_> = rounds.iter().map(|order| order[0]).collect();
        assert_eq!(firsts, all);
        for mut round in rounds {
            round.sort_unstable();
            assert_eq!(round, all);
        }
    }

    #[test]
    fn one_alone_is_always_first() {
        assert_eq!(order(&[Contestant::Echo], 3), [Contestant::Echo]);
    }
}
