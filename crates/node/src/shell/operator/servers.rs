//! How this node is, how all are, and others taken out of service.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::servers::{self, Nodes, Role, Server};
use signaling_discovery::Member;
use signaling_protocol::NodeId;
use signaling_server::ask::Stopped;
use signaling_server::http::Refused;

use super::super::Node;
use super::{Desk, bad_name};
use signaling_server::server_client::Answer;

/// Who drains says so as what keeps it from taking work.
const DRAINING: &str = "draining";

pub(super) async fn server(State(desk): State<Desk>) -> Result<Json<Server>, Refused> {
    Ok(Json(of_this(&desk).await?))
}

async fn of_this(desk: &Desk) -> Result<Server, Stopped> {
    let (id, obstacle) = (desk.own().as_str().to_owned(), desk.health.obstacle().map(str::to_owned));
    let tell = |core: &crate::core::NodeCore| Server {
        id,
        role: Role::Node,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        obstacle,
        view: core.view_name(),
        clients: core.sessions(),
        lingering: core.lingering(),
        held_bytes: core.held_bytes(),
        rooms: core.room_figures().rooms,
        edges: core.edges(),
    };
    let tell = |node: &Node| {
        let mut server = node.look(tell);
        node.add_addresses(&mut server.edges);
        server
    };
    desk.node.ask(tell).await
}

pub(super) async fn nodes(State(desk): State<Desk>) -> Result<Json<Nodes>, Refused> {
    let those = desk.peers.view();
    let suspects = desk.core(|core| core.suspects().cloned().collect::<Vec<_>>());
    let (own, suspects, (mut others, missing)) =
        tokio::join!(of_this(&desk), suspects, desk.peers.ask_view::<Server>(&those, http::Method::GET, "server"));
    let (own, suspects) = (own?, suspects?);
    let (asked, view) = (own.id.clone(), own.view.clone());
    others.push((desk.own().clone(), own));
    let node = |member: &Member| {
        let server = others.iter().find(|(id, _)| *id == member.id).map(|(_, server)| server.clone());
        let says_draining = server.as_ref().is_some_and(|server| server.obstacle.as_deref() == Some(DRAINING));
        servers::Node {
            node: member.id.as_str().to_owned(),
            address: member.address.as_str().to_owned(),
            draining: member.draining || says_draining,
            suspect: suspects.contains(&member.id),
            server,
        }
    };
    let nodes = those.members().iter().map(node).collect();
    let balancers = servers::balancers(others.iter().map(|(_, server)| server));
    Ok(Json(Nodes { asked, view, nodes, balancers, missing }))
}

pub(super) async fn drain(State(desk): State<Desk>, Path(node): Path<String>) -> Result<Response, Refused> {
    turn(&desk, &node, true).await
}

pub(super) async fn undrain(State(desk): State<Desk>, Path(node): Path<String>) -> Result<Response, Refused> {
    turn(&desk, &node, false).await
}

async fn turn(desk: &Desk, node: &str, on: bool) -> Result<Response, Refused> {
    let node = NodeId::new(node).map_err(bad_name)?;
    if node == *desk.own() {
        return Ok(desk.switch.turn(on));
    }
    let view = desk.peers.view();
    let Some(member) = view.get(node.as_str()) else {
        let message = format!("there is no node {node} in the view of {}", desk.own());
        return Err(Refused::new(StatusCode::NOT_FOUND, "no_such_node", message));
    };
    let what = if on { "drain" } else { "undrain" };
    let answer = desk.peers.ask_one(member, http::Method::POST, what).await;
    let Answer { status, body } = answer.map_err(|why| {
        Refused::new(StatusCode::BAD_GATEWAY, "node_unreachable", format!("{node} was not told: {why}"))
    })?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}
