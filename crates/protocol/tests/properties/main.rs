//! What must hold for any input: frames come back as they went out, damaged bytes are refused without harm, and client
//! messages mean the same however their JSON is written.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client_json;
mod frames;
mod names;
mod strategies;
