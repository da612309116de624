//! The nodes of a mesh: views of them, their addresses, and which of them answer.
//!
//! | module | content |
//! |---|---|
//! | [`view`] | the nodes of a view, and the difference between two views |
//! | [`address`] | valid addresses of internal listeners |
//! | [`zone`] | valid names of zones |
//! | [`failure_detector`] | peers that do not answer |
//!
//! No code here has I/O or reads a clock.

// The ban on clocks is for decisions; tests choose a start.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod failure_detector;
pub mod view;
pub mod zone;

pub use address::{Address, AddressError};
pub use failure_detector::FailureDetector;
pub use view::{Diff, NodeEntry, View, ViewError};
pub use zone::{Zone, ZoneError};
