//! The load harness: many clients that speak only the public protocol, and a count of what became of every message.
//!
//! It sends open-loop: each message has a time on a fixed schedule, and its latency counts from that time whether or
//! not the sender was late. Everything runs on one thread, since it shares the machine with what it measures.
//!
//! It measures; it does not judge protocol details, and it does not reconnect: a closed socket is a finding. Only
//! clients of [`drill::Load`] may be told to come back.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `scenarios`, `outcome` | one file per scenario; each returns a report and what speaks against it |
//! | `traffic` | numbered messages between pairs of clients, and the books on them; shared by scenarios |
//! | `drill` | such traffic while something is done to the nodes; shared by scenarios |
//! | `compare` | the balancer beside other proxies, with the servers that this takes |
//! | `schedule`, `pairs`, `ledger`, `message` | pure: when, from whom to whom, what arrived, and how it is written |
//! | `route` | pure: which URL a client connects to |
//! | `client`, `fleet` | one socket; many of them, opened at a bounded rate |
//! | `ticker`, `clock` | what the sender follows; the time of a run |
//! | `latency`, `costs`, `procfs` | percentiles; CPU and memory of the servers' processes |

pub mod compare;
pub mod drill;
pub mod options;
pub mod outcome;
pub mod scenarios;

mod client;
mod clock;
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
mod traffic;

pub use limits::raise_descriptor_limit;
