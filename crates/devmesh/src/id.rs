//! Names of the servers of a local mesh, for commands, files and logs.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result};

/// Name of one server of a local mesh. Sorted by kind, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ServerId {
    /// `balancer-N`, without leading zeros.
    Balancer(u32),
    /// `node-N`, without leading zeros.
    Node(u32),
}

impl fmt::Display for ServerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balancer(number) => write!(out, "balancer-{number}"),
            Self::Node(number) => write!(out, "node-{number}"),
        }
    }
}

impl FromStr for ServerId {
    type Err = anyhow::Error;

    /// Fails if `text` is not exactly as [`fmt::Display`] writes an id.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = match text.split_once('-') {
            Some(("node", number)) => number.parse().ok().map(Self::Node),
            Some(("balancer", number)) => number.parse().ok().map(Self::Balancer),
            _ => None,
        };
        let parsed = parsed.filter(|id| id.to_string() == text);
        parsed.with_context(|| format!("{text:?} is not a server id; use node-N or balancer-N"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_id_has_one_spelling_and_sorts_by_number() {
        for id in [ServerId::Balancer(0), ServerId::Node(12)] {
            assert_eq!(id.to_string().parse::<ServerId>().ok(), Some(id));
        }
        for text in ["", "node", "node-", "node-01", "node-+1", "Node-1", "server-0", "node-1 "] {
            assert!(text.parse::<ServerId>().is_err(), "{text:?} was taken");
        }
        assert!(ServerId::Node(10) > ServerId::Node(9));
    }
}
