//! Calls being set up: an offer, an answer, and the candidates of both sides, then quiet.
//!
//! The way of a call: the schedule says when it begins; the caller sends its description and then candidate after
//! candidate, as a browser finds them; the callee does the same once it has the offer. The call is set up when both have
//! all. The time of gathering is the browsers' own and is not counted: what is left is what the signaling takes.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `shape` | pure: what a call consists of, drawn by the seed |
//! | `book` | pure: how far each call is, and how long it took |
//! | `exchange` | sends what is due, answers offers, enters what arrives |
//! | `part`, `report` | what one process finds; all of it, and what speaks against the servers |
//! | `steps` | pure: at which rate the set-up time has doubled |

mod book;
mod exchange;
mod options;
mod part;
mod report;
mod shape;
mod steps;

pub(crate) use exchange::make_calls;
pub(crate) use options::{CallOptions, MAX_RATE};
pub(crate) use part::CallPart;
pub(crate) use report::Report;
pub(crate) use steps::doubling;
