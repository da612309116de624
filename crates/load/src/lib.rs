//! The load harness: many clients that speak only the public protocol, and a count of what became of every message.
//!
//! It sends open-loop: each message has a time on a fixed schedule, and its latency counts from that time whether or
//! not the sender was late. Everything runs on one thread, since it shares the machine with what it measures.
//!
//! It measures; it does not judge protocol details, and it does not reconnect: a closed socket is a finding.
//!
//! | module | what it does |
//! |---|---|
//! | `scenarios` | one file per scenario; each returns a report and what speaks against it |
//! | `schedule`, `pairs`, `ledger`, `message` | pure: when, from whom to whom, what arrived, and how it is written |
//! | `route` | pure: which URL a client connects to |
//! | `client`, `fleet` | one socket; many of them, opened at a bounded rate |
//! | `ticker` | the clock that the sender follows |
//! | `latency`, `costs`, `procfs` | percentiles; CPU and memory of the servers' processes |

pub mod options;
pub mod scenarios;

mod client;
mod costs;
mod fleet;
mod latency;
mod ledger;
mod limits;
mod message;
mod pairs;
mod procfs;
mod route;
mod schedule;
mod ticker;

pub use limits::raise_descriptor_limit;
