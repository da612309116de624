//! A whole mesh in one thread: the real cores of edges and nodes on a simulated network and clock, from a seed.
//!
//! [`run`] builds a world, lets clients talk and things go wrong, and watches with a reference model whether what
//! clients were promised is kept. The same seed gives the same run, so that a failure can be looked at as often as it
//! takes: `mesh-sim --seed N` prints an account of it.
//!
//! This is no test of the shells: sockets, tasks and HTTP are not here, only what the shells would do with the cores.
//!
//! | file | idea |
//! |---|---|
//! | `plan` | what one run will be |
//! | `agenda`, `event` | the clock, the scheduler, and what can happen |
//! | `world` | the loop, and what must hold at the end |
//! | `edges`, `nodes` | servers: a real core each, and what its shell does |
//! | `trunks` | connections of edges to nodes |
//! | `clients`, `frames` | clients, plain and reliable, and their sockets |
//! | `rooms` | the store of rooms, clients who are in them, and what they are promised |
//! | `faults` | what goes wrong, and views |
//! | `mutant` | rules broken on purpose |
//! | `ledger`, `trouble`, `spans` | the reference model |
//! | `copies` | what was left behind at other nodes |
//! | `counters`, `trace` | what happened |
//!
//! ```
//! use signaling_simulation::{Size, run};
//!
//! let size = Size { messages: 20, faults: 0, ..Size::default() };
//! assert!(run(1, &size, false).violation.is_none());
//! ```

mod agenda;
mod clients;
mod copies;
mod counters;
mod edges;
mod event;
mod faults;
mod frames;
mod ledger;
mod mutant;
mod nodes;
mod plan;
mod rng;
mod rooms;
mod spans;
mod trace;
mod trouble;
mod trunks;
mod world;

pub use counters::{Counters, DEMANDED};
pub use ledger::Violation;
pub use mutant::Mutant;
pub use plan::{FaultKind, Size};
pub use world::{Outcome, run};
