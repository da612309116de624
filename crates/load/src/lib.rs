//! The load generator: many clients of the public protocol, and the outcome of every message.
//! It sends open-loop: each message has a time on a fixed schedule. Its latency counts from that
//! time even if the sender was late. The load of a process runs on one thread, since it shares the
//! machine with the servers it measures. Only hostile clients have threads of their own.
//!
//! | module | content |
//! |---|---|
//! | `scenarios` | command line; `steady`, `calls`, `idle`; gives a [`report::Report`] |
//! | `exchange` | numbered messages between pairs of clients, and their delivery |
//! | `drill` | an exchange during faults of the mesh |
//! | `hostile`, `rooms`, `compare` | hostile clients; room clients; the balancer beside proxies |
//! | `record`, `report` | results of one process; their text and JSON |
//! | `workers` | one load of several processes |
//! | `driver`, `schedule` | the loop that sends by a schedule; the schedule and its clock |
//! | `client`, `fleet`, `message` | one socket; many; texts |
//! | `latency`, `servers` | percentiles; CPU time, memory and metrics of servers |
//! | `token` | tokens of clients |

pub mod compare;
pub mod drill;
pub mod report;
pub mod scenarios;

mod client;
mod driver;
mod exchange;
mod fleet;
mod hostile;
mod latency;
mod message;
mod record;
mod rooms;
mod schedule;
mod servers;
#[cfg(test)]
mod testing;
mod token;
mod workers;
