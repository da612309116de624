//! What operators ask of a mesh under `/admin`, and the answers. No I/O: servers fill the answers in, `mesh-ctl` shows them.
//!
//! | module | idea |
//! |---|---|
//! | [`page`] | lists by name, a page at a time, from many nodes as from one |
//! | [`clients`] | who is connected, and where |
//! | [`rooms`] | rooms that somebody is in |
//! | [`explain`] | why a client is where it is |
//! | [`preview`] | which clients would move if a node joined or left |
//! | [`servers`] | how servers are |
//! | [`openapi`] | the description of the API, and the routes it names |
//!
//! Every answer that was put together from several nodes names those that did not contribute, in `missing`: the rest of it is
//! still good.

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
