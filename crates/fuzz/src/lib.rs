//! Fuzz targets for every parser of bytes from clients or other servers. A target is a function of
//! any bytes that panics on a fault.
//!
//! The programs in `fuzz/` at the workspace's root run them with libFuzzer (`make fuzz`). An
//! ordinary test runs them on `corpus/`, whole and damaged, so that CI needs no engine. Targets
//! also assert that parsing does not depend on how the bytes are cut, that parsed values are
//! written in no more bytes, and that limits hold.

mod batches;
mod commands;
mod dialects;
mod frames;
mod messages;
mod trunks;

pub use batches::batches;
pub use commands::commands;
pub use dialects::dialects;
pub use frames::frames;
pub use messages::messages;
pub use trunks::trunks;

/// A fuzz target, which panics if the bytes show a fault.
pub type Target = fn(&[u8]);

/// All targets, by the names of their folders in `corpus/`.
pub const TARGETS: [(&str, Target); 6] = [
    ("batches", batches),
    ("commands", commands),
    ("dialects", dialects),
    ("frames", frames),
    ("messages", messages),
    ("trunks", trunks),
];
