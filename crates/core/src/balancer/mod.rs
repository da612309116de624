//! Placement of clients on nodes, and the pace of handoffs, for the balancer and the simulation.

pub mod handoff_counts;
pub mod handoff_scheduler;
pub mod placement;
