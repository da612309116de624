//! Kicks that this node remembers. At its start it gets those of other nodes. `run` starts that.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use http::Method;
use signaling_admin::clients::{Kick, Kicks};
use signaling_protocol::ClientId;
use signaling_server::http::Refused;
use tokio::time::sleep;
use tracing::debug;

use super::{OperatorApi, PeerQueries};
use crate::shell::Node;

/// Maximum attempts; other nodes may be starting too and answer later.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Serves `GET /admin/kicks`: the kicks that this node remembers.
pub(super) async fn list(State(api): State<OperatorApi>) -> Result<Json<Kicks>, Refused> {
    let kick = |(client, at): (&ClientId, u64)| Kick { client_id: client.as_str().to_owned(), at };
    Ok(Json(api.core(move |core| Kicks { kicks: core.kicks().map(kick).collect() }).await?))
}

/// Asks the other nodes until all have answered and there is one, at most 10 times 1 s apart, and
/// adds their kicks. Edges report kicks too, but a node for direct clients alone has none.
pub async fn learn_kicks(node: Node, peers: PeerQueries) {
    for _ in 0..MAX_ATTEMPTS {
        let (answers, missing) = peers.ask::<Kicks>(Method::GET, "kicks").await;
        let are_all = !answers.is_empty() && missing.is_empty();
        let now = Instant::now();
        node.with_core(|core| {
            for kick in answers.into_iter().flat_map(|answer| answer.kicks) {
                if let Ok(client) = ClientId::new(&kick.client_id) {
                    core.learn_kick(now, &client, kick.at);
                }
            }
        });
        if are_all {
            return;
        }
        sleep(RETRY_INTERVAL).await;
    }
    debug!("kicks not learned from all nodes");
}
