use std::fmt;
use std::str::FromStr;

/// The name of one server of a local mesh: `balancer-0`, `node-3`, `redis`. Sorted by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerId {
    /// `balancer-N`.
    Balancer(u32),
    /// `node-N`.
    Node(u32),
    /// The Redis that `--redis` starts.
    Redis,
}

impl fmt::Display for ServerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balancer(number) => write!(out, "balancer-{number}"),
            Self::Node(number) => write!(out, "node-{number}"),
            Self::Redis => out.write_str("redis"),
        }
    }
}

/// Error for a text that is not a server id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a server id; use node-N, balancer-N or redis")]
pub struct NotAServerId(String);

impl FromStr for ServerId {
    type Err = NotAServerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once('-') {
            None if text == "redis" => Some(Self::Redis),
            Some(("node", number)) => number.parse().ok().map(Self::Node),
            Some(("balancer", number)) => number.parse().ok().map(Self::Balancer),
            _ => None,
        };
        parsed.filter(|id| id.to_string() == text).ok_or_else(|| NotAServerId(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_id_parses_its_own_text() {
        for id in [ServerId::Balancer(0), ServerId::Node(12), ServerId::Redis] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn server_id_has_one_spelling() {
        for text in ["", "node", "node-", "node-01", "node-+1", "Node-1", "redis-0", "node-1 "] {
            assert!(text.parse::<ServerId>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn server_ids_sort_by_number() {
        assert!(ServerId::Node(10) > ServerId::Node(9));
    }
}
