//! The signaling node: sessions, router, hold queue and forwarder. `signaling_core::node` decides.
//!
//! | module | responsibility |
//! |---|---|
//! | [`config`], `ice_args` | flags |
//! | [`run`](run()) | starts all parts on one thread |
//! | `node` | the core between its inputs and the tasks that write its output |
//! | `trunks` | trunks from edges |
//! | `lanes` | lanes to other nodes |
//! | `inbound_lanes` | lanes from other nodes |
//! | `lane_writer` | bytes that leave on a lane |
//! | `internal` | the internal listener |
//! | `direct` | the edge for direct clients |
//! | `operator` | operator routes |
//! | [`journal`] | the journal of rooms and clients |
//! | `kick_file` | kicks that outlast a restart of all servers |
//! | `report` | the node's report about itself |
//! | [`metrics`] | metrics of the core and lanes |
//!
//! A machine with more cores runs more nodes.

pub mod config;
mod direct;
mod ice_args;
mod inbound_lanes;
mod internal;
pub mod journal;
mod kick_file;
mod lane_writer;
mod lanes;
pub mod metrics;
mod node;
mod operator;
mod report;
mod run;
mod trunks;

use self::direct::DirectEdge;
use self::node::{Node, OutboundLane, State};
use self::report::Floor;
pub use self::run::run;
