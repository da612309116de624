//! Operator routes under `/admin`, which `run` mounts: states of servers, and kicks of own clients.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use signaling_admin::clients::Kicked;
use signaling_admin::servers::{Nodes, Server};
use signaling_core::edge::KickName;
use signaling_edge::Edge;
use signaling_membership::View;
use signaling_server::admin::handlers::document;
use signaling_server::http::Refused;
use signaling_server::local_calls::LocalCaller;
use signaling_server::mesh_status::{ask_all, ask_for_edges};
use signaling_server::server_client::ServerClient;
use tokio::sync::watch;

use crate::backend::BalancerBackend;

/// State of the operator routes that stays on the balancer's own thread.
pub(crate) struct Floor {
    /// Sessions of the clients.
    pub(crate) edge: Edge,
    /// Placement of the clients, and this balancer's report.
    pub(crate) backend: BalancerBackend,
}

impl Floor {
    fn report(&self) -> Server {
        self.edge.with_core(|core| self.backend.report(core))
    }
}

#[derive(Clone)]
pub(crate) struct OperatorApi {
    /// Calls into the balancer's thread.
    pub(crate) floor: LocalCaller<Floor>,
    pub(crate) client: ServerClient,
    pub(crate) views: watch::Receiver<Arc<View>>,
}

/// Returns the balancer's routes for operators, relative to `/admin`, except the drain routes.
pub(crate) fn routes() -> Router<OperatorApi> {
    Router::new()
        .route("/openapi.json", get(document))
        .route("/server", get(server))
        .route("/nodes", get(nodes))
        .route("/clients/{client}/kick", post(kick))
}

/// Returns the route that other servers call: the state of this balancer.
pub(crate) fn server_routes() -> Router<OperatorApi> {
    Router::new().route("/server", get(server))
}

async fn server(State(api): State<OperatorApi>) -> Result<Json<Server>, Refused> {
    Ok(Json(api.floor.ask(Floor::report).await?))
}

async fn nodes(State(api): State<OperatorApi>) -> Result<Json<Nodes>, Refused> {
    let own = api.floor.ask(Floor::report).await?;
    let view = api.views.borrow().clone();
    let edges = ask_for_edges(&api.client, &view);
    Ok(Json(ask_all(&api.client, &view, own, edges).await))
}

async fn kick(State(api): State<OperatorApi>, Path(name): Path<String>) -> Result<Json<Kicked>, Refused> {
    let kicked = KickName::new(&name);
    let (was_here, subject) = api.floor.ask(move |floor| floor.edge.kick(&kicked)).await?;
    let subject = subject.map(|subject| subject.as_str().to_owned());
    Ok(Json(Kicked { client_id: name, subject, was_here, missing: Vec::new() }))
}
