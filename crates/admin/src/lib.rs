//! Requests of operators under `/admin`, and the answers. No I/O: servers fill the answers in, `mesh-ctl`
//! shows them.
//!
//! An answer that was merged from several nodes names those that did not contribute, in `missing`.

#![allow(missing_docs, reason = "`docs/admin-api.json` describes each field")]

use serde::{Deserialize, Serialize};

pub mod clients;
pub mod explain;
pub mod openapi;
pub mod page;
pub mod placement;
pub mod preview;
pub mod rooms;
pub mod servers;

pub use page::{Page, PageQuery};

/// A node that did not contribute to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub node: String,
    pub why: String,
}
