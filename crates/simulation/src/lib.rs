//! A whole mesh in one thread: the real cores of edges and nodes on a simulated network and clock,
//! from a seed.
//!
//! [`run`] builds a world with clients and faults. A reference model checks the guarantees that
//! clients have. The same seed gives the same run, so a failure is reproducible:
//! `mesh-sim --seed N` prints the events of a run, and `--digest` a hash of them.
//!
//! The simulation does not test the shells. It replaces sockets, tasks and HTTP by simple models.
//!
//! ```
//! use signaling_simulation::{Size, run};
//!
//! let size = Size { messages: 20, faults: 0, ..Size::default() };
//! assert!(run(1, &size, false).violation.is_none());
//! ```

mod agenda;
mod clients;
mod counters;
mod edges;
mod event;
mod faults;
mod journal;
mod lanes;
mod ledger;
mod mutant;
mod nodes;
mod plan;
mod players;
mod preset;
mod rng;
mod rooms;
mod spans;
mod subscribers;
mod trace;
mod trouble;
mod trunks;
mod world;

pub use counters::Counters;
pub use ledger::Violation;
pub use mutant::Mutant;
pub use plan::{FaultKind, Size};
pub use preset::Preset;
pub use world::{Outcome, run, run_digested};
