//! Nodes from the EndpointSlices of a headless service. A watch follows each list. `Slices` keeps
//! the slices by name, and extracts their pods. A watch that ends in time resumes where it ended.
//! Any other end leads to a new list after a growing wait. A list repairs expired versions (410),
//! lost events and a server with another history, so one is made every few minutes as well.
//!
//! | API server | effect |
//! |---|---|
//! | ends a watch in time | a new watch from the last version |
//! | sends 410, or breaks a watch or ends it early | a list |
//! | is silent in a watch | a list, a few seconds after the watch should have ended |
//! | breaks working watches repeatedly | a list each, and a warning (`Breaks`) |
//! | hangs, refuses, answers 5xx or 429 | lists with growing waits; the last view stays |
//! | answers 401 or 403 | the same; the warning names the missing Role |
//! | lists no pod | the last view stays, see `FlapDamper` |
//!
//! Discovery needs `list` and `watch` of `endpointslices` in one namespace, see
//! `deploy/base/rbac.yaml`.

mod api;
mod breaks;
mod service;
mod slices;
mod watcher;

pub use api::KubernetesSettings;
pub use service::ServicePort;

pub(crate) use watcher::Watcher;
