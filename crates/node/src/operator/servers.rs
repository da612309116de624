//! State of this node and of all servers, and drains of other nodes.

use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::servers::{Draining, Nodes, Server};
use signaling_protocol::NodeId;
use signaling_server::Health;
use signaling_server::admin::BETWEEN_SERVERS;
use signaling_server::http::Refused;
use signaling_server::local_calls::Stopped;
use signaling_server::mesh_status::{REPORT_TIMEOUT, ask_all};
use signaling_server::server_client::Answer;
use tokio::time::sleep;

use super::OperatorApi;
use crate::Floor;

/// Interval of checks whether all edges have answered.
const REPORT_POLL: Duration = Duration::from_millis(5);

/// Serves `GET /admin/server`: this node alone.
pub(super) async fn server(State(api): State<OperatorApi>) -> Result<Json<Server>, Refused> {
    Ok(Json(api.floor.ask(Floor::report).await?))
}

/// Serves `GET /admin/nodes`: all servers that this node can reach.
pub(super) async fn nodes(State(api): State<OperatorApi>) -> Result<Json<Nodes>, Refused> {
    let own = api.floor.ask(Floor::report).await?;
    let edges = async { edge_reports(&api).await.unwrap_or_default() };
    Ok(Json(ask_all(&api.peers.client, &api.peers.view(), own, edges).await))
}

/// Serves `GET /edges` for other servers: the balancers with trunks to this node.
pub(super) async fn edges(State(api): State<OperatorApi>) -> Result<Json<Vec<Server>>, Refused> {
    Ok(Json(edge_reports(&api).await?))
}

/// Returns the reports that the edges of this node's trunks send within 700 ms.
async fn edge_reports(api: &OperatorApi) -> Result<Vec<Server>, Stopped> {
    let end = Instant::now() + REPORT_TIMEOUT;
    api.floor.ask(|floor| floor.node.with_core(|core| core.trunks_mut().request_statuses())).await?;
    while api.core(|core| core.trunks().awaits_statuses()).await? && Instant::now() < end {
        sleep(REPORT_POLL).await;
    }
    api.core(|core| core.trunks().statuses().filter_map(|report| serde_json::from_slice(report).ok()).collect()).await
}

/// Serves `POST /admin/nodes/NODE/drain`, or with `false` `POST /admin/nodes/NODE/undrain`: passes
/// the request to that node and its answer back, or to the balancer of this name over its trunk.
/// Refuses an unknown server by 404 `no_such_node`, and one that does not answer by 502
/// `node_unreachable`.
pub(super) async fn set_drained<const DRAINED: bool>(
    State(api): State<OperatorApi>,
    Path(node): Path<String>,
) -> Result<Response, Refused> {
    let node = NodeId::new(&node)?;
    if node == *api.own() {
        return Ok(api.health.set_drained(DRAINED));
    }
    let view = api.peers.view();
    let Some(member) = view.get(node.as_str()) else { return set_edge_drained(&api, node, DRAINED).await };
    let path = format!("{BETWEEN_SERVERS}/{}", if DRAINED { "drain" } else { "undrain" });
    let answer = api.peers.client.request(member, http::Method::POST, &path).await;
    let Answer { status, body } = answer.map_err(|why| {
        Refused::new(StatusCode::BAD_GATEWAY, "node_unreachable", format!("{node} did not answer: {why}"))
    })?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Drains or undrains a balancer, and waits until its report shows it.
async fn set_edge_drained(api: &OperatorApi, name: NodeId, drained: bool) -> Result<Response, Refused> {
    let asked = name.clone();
    let ask =
        move |floor: &Floor| floor.node.with_core(|core| core.trunks_mut().set_edge_drained(asked.as_str(), drained));
    if !api.floor.ask(ask).await? {
        let message = format!("{} has no node {name} in its view and no trunk of such a balancer", api.own());
        return Err(Refused::new(StatusCode::NOT_FOUND, "no_such_node", message));
    }
    let reports = edge_reports(api).await?;
    let report = reports.iter().find(|report| report.id == name.as_str());
    let is_drained = report.map(|report| report.obstacle.as_deref() == Some(Health::DRAINING));
    match is_drained {
        Some(is_drained) if is_drained == drained => Ok(Json(Draining { draining: drained }).into_response()),
        Some(_) => Err(Refused::new(StatusCode::CONFLICT, "stopping", format!("{name} stops and cannot be undrained"))),
        None => Err(Refused::new(StatusCode::BAD_GATEWAY, "node_unreachable", format!("{name} did not answer"))),
    }
}
