//! The dashboard: one live page about the whole mesh, from the internal listener of any server.
//!
//! What it is not: it changes nothing, keeps nothing beyond minutes, and knows no client by name. It tells no more than metrics
//! do, and so asks for no more than `/metrics` does: whoever reaches the internal listener may look.
//!
//! The way of a figure: each server's [`Keeper`] asks it twice a second how things stand, and writes what has changed since into its
//! [`Chronicle`]; `GET /dashboard/status` answers with both as a [`Status`]. Somebody opens `/dashboard` on one of the servers: its
//! collector, which runs only while somebody watches, asks all others once a second, and [`Mesh`] makes one
//! [`Snapshot`] of the answers. All watchers are sent the same bytes, by server-sent events; a slow one skips some. At most 32 may watch one server.
//!
//! | module | idea |
//! |---|---|
//! | [`status`] | what one server says of itself |
//! | [`chronicle`] | what has happened at one server, from how things stood before and after. Pure |
//! | [`keeper`] | the task that looks |
//! | [`mesh`] | one picture from all answers: rates, silence, restarts. Pure |
//! | [`story`] | what many servers saw of one thing, told once. Pure |
//! | [`delays`] | the p99 of the last seconds from counts that only grow. Pure |
//! | [`snapshot`] | what the page is sent |
//! | `collector` | asking everybody |
//! | `watchers` | who watches, and whether the collector runs |
//! | `routes` | the page, the status, the stream of events |

pub mod chronicle;
mod collector;
pub mod delays;
pub mod keeper;
pub mod mesh;
mod routes;
pub mod snapshot;
pub mod status;
pub mod story;
mod watchers;

pub use chronicle::Chronicle;
pub use keeper::{About, Keeper, Report};
pub use mesh::Mesh;
pub use routes::router;
pub use snapshot::Snapshot;
pub use status::{EdgeFigures, Figures, Happening, Role, Status, Totals, What};
