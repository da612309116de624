//! Properties of any input: equivalent JSON texts parse to the same client message, and other text
//! is rejected.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client_json;
mod names;
