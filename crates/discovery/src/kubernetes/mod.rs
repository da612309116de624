//! Nodes as the EndpointSlices of a headless service show them.
//!
//! The API server is asked for a list and then for a watch from there on, again and again. What both say is kept slice by
//! slice (`Shelf`), and after each change all slices together give all pods (`slice`). A watch that ends after a while is
//! resumed where it ended; one that fails in any way, or ends early, is followed by a new list, after a wait that grows
//! (`Backoff`). A list heals everything: versions that have expired (410, in both forms), lost events, a server that has come
//! back with another history. So there is one too every few minutes, whatever the watch says.
//!
//! | the API server | what happens |
//! |---|---|
//! | ends a watch at its time | a new watch from the last version, no list |
//! | says 410 as an event or as a status, cuts the watch, ends it early or in the middle of a line | a list, after a moment |
//! | falls silent in a watch | the same, a few seconds after the watch should have ended |
//! | breaks watches that have worked, again and again | the same, and a warning, though the view is young (`Breaks`) |
//! | hangs, refuses, is away, answers 5xx or 429 | lists with growing waits; the last view stays |
//! | answers 401 or 403 | the same; the warning names the Role that is missing |
//! | lists nobody | the last view stays, see `FlapDamper` |
//!
//! Only `list` and `watch` of `endpointslices` in one namespace are asked for: `deploy/base/rbac.yaml` allows no more.

mod api;
mod breaks;
mod service;
mod shelf;
mod slice;
mod watcher;

pub use api::{KubernetesError, KubernetesSettings};
pub use service::ServicePort;

#[cfg(doc)]
use shelf::Shelf;
pub(crate) use watcher::Watcher;
