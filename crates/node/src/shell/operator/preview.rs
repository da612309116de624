//! Previews of the clients that would move if a node joined or left.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use signaling_admin::page::MAX_NAMES;
use signaling_admin::preview::{Change, Preview, PreviewError, Rankings};
use signaling_admin::{Missing, Page, PageQuery};
use signaling_core::node::NodeCore;
use signaling_protocol::{ClientId, NodeId};
use signaling_server::admin::handlers::{QueryResult, bad_name, bad_request, query, view_name};
use signaling_server::http::Refused;

use super::OperatorApi;

/// Query of a preview: either `join` or `leave`, and the page of moving clients.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewQuery {
    join: Option<String>,
    leave: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    here: bool,
}

impl PreviewQuery {
    fn change(&self) -> Result<Change, Refused> {
        let change = match (&self.join, &self.leave) {
            (Some(node), None) => Change::Join(node.clone()),
            (None, Some(node)) => Change::Leave(node.clone()),
            _ => return Err(bad_request("send join=NODE or leave=NODE".to_owned())),
        };
        let (Change::Join(node) | Change::Leave(node)) = &change;
        NodeId::new(node).map_err(bad_name)?;
        Ok(change)
    }
}

/// Serves `GET /admin/preview`.
pub(super) async fn preview(
    State(api): State<OperatorApi>,
    parsed: QueryResult<PreviewQuery>,
) -> Result<Json<Preview>, Refused> {
    let asked = query(parsed)?;
    let change = asked.change()?;
    let word = match &change {
        Change::Join(node) => format!("join={node}"),
        Change::Leave(node) => format!("leave={node}"),
    };
    let is_here_alone = asked.here;
    let page = PageQuery { after: asked.after, limit: asked.limit, prefix: None, here: is_here_alone };
    let page = page.check(MAX_NAMES).map_err(bad_request)?;
    let own = api.core({
        let page = page.clone();
        move |core| here(core, &change, &page)
    });
    let mut whole = own.await?.map_err(|error| refused(&error))?;
    if is_here_alone {
        return Ok(Json(whole));
    }
    let path = format!("preview?{word}&{}", page.query());
    let (others, mut missing) = api.peers.ask::<Preview>(http::Method::GET, &path).await;
    for (node, part) in others {
        if part.view == whole.view {
            whole.add(part);
        } else {
            let why = "it has another view at this moment".to_owned();
            missing.push(Missing { node: node.as_str().to_owned(), why });
        }
    }
    Ok(Json(whole.finish(&page, missing)))
}

/// Returns the effect of a change on this node's clients. The result depends only on the view, so
/// all nodes use the same rules.
fn here(core: &NodeCore, change: &Change, page: &Page) -> Result<Preview, PreviewError> {
    let members: Vec<_> = core.view().members().iter().map(|it| (it.id.as_str(), it.draining)).collect();
    let rankings = Rankings::new(core.settings().hash_seed, &members, change)?;
    let clients = core.client_ids().map(ClientId::as_str);
    Ok(rankings.preview(view_name(core.view()), change, core.settings().id.as_str(), clients, page))
}

fn refused(error: &PreviewError) -> Refused {
    let (status, code) = match error {
        PreviewError::Unknown(_) => (StatusCode::NOT_FOUND, "no_such_node"),
        PreviewError::AlreadyServing(_) => (StatusCode::CONFLICT, "is_there"),
        PreviewError::Last(_) => (StatusCode::CONFLICT, "last_node"),
    };
    Refused::new(status, code, error.message())
}
