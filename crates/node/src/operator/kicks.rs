//! Kicks by operators: orders, and the list that this node remembers. At its start it gets those of
//! other nodes. `run` starts that.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use http::Method;
use signaling_admin::clients::{Kick, Kicked, Kicks};
use signaling_core::edge::KickName;
use signaling_core::node::{KickedHere, NodeCore};
use signaling_protocol::ClientId;
use signaling_server::admin::handlers::{QueryResult, query};
use signaling_server::http::Refused;
use signaling_server::unix_time;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use super::{Here, OperatorApi, PeerQueries, explain};
use crate::Node;

/// Maximum attempts; other nodes may be starting too and answer later.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit of the lookup before a kick, so that a hanging node does not delay the kick.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(750);

/// Serves `POST /admin/clients/CLIENT/kick`: kicks at all nodes, with `?here=true` at this node.
/// `CLIENT` is a client id or the subject of tokens.
pub(super) async fn kick(
    State(api): State<OperatorApi>,
    Path(client_id): Path<String>,
    parsed: QueryResult<Here>,
) -> Result<Json<Kicked>, Refused> {
    let (name, Here { here }) = (KickName::new(&client_id), query(parsed)?);
    if here {
        let KickedHere { was_here, subject } = kick_here(&api, &name).await?;
        let subject = subject.map(|subject| subject.as_str().to_owned());
        return Ok(Json(Kicked { client_id, subject, was_here, missing: Vec::new() }));
    }
    // Look up first: the first node to order the kick ends the session at the other nodes too.
    let before = match ClientId::new(&client_id) {
        Ok(client) => timeout(LOOKUP_TIMEOUT, explain::everywhere(&api, &client)).await.ok().transpose()?,
        Err(_) => None,
    };
    let session = before.as_ref().and_then(|it| Some(it.serving()?.1.session.clone()));
    let known = before.is_some_and(|before| before.is_known());
    let mut kicked = kick_everywhere(&api, &name).await?;
    // A token does not return under another name: all nodes have to know its subject.
    if let Some(subject) = kicked.subject.as_deref().map(KickName::new) {
        let Kicked { was_here, missing, .. } = kick_everywhere(&api, &subject).await?;
        kicked.was_here |= was_here;
        kicked.missing.extend(missing);
        kicked.missing.sort();
        kicked.missing.dedup_by(|one, other| one.node == other.node);
    }
    kicked.was_here |= known;
    info!(client = %name, session, was_here = kicked.was_here, "client kicked by operator");
    Ok(Json(kicked))
}

async fn kick_here(api: &OperatorApi, name: &KickName) -> Result<KickedHere, Refused> {
    let name = name.clone();
    let kick = move |core: &mut NodeCore| core.kick(&name, unix_time().as_secs());
    Ok(api.floor.ask(move |floor| floor.node.with_core(kick)).await?)
}

async fn kick_everywhere(api: &OperatorApi, name: &KickName) -> Result<Kicked, Refused> {
    let path = format!("clients/{}/kick?here=true", segment(name.as_str()));
    let (own, (others, missing)) = tokio::join!(kick_here(api, name), api.peers.ask::<Kicked>(Method::POST, &path));
    let KickedHere { was_here, subject } = own?;
    let subject = subject.map(|subject| subject.as_str().to_owned());
    Ok(Kicked {
        client_id: name.as_str().to_owned(),
        was_here: was_here || others.iter().any(|kicked| kicked.was_here),
        subject: subject.or_else(|| others.into_iter().find_map(|kicked| kicked.subject)),
        missing,
    })
}

/// Returns a text as one segment of a path (RFC 3986, section 3.3).
fn segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

/// Serves `GET /admin/kicks`: the kicks that this node remembers.
pub(super) async fn list(State(api): State<OperatorApi>) -> Result<Json<Kicks>, Refused> {
    Ok(Json(api.core(kicks).await?))
}

pub(crate) fn kicks(core: &NodeCore) -> Kicks {
    let kick = |(name, at): (&KickName, u64)| Kick { client_id: name.as_str().to_owned(), at };
    Kicks { kicks: core.kicks().iter().map(kick).collect() }
}

/// Asks the other nodes until all have answered and there is one, at most 10 times 1 s apart, and
/// adds their kicks. Edges report kicks too, but a node for direct clients alone has none.
pub(crate) async fn learn_kicks(node: Node, peers: PeerQueries) {
    for _ in 0..MAX_ATTEMPTS {
        let (answers, missing) = peers.ask::<Kicks>(Method::GET, "kicks").await;
        let are_all = !answers.is_empty() && missing.is_empty();
        let now = Instant::now();
        node.with_core(|core| {
            for kick in answers.into_iter().flat_map(|answer| answer.kicks) {
                core.learn_kick(now, None, &KickName::new(&kick.client_id), kick.at);
            }
        });
        if are_all {
            return;
        }
        sleep(RETRY_INTERVAL).await;
    }
    debug!("kicks not learned from all nodes");
}
