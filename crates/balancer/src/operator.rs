//! Operators' routes under `/admin`: how this balancer is, how it places a client, and a client put out.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::clients::Kicked;
use signaling_admin::openapi;
use signaling_admin::placement::BalancerExplanation;
use signaling_admin::servers::{Role, Server};
use signaling_edge::shell::Edge;
use signaling_protocol::{ClientId, NodeId};
use signaling_server::Health;
use signaling_server::admin::{Method, Routes};
use signaling_server::ask::Asker;
use signaling_server::http::Refused;

use crate::trunks::Trunks;

/// What stays on the balancer's own thread.
pub(crate) struct Floor {
    pub(crate) edge: Edge,
    pub(crate) trunks: Trunks,
}

/// What operators' routes work with.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) id: NodeId,
    pub(crate) floor: Asker<Floor>,
    pub(crate) health: Health,
}

/// A balancer's routes for operators, but for those that drain it.
pub(crate) fn routes() -> Routes<Desk> {
    Routes::new()
        .with(Method::Get, "/openapi.json", document)
        .with(Method::Get, "/server", server)
        .with(Method::Get, "/explain/{client}", explain)
        .with(Method::Post, "/clients/{client}/kick", kick)
}

async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi::DOCUMENT)
}

async fn server(State(desk): State<Desk>) -> Result<Json<Server>, Refused> {
    let see = |floor: &Floor| (floor.edge.clients(), floor.trunks.with(|state| state.placement.view_name()));
    let (clients, view) = desk.floor.ask(see).await?;
    Ok(Json(Server {
        id: desk.id.as_str().to_owned(),
        role: Role::Balancer,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        obstacle: desk.health.obstacle().map(str::to_owned),
        view,
        clients,
        lingering: 0,
        held_bytes: 0,
        rooms: 0,
        edges: Vec::new(),
    }))
}

async fn explain(State(desk): State<Desk>, Path(name): Path<String>) -> Result<Json<BalancerExplanation>, Refused> {
    let (client, id) = (client(&name)?, desk.id);
    let explain = move |floor: &Floor| {
        let sessions = floor.edge.with_core(|core| core.sessions_of(&client));
        floor.trunks.with(|state| state.placement.explain(&id, &client, sessions))
    };
    Ok(Json(desk.floor.ask(explain).await?))
}

async fn kick(State(desk): State<Desk>, Path(name): Path<String>) -> Result<Json<Kicked>, Refused> {
    let (client, client_id) = (client(&name)?, name);
    let was_here = desk.floor.ask(move |floor| floor.edge.put_out(&client)).await?;
    Ok(Json(Kicked { client_id, was_here, missing: Vec::new() }))
}

fn client(name: &str) -> Result<ClientId, Refused> {
    ClientId::new(name).map_err(|error| Refused::new(StatusCode::BAD_REQUEST, "bad_name", format!("a name {error}")))
}

#[cfg(test)]
mod tests {
    use signaling_admin::openapi::operations;
    use signaling_server::{DrainSwitch, Shutdown};

    use super::*;

    #[test]
    fn the_routes_are_those_of_the_description_and_no_others() {
        let mut listed = routes().listed();
        listed.extend(DrainSwitch::new(Health::new(), Shutdown::new()).routes().listed());
        listed.sort();
        assert_eq!(listed, operations(Role::Balancer));
    }
}
