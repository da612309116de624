//! Types of the operator API under `/admin`, without I/O. The routes of both servers fill them in.
//! `mesh-ctl` prints them, and the dashboard shows those of `servers`.
//! In an answer merged from several nodes, `missing` names the nodes that did not contribute.

#![allow(missing_docs, reason = "`docs/admin-api.json` describes each field")]

use serde::{Deserialize, Serialize};

pub mod clients;
pub mod explain;
pub mod page;
pub mod rooms;
pub mod servers;

pub use page::{Page, PageQuery};

/// The OpenAPI document of the API (3.1, JSON). Servers send it unchanged.
pub const OPENAPI_DOCUMENT: &str = include_str!("../../../docs/admin-api.json");

/// A node that did not contribute to an answer, and the reason as text: no connection, no answer in
/// time, or an unusable one. A node that received a request may still have executed it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    pub node: String,
    pub why: String,
}
