//! Properties of any input: a client message means the same in every form of its JSON, and text
//! that is no message is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

mod client_json;
mod names;
