//! Placement of clients on nodes, and the pace of handoffs.

pub mod handoff_counts;
pub mod handoff_scheduler;
pub mod placement;
