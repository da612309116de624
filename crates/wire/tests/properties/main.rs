//! Properties of any input: a frame decodes to what was encoded, and damaged bytes are refused
//! without harm.
#![allow(clippy::unwrap_used, clippy::panic)]

mod frames;
mod strategies;
mod values;
