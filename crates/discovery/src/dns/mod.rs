//! Nodes from DNS: one address record or SRV record (RFC 2782) per node.
//! The name is resolved again when the TTL of its records ends, at most once per second and at
//! least every 30 s. A failed or empty answer keeps the last view. A node leaves only when two
//! answers lack its record, the second after the validity of the first (at most 5 min). Before that
//! a resolver may repeat the first. A name with changing subsets of nodes in its answers cannot be
//! followed. Nodes report themselves that they drain. Records name no zones.
//!
//! | records | node id |
//! |---|---|
//! | A; AAAA where there is no A | IP address |
//! | SRV | first label of the target: `node-0` of `node-0.nodes.example.com` |
//!
//! A record without a valid node is ignored. The smallest of an id's addresses counts: all agree.

mod poller;
mod query;
mod records;

use std::net::SocketAddr;
use std::time::Duration;

pub use query::DnsQuery;

pub(crate) use poller::Poller;

/// Settings of DNS queries. Servers use the defaults; tests use shorter times.
#[derive(Debug, Clone)]
pub struct DnsSettings {
    /// DNS servers, by UDP alone. Empty: the servers and search list of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Time limit for an answer, including retries.
    pub answer_timeout: Duration,
    /// Minimum time between an answer and the next query. Also the maximum wait after a first
    /// failed query. It doubles with each further failure, up to tenfold.
    pub min_interval: Duration,
    /// Maximum time between an answer or a failed query and the next query.
    pub max_interval: Duration,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            answer_timeout: Duration::from_secs(10),
            min_interval: Duration::from_secs(1),
            max_interval: Duration::from_secs(30),
        }
    }
}
