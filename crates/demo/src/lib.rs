//! The demo: pages that meet in a room through the mesh of their origin, and buttons that start,
//! drain and kill nodes of a local mesh.
//!
//! A balancer with `--demo` serves it beside its clients, and `mesh-dev page` before a mesh
//! elsewhere.

mod buttons;
mod pages;

use std::path::PathBuf;

use axum::Router;

/// Returns the routes of all pages and buttons, without a fallback. `control`: path of the control
/// socket of the `mesh-dev` that runs the mesh. `None`: the page shows no buttons. Requests need
/// [`ConnectInfo`](axum::extract::ConnectInfo) with the client's address.
pub fn router(control: Option<PathBuf>) -> Router {
    pages::router().merge(buttons::router(control))
}
