//! The load generator: many clients that speak only the public protocol, and a count of what became of every message.
//!
//! It sends open-loop: each message has a time on a fixed schedule, and its latency counts from that time whether or
//! not the sender was late. A process runs on one thread, since it shares the machine with what it measures.
//!
//! | module | content |
//! |---|---|
//! | `scenarios` | the command line; one file per scenario, which returns a [`report::Report`] |
//! | `exchange` | numbered messages between pairs of clients, by a workload; judges their delivery |
//! | `drill` | such an exchange while something is done to the mesh |
//! | `hostile`, `rooms`, `compare` | a crowd of harmful clients; room clients; the balancer beside other proxies |
//! | `record`, `report` | what one process found; text, JSON and page of it |
//! | `crew` | one load put on by several processes |
//! | `driver`, `schedule`, `ticker`, `clock` | the loop that sends by a schedule |
//! | `client`, `fleet`, `wire`, `route`, `backoff`, `message` | one socket; many of them; TCP or TLS; URLs; texts |
//! | `latency`, `timeline` | percentiles; the same second by second |
//! | `watch`, `costs`, `leftovers`, `procfs`, `metrics` | CPU and memory of the servers; their metrics pages |
//! | `own_mesh`, `report_page`, `progress` | a mesh of its own; the HTML page; the progress bar |

pub mod compare;
pub mod drill;
pub mod report;
pub mod scenarios;

mod backoff;
mod client;
mod clock;
mod costs;
mod crew;
mod driver;
mod exchange;
mod fleet;
mod hostile;
mod latency;
mod leftovers;
mod limits;
mod message;
mod metrics;
mod own_mesh;
mod procfs;
mod progress;
mod record;
mod report_page;
mod rooms;
mod route;
mod schedule;
#[cfg(test)]
mod testing;
mod ticker;
mod timeline;
mod watch;
mod wire;

pub use limits::raise_descriptor_limit;
