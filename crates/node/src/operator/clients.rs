//! Clients of the mesh for operators: lists and lookups.

use axum::Json;
use axum::extract::{Path, State};
use http::StatusCode;
use signaling_admin::clients::{Client, ClientRow, ClientState, Clients};
use signaling_admin::page::MAX_NAMES;
use signaling_admin::{Missing, Page, PageQuery};
use signaling_core::node::NodeCore;
use signaling_protocol::ClientId;
use signaling_server::admin::handlers::QueryResult;
use signaling_server::http::Refused;

use super::{OperatorApi, explain, page};

/// Serves `GET /admin/clients`: a page of the clients with a socket.
pub(super) async fn list(
    State(api): State<OperatorApi>,
    parsed: QueryResult<PageQuery>,
) -> Result<Json<Clients>, Refused> {
    let (page, is_here_alone) = page(parsed, MAX_NAMES)?;
    let (path, asked) = (format!("clients?{}", page.query()), page.clone());
    let (own, mut nodes, missing) = api.collect(is_here_alone, &path, move |core| here(core, &asked)).await?;
    nodes.push(own);
    Ok(Json(Clients::merge(&page, nodes, missing)))
}

/// Returns a page of the clients that this node serves.
fn here(core: &NodeCore, page: &Page) -> Clients {
    let (ids, more) = page.pick(core.client_ids().map(ClientId::as_str));
    let row = |id: &&str| {
        let session = core.session(&ClientId::new(id).ok()?)?;
        Some(ClientRow {
            client_id: (*id).to_owned(),
            node: core.settings().id.as_str().to_owned(),
            edge: session.edge.map(str::to_owned),
            session: session.id.to_string(),
            since_ms: session.since_ms,
            generation: session.rank.0,
            reliable: session.id.is_reliable(),
        })
    };
    let next = ids.last().filter(|_| more).map(|id| (*id).to_owned());
    Clients { clients: ids.iter().filter_map(row).collect(), next, missing: Vec::new() }
}

/// Serves `GET /admin/clients/CLIENT`. Refuses a client without a session by 404 `no_such_client`.
pub(super) async fn find(State(api): State<OperatorApi>, Path(name): Path<String>) -> Result<Json<Client>, Refused> {
    let client = ClientId::new(&name)?;
    let mut explanation = explain::everywhere(&api, &client).await?;
    let (state, at) = match explanation.serving() {
        Some((at, _)) => (ClientState::Connected, at.clone()),
        None => match explanation.nodes.iter().position(|at| at.lingering.is_some()) {
            Some(at) => (ClientState::Lingering, explanation.nodes.swap_remove(at)),
            None => return Err(nowhere(&explanation.missing)),
        },
    };
    let (owner, missing) = (explanation.owner, explanation.missing);
    Ok(Json(Client { client_id: client.as_str().to_owned(), state, owner, at, missing }))
}

fn nowhere(missing: &[Missing]) -> Refused {
    let silent: Vec<_> = missing.iter().map(|missing| missing.node.as_str()).collect();
    let message = match &silent[..] {
        [] => "no node serves this client now".to_owned(),
        silent => format!("no node that answers serves this client now; no answer from {}", silent.join(", ")),
    };
    Refused::new(StatusCode::NOT_FOUND, "no_such_client", message)
}
