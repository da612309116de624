//! Why a client is where it is.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use signaling_admin::explain::Explanation;
use signaling_protocol::ClientId;
use signaling_server::ask::Stopped;
use signaling_server::http::Refused;
use tokio::time::sleep;

use super::{Asked, Here, OperatorApi, client, query};

/// Longer than a client is on its way from one node to another.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(super) async fn explain(
    State(desk): State<OperatorApi>,
    Path(name): Path<String>,
    asked: Asked<Here>,
) -> Result<Json<Explanation>, Refused> {
    let (client, Here { here }) = (client(&name)?, query(asked)?);
    Ok(Json(if here { here_alone(&desk, client).await? } else { everywhere(&desk, &client).await? }))
}

async fn here_alone(desk: &OperatorApi, client: ClientId) -> Result<Explanation, Stopped> {
    desk.core(move |core| core.explain(Instant::now(), &client)).await
}

/// By the view of this node, with what all nodes have of the client. Nodes answer at different moments, so that a client on its
/// way may be nowhere: where nobody has it, all are asked once more.
pub(super) async fn everywhere(desk: &OperatorApi, client: &ClientId) -> Result<Explanation, Stopped> {
    let first = look(desk, client).await?;
    if !first.is_nowhere() {
        return Ok(first);
    }
    sleep(LOOK_AGAIN).await;
    look(desk, client).await
}

async fn look(desk: &OperatorApi, client: &ClientId) -> Result<Explanation, Stopped> {
    let path = format!("explain/{}?here=true", client.as_str());
    let (own, (others, missing)) =
        tokio::join!(here_alone(desk, client.clone()), desk.peers.ask::<Explanation>(http::Method::GET, &path));
    let mut explanation = own?;
    explanation.nodes.extend(others.into_iter().flat_map(|(_, other)| other.nodes));
    explanation.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    explanation.missing = missing;
    explanation.why = explanation.sentence();
    Ok(explanation)
}
