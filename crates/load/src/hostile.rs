//! A crowd of hostile clients, and its effect on good clients.
//!
//! | module | responsibility |
//! |---|---|
//! | `options` | command line |
//! | `stranger` | behavior of one hostile client |
//! | `crowd` | all hostile clients, on their own thread so that they do not delay the good clients
//! |
//! | `edges` | metrics and memory of the edges during the run |

mod crowd;
mod edges;
mod options;
mod stranger;

pub(crate) use crowd::{Crowd, Present};
pub(crate) use edges::{Edges, Seen};
pub(crate) use options::HostileOptions;
