//! Readiness by load: a server with many more clients than its peers reports unready, so that a front proxy that only does
//! round robin sends new clients elsewhere. Open sockets stay.
//!
//! `rule` decides from polled counts (pure). `report` serves this server's count, whether or not the rule is on. `poll` asks the
//! peers once a second and sets `/readyz` of a balancer, or `/readyz/clients` of a node.

mod args;
mod metrics;
mod poll;
mod report;
pub mod rule;

pub use self::args::LoadReadinessArgs;
pub use self::metrics::LoadReadinessMetrics;
pub use self::poll::LoadReadinessTask;
pub use self::report::{LoadReport, LoadReportServer, PATH};
pub use self::rule::{MAX_UNREADY, Settings};
