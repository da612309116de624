//! What is fuzzed: every reader of bytes that strangers or other servers send, as a function of any bytes that panics when
//! something is wrong.
//!
//! The programs in `fuzz/` at the workspace's root have libFuzzer call them (`make fuzz`); an ordinary test calls them with what is
//! kept in `corpus/`, whole and damaged, so that CI needs no engine. A target asserts more than that nothing panics: that reading
//! does not depend on how the bytes are cut, that what is read writes back as the same, that limits hold.

mod batches;
mod commands;
mod frames;
mod messages;
mod trunks;

pub use batches::batches;
pub use commands::commands;
pub use frames::frames;
pub use messages::messages;
pub use trunks::trunks;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// All of them, by the names of their folders in `corpus/`.
pub const TARGETS: [(&str, Target); 5] =
    [("batches", batches), ("commands", commands), ("frames", frames), ("messages", messages), ("trunks", trunks)];
