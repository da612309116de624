//! State of this node and of all servers, and drains of other nodes.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::servers::{Nodes, Server};
use signaling_protocol::NodeId;
use signaling_server::http::Refused;
use signaling_server::mesh_status::{NodesQuery, ask_all};
use signaling_server::server_client::Answer;

use super::super::Floor;
use super::{Asked, OperatorApi, bad_name, query};

pub(super) async fn server(State(desk): State<OperatorApi>) -> Result<Json<Server>, Refused> {
    Ok(Json(desk.floor.ask(Floor::report).await?))
}

pub(super) async fn nodes(State(desk): State<OperatorApi>, asked: Asked<NodesQuery>) -> Result<Json<Nodes>, Refused> {
    let client = desk.peers.client.at_most(query(asked)?.timeout()?);
    let own = desk.floor.ask(Floor::report).await?;
    Ok(Json(ask_all(&client, &desk.peers.view(), own).await))
}

pub(super) async fn drain(State(desk): State<OperatorApi>, Path(node): Path<String>) -> Result<Response, Refused> {
    turn(&desk, &node, true).await
}

pub(super) async fn undrain(State(desk): State<OperatorApi>, Path(node): Path<String>) -> Result<Response, Refused> {
    turn(&desk, &node, false).await
}

async fn turn(desk: &OperatorApi, node: &str, on: bool) -> Result<Response, Refused> {
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
