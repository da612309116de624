//! Properties of any input: equivalent JSON texts parse to the same client message, and other text
//! is rejected.

mod client_json;
mod names;
