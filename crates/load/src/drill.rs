//! A steady load while something is done to the mesh or to the clients' sockets.
//!
//! Clients ask for an ack of each message, come back when their socket ends, and send again what has no ack. Meanwhile
//! the exchange records each arrival, and a sampler reads the servers' metrics ten times a second. What an act brought
//! about is concluded afterwards from both, by pure code.
//!
//! | module | content |
//! |---|---|
//! | `script` | acts and their times |
//! | `load` | the load with the acts beside it |
//! | `servers` | what the servers count, over restarts |
//! | `course` | pure: what an act brought about, and when it was over |
//! | `figures` | the same for tests that act by themselves |

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
