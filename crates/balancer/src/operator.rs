//! Operator routes under `/admin`, which `run` mounts: states of servers, and kicks of own clients.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use signaling_admin::clients::Kicked;
use signaling_admin::servers::{Flow, Nodes, Server, Totals};
use signaling_core::View;
use signaling_core::edge::KickName;
use signaling_edge::shell::Edge;
use signaling_server::admin::handlers::{document, view_name};
use signaling_server::http::Refused;
use signaling_server::local_calls::LocalCaller;
use signaling_server::mesh_status::{ServerStatus, ask_all};
use signaling_server::server_client::ServerClient;
use tokio::sync::watch;

use crate::backend::BalancerBackend;

/// State of the operator routes that stays on the balancer's own thread.
pub(crate) struct Floor {
    /// Sessions of the clients.
    pub(crate) edge: Edge,
    /// Placement of the clients.
    pub(crate) backend: BalancerBackend,
    /// The part of a report that all servers share.
    pub(crate) status: ServerStatus,
}

impl Floor {
    fn report(&self) -> Server {
        let base = self.status.report();
        let (totals, latency_us) = self.edge.with_core(|core| {
            let counts = core.counts();
            let totals = Totals { messages: counts.ups, delivered: counts.downs, unavailable: 0 };
            (totals, core.delays().counts().collect())
        });
        let flow = |(from, to, clients): (&str, &str, u64)| Flow { from: from.to_owned(), to: to.to_owned(), clients };
        self.backend.with(|state| {
            let mut suspects: Vec<_> = state.placement.suspect_ids().map(|node| node.as_str().to_owned()).collect();
            suspects.sort_unstable();
            Server {
                view: view_name(state.placement.view()),
                clients: self.edge.clients(),
                suspects,
                totals,
                latency_us,
                flows: state.handoffs.counts().iter().map(flow).collect(),
                ..base
            }
        })
    }
}

/// State of the operator routes.
#[derive(Clone)]
pub(crate) struct OperatorApi {
    /// Calls into the balancer's thread.
    pub(crate) floor: LocalCaller<Floor>,
    /// Client for requests to other servers.
    pub(crate) client: ServerClient,
    /// Views of the mesh.
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
    Ok(Json(ask_all(&api.client, &view, own).await))
}

async fn kick(State(api): State<OperatorApi>, Path(name): Path<String>) -> Result<Json<Kicked>, Refused> {
    let kicked = KickName::new(&name);
    let (was_here, subject) = api.floor.ask(move |floor| floor.edge.kick(&kicked)).await?;
    let subject = subject.map(|subject| subject.as_str().to_owned());
    Ok(Json(Kicked { client_id: name, subject, was_here, missing: Vec::new() }))
}
