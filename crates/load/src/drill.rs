//! A steady load during actions on the mesh or on the clients' sockets.
//!
//! Clients request an ack of each message, come back when their socket ends, and retransmit
//! messages without an ack. The exchange records each arrival, and a sampler reads the servers'
//! metrics ten times per second. Pure code computes the effects of actions from both afterwards.
//!
//! | module | content |
//! |---|---|
//! | `script` | actions and their times |
//! | `load` | the load with concurrent actions |
//! | `servers` | counters of the servers, across restarts |
//! | `course` | pure: effects of an action and their duration |
//! | `figures` | results for tests that act by themselves |

mod course;
mod figures;
mod load;
mod script;
mod servers;

pub use crate::exchange::{AckTotals, Returns, Totals};
pub(crate) use course::{Course, Effect};
pub use figures::Figures;
pub(crate) use load::{Evidence, put};
pub use load::{Load, under_load};
pub(crate) use script::{Action, Done, Step, perform};
