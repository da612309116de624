//! Placement of clients on nodes, and the pace of handoffs.

pub mod flows;
pub mod moves;
pub mod placement;
