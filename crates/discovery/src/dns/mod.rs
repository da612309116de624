//! Nodes as DNS names them, for meshes without Kubernetes: one name that has an address record for each node, or a service
//! name that has an SRV record for each (RFC 2782).
//!
//! The name is asked for again when its records' time to live is over, though never more than once a second, nor less than every half
//! minute. No answer keeps the last view; so does an answer without records.
//!
//! An answer may lack a record by chance. So a node leaves the view only when a second answer lacks its record too, one that was given
//! when the first was valid no more (five minutes count as long enough): until then somebody between may just have repeated the first.
//! A name of which each answer shows another choice of records still cannot be followed. DNS does not say that a node drains: it
//! says that itself.
//!
//! | records | the node's id |
//! |---|---|
//! | A; AAAA where there is no A | its IP address |
//! | SRV | the first label of its target: `node-0` of `node-0.nodes.example.com` |
//!
//! A record that names no node is passed over. Of one id at several places the least counts, so that all servers agree.

mod poller;
mod query;
mod records;

use std::net::SocketAddr;
use std::time::Duration;

pub use query::DnsQuery;

pub(crate) use poller::Poller;

/// How DNS is asked.
#[derive(Debug, Clone)]
pub struct DnsSettings {
    /// The servers to ask. None: those of the system (`/etc/resolv.conf`), with its search list.
    pub servers: Vec<SocketAddr>,
    /// How long an answer may take, retries included.
    pub answer: Duration,
    /// The shortest time between two questions.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            answer: Duration::from_secs(10),
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        }
    }
}
