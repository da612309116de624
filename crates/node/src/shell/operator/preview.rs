//! Which clients would move if a node joined or left.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use signaling_admin::page::MOST;
use signaling_admin::preview::{Change, NoChange, Preview};
use signaling_admin::{Missing, PageQuery};
use signaling_protocol::NodeId;
use signaling_server::http::Refused;

use super::{Asked, OperatorApi, bad_name, bad_request, query};

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
            _ => return Err(bad_request("say join=NODE or leave=NODE".to_owned())),
        };
        let (Change::Join(node) | Change::Leave(node)) = &change;
        NodeId::new(node).map_err(bad_name)?;
        Ok(change)
    }
}

pub(super) async fn preview(
    State(desk): State<OperatorApi>,
    asked: Asked<PreviewQuery>,
) -> Result<Json<Preview>, Refused> {
    let asked = query(asked)?;
    let change = asked.change()?;
    let word = match &change {
        Change::Join(node) => format!("join={node}"),
        Change::Leave(node) => format!("leave={node}"),
    };
    let here = asked.here;
    let page = PageQuery { after: asked.after, limit: asked.limit, prefix: None, here };
    let page = page.check(MOST).map_err(bad_request)?;
    let own = desk.core({
        let page = page.clone();
        move |core| core.preview(&change, &page)
    });
    let mut whole = own.await?.map_err(|no_change| refused(&no_change))?;
    if here {
        return Ok(Json(whole));
    }
    let path = format!("preview?{word}&{}", page.query());
    let (others, mut missing) = desk.peers.ask::<Preview>(http::Method::GET, &path).await;
    for (node, part) in others {
        if part.view == whole.view {
            whole.add(part);
        } else {
            let why = "it sees another set of nodes at this moment".to_owned();
            missing.push(Missing { node: node.as_str().to_owned(), why });
        }
    }
    Ok(Json(whole.finish(&page, missing)))
}

fn refused(no_change: &NoChange) -> Refused {
    let (status, code) = match no_change {
        NoChange::Unknown(_) => (StatusCode::NOT_FOUND, "no_such_node"),
        NoChange::IsThere(_) => (StatusCode::CONFLICT, "is_there"),
        NoChange::Last(_) => (StatusCode::CONFLICT, "last_node"),
    };
    Refused::new(status, code, no_change.message())
}
