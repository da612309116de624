//! Readiness by load: a server with far more clients than its peers says that it is not ready, so that a front proxy which knows
//! no better than to take turns sends new clients elsewhere. Sockets that are open are left alone.
//!
//! `core` decides, from counts alone; `report` tells peers how many clients there are, whether or not the rest is turned on;
//! `peers` asks them, carries out what is decided, and says it in `/readyz` (or for nodes in `/readyz/clients` alone, since
//! the mesh itself may go by a node's `/readyz`).

mod args;
pub mod core;
mod metrics;
mod peers;
mod report;

pub use self::args::CrowdingArgs;
pub use self::core::{Crowding, Settings};
pub use self::metrics::METRICS;
pub use self::peers::Peers;
pub use self::report::{Desk, PATH, Report};
