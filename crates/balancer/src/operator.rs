//! Operator routes under `/admin`: state of all servers, placement of a client, and kicks.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use signaling_admin::clients::Kicked;
use signaling_admin::explain::{Candidate, Queue, scores};
use signaling_admin::placement::{BalancerExplanation, EdgeSession, PlaceState, SocketState};
use signaling_admin::servers::{Flow, Nodes, Server, Totals};
use signaling_core::View;
use signaling_core::balancer::placement::Placement;
use signaling_core::edge::{Attachment, Session, SessionPhase};
use signaling_edge::shell::Edge;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_server::admin::handlers::{QueryResult, document, parse_client_id, query, view_name};
use signaling_server::admin::{Method, Routes};
use signaling_server::ask::LocalCaller;
use signaling_server::http::Refused;
use signaling_server::mesh_status::{NodesQuery, ServerStatus, ask_all};
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
    /// Name of this balancer.
    pub(crate) id: NodeId,
    /// Calls into the balancer's thread.
    pub(crate) floor: LocalCaller<Floor>,
    /// Client for requests to other servers.
    pub(crate) client: ServerClient,
    /// Views of the mesh.
    pub(crate) views: watch::Receiver<Arc<View>>,
}

/// Returns the balancer's routes for operators, except the drain routes.
pub(crate) fn routes() -> Routes<OperatorApi> {
    Routes::new()
        .with(Method::Get, "/openapi.json", document)
        .with(Method::Get, "/server", server)
        .with(Method::Get, "/nodes", nodes)
        .with(Method::Get, "/explain/{client}", explain)
        .with(Method::Post, "/clients/{client}/kick", kick)
}

/// Returns the routes that other servers call.
pub(crate) fn server_routes() -> Routes<OperatorApi> {
    Routes::new().with(Method::Get, "/server", server)
}

async fn server(State(api): State<OperatorApi>) -> Result<Json<Server>, Refused> {
    Ok(Json(api.floor.ask(Floor::report).await?))
}

async fn nodes(State(api): State<OperatorApi>, parsed: QueryResult<NodesQuery>) -> Result<Json<Nodes>, Refused> {
    let client = api.client.at_most(query(parsed)?.timeout()?);
    let own = api.floor.ask(Floor::report).await?;
    let view = api.views.borrow().clone();
    Ok(Json(ask_all(&client, &view, own).await))
}

async fn explain(
    State(api): State<OperatorApi>,
    Path(name): Path<String>,
) -> Result<Json<BalancerExplanation>, Refused> {
    let (client, id) = (parse_client_id(&name)?, api.id);
    let explain = move |floor: &Floor| {
        floor.edge.with_core(|core| {
            floor.backend.with(|state| explanation(&state.placement, &id, &client, core.sessions_of(&client)))
        })
    };
    Ok(Json(api.floor.ask(explain).await?))
}

/// Explains which node owns a client, and where its sessions are.
fn explanation<'a>(
    placement: &Placement,
    asked: &NodeId,
    client: &ClientId,
    sessions: impl Iterator<Item = &'a Session>,
) -> BalancerExplanation {
    let view = placement.view();
    let members = view.members().iter().map(|member| member.id.as_str());
    let candidate = |(node, score): (String, String)| Candidate {
        eligible: placement.is_eligible(&node),
        draining: placement.is_draining(&node),
        suspect: placement.suspect_ids().any(|suspect| suspect.as_str() == node),
        trunk: Some(placement.has_link(&node)),
        node,
        score,
    };
    let owner = placement.owner_id(KeyHash::of(client.as_str()));
    let mut explanation = BalancerExplanation {
        client_id: client.as_str().to_owned(),
        asked: asked.as_str().to_owned(),
        view: view_name(view),
        why: String::new(),
        owner: owner.map(str::to_owned),
        ranking: scores(placement.hash_seed(), members, client.as_str()).into_iter().map(candidate).collect(),
        sessions: sessions.map(|session| edge_session(placement, owner, session)).collect(),
    };
    explanation.why = explanation.sentence();
    explanation
}

fn edge_session(placement: &Placement, owner: Option<&str>, session: &Session) -> EdgeSession {
    let link = session.attached_to().map(|(link, _)| link);
    let is_elsewhere = |link| placement.owner_elsewhere(session.key, link).is_some();
    let (place, is_moving) = match session.attachment {
        Attachment::Detached => (PlaceState::Nowhere, false),
        Attachment::Attached(_) => (PlaceState::At, link.is_some_and(is_elsewhere)),
        Attachment::Releasing(_) => (PlaceState::Leaving, true),
    };
    EdgeSession {
        session: session.id.to_string(),
        generation: session.accepted_at_us,
        since_ms: session.accepted_at_us / 1_000,
        reliable: session.is_reliable(),
        socket: match session.phase {
            SessionPhase::Waiting | SessionPhase::Accepted { .. } => SocketState::Waiting,
            SessionPhase::Open { paused: false, .. } => SocketState::Open,
            SessionPhase::Open { paused: true, .. } => SocketState::Paused,
            SessionPhase::Closed { .. } => SocketState::Closed,
        },
        place,
        node: link.and_then(|link| placement.node_at(link)).map(|node| node.as_str().to_owned()),
        moving_to: owner.filter(|_| is_moving).map(str::to_owned),
        unfated: Queue { messages: session.buffer.len(), bytes: session.buffer.bytes() },
        unwritten_bytes: session.unwritten_bytes(),
    }
}

async fn kick(State(api): State<OperatorApi>, Path(name): Path<String>) -> Result<Json<Kicked>, Refused> {
    let (client, client_id) = (parse_client_id(&name)?, name);
    let was_here = api.floor.ask(move |floor| floor.edge.kick(&client)).await?;
    Ok(Json(Kicked { client_id, was_here, missing: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use signaling_admin::openapi::operations;
    use signaling_admin::servers::Role;
    use signaling_server::{DrainSwitch, Health, Shutdown};

    use super::*;

    #[test]
    fn routes_equal_the_description() {
        let mut listed = routes().list();
        listed.extend(DrainSwitch::new(Health::new(), Shutdown::new()).routes().list());
        listed.sort();
        assert_eq!(listed, operations(Role::Balancer));
    }
}
