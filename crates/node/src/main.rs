//! The `signaling-node` binary.
fn main() {}
