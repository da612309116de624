//! The load harness: many clients that speak only the public protocol, and a count of what became of every message.
//!
//! It sends open-loop: each message has a time on a fixed schedule, and its latency counts from that time whether or
//! not the sender was late. A process runs on one thread, since it shares the machine with what it measures.
//!
//! It measures; it does not judge protocol details, and it does not reconnect: a closed socket is a finding. Only the
//! herd, and clients of [`drill::Load`] that are told to, come back.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `scenarios`, `outcome` | one file per scenario; each returns a report and what speaks against it |
//! | `traffic` | numbered messages between pairs of clients, and the books on them; shared by scenarios |
//! | `drill` | such traffic while something is done to the nodes; shared by scenarios |
//! | `calls`, `herd`, `churn` | calls being set up; all clients cut off at once; visitors that come and go |
//! | `hostile` | a crowd that means harm |
//! | `rooms` | rooms that visitors join and leave, one with a long line, and what that asks of the store |
//! | `crew` | one load put on by several processes |
//! | `compare` | the balancer beside other proxies, with the servers that this takes |
//! | `own_mesh` | a mesh that the harness starts for itself |
//! | `schedule`, `pairs`, `ledger`, `message` | pure: when, from whom to whom, what arrived, and how it is written |
//! | `route`, `backoff` | pure: which URL a client connects to; how long it waits before it tries again |
//! | `wire` | TCP, or TLS over it |
//! | `client`, `fleet` | one socket; many of them, opened at a bounded rate |
//! | `ticker`, `clock`, `settle` | what the sender follows; the time of a run, and its end |
//! | `common`, `merge` | what one process finds, and how it is added to what others find |
//! | `latency`, `timeline` | percentiles; the same second by second |
//! | `watch`, `costs`, `procfs`, `metrics` | CPU and memory of the servers' processes; what servers say of themselves |
//! | `report_page`, `progress` | the HTML report; the progress bar on the terminal |

pub mod compare;
pub mod drill;
pub mod options;
pub mod outcome;
pub mod scenarios;

mod backoff;
mod calls;
mod churn;
mod client;
mod clock;
mod common;
mod costs;
mod crew;
mod fleet;
mod herd;
mod hostile;
mod latency;
mod ledger;
mod limits;
mod merge;
mod message;
mod metrics;
mod own_mesh;
mod pairs;
mod procfs;
mod progress;
mod report_page;
mod rooms;
mod route;
mod schedule;
mod settle;
#[cfg(test)]
mod testing;
mod ticker;
mod timeline;
mod traffic;
mod watch;
mod wire;

pub use limits::raise_descriptor_limit;
