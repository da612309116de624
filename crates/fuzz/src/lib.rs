//! Fuzz targets for the parsers of frames, batches, messages and dialects, which read bytes of
//! clients or other servers. A target is a function of any bytes that panics on a fault.
//!
//! The programs in `fuzz/` at the workspace's root run them with libFuzzer (`make fuzz`). An
//! ordinary test runs them on `corpus/`, whole and damaged, so that CI needs no engine. Some
//! targets also assert that parsing does not depend on how the bytes are cut (`frames`). Others
//! assert that parsed values are written in no more bytes, or that limits hold.

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
