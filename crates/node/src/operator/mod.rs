//! Operator routes. Any node answers a request about the whole mesh: it asks the peer nodes too.
//! `run` mounts the routes under `/admin` for operators, behind the admin token. It also mounts
//! them under `BETWEEN_SERVERS` for other servers, behind the mesh secret.

mod clients;
mod explain;
mod kicks;
mod peer_queries;
mod rooms;
mod servers;

use axum::Router;
use axum::routing::{delete, get, post, put};
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use signaling_admin::{Missing, Page, PageQuery};
use signaling_protocol::NodeId;
use signaling_server::Health;
use signaling_server::admin::handlers::{QueryResult, bad_request, document, query};
use signaling_server::health::drain_routes;
use signaling_server::http::Refused;
use signaling_server::local_calls::{LocalCaller, Stopped};
use signaling_server::mesh_status::EDGES;

use crate::{Floor, Node};
use signaling_core::node::NodeCore;

pub(crate) use self::kicks::{kicks, learn_kicks};
pub(crate) use self::peer_queries::PeerQueries;
pub(crate) use self::rooms::OperatorReply;

#[derive(Clone)]
pub(crate) struct OperatorApi {
    /// Caller of functions on the node's own thread, with the node, its edge and its status.
    pub floor: LocalCaller<Floor>,
    /// Sender of requests to the peer nodes.
    pub peers: PeerQueries,
    /// Readiness of this node, which `/drain` and `/undrain` change.
    pub health: Health,
}

/// Returns all operator routes of a node, with paths relative to `/admin`. They do not check the
/// caller's token or secret.
pub(crate) fn operators(api: OperatorApi) -> Router {
    let drain = drain_routes(api.health.clone());
    Router::new()
        .route("/openapi.json", get(document))
        .route("/server", get(servers::server))
        .route("/nodes", get(servers::nodes))
        .route("/nodes/{node}/drain", post(servers::set_drained::<true>))
        .route("/nodes/{node}/undrain", post(servers::set_drained::<false>))
        .route("/clients", get(clients::list))
        .route("/clients/{client}", get(clients::find))
        .route("/clients/{client}/kick", post(kicks::kick))
        .route("/kicks", get(kicks::list))
        .route("/rooms", get(rooms::list))
        .route("/rooms/{room}", get(rooms::show))
        .route("/rooms/{room}/explain", get(explain::room))
        .route("/rooms/{room}/capacity", put(rooms::set_capacity).delete(rooms::reset_capacity))
        .route("/rooms/{room}/closed", put(rooms::close).delete(rooms::open))
        .route("/rooms/{room}/members/{client}", delete(rooms::remove))
        .route("/rooms/{room}/blocks/{client}", put(rooms::block).delete(rooms::unblock))
        .route("/explain/{client}", get(explain::explain))
        .with_state(api)
        .merge(drain)
}

/// Returns the routes of a node for other servers: all of operators, and the reports of its edges.
pub(crate) fn server_routes(api: OperatorApi) -> Router {
    let edges = Router::new().route(EDGES, get(servers::edges)).with_state(api.clone());
    operators(api).merge(edges)
}

impl OperatorApi {
    /// Calls a read-only function with the core, on the node's thread. The function must be short.
    /// Fails if the node stops.
    async fn core<R: Send + 'static>(&self, ask: impl FnOnce(&NodeCore) -> R + Send + 'static) -> Result<R, Stopped> {
        self.floor.ask(move |floor| floor.node.with_core_ref(ask)).await
    }

    /// Returns the answer of the own core, the answers of the peer nodes to `GET PATH`, and the
    /// nodes without a usable answer within 5 s. With `is_here_alone` it asks no peer node.
    ///
    /// `path` is relative to `/admin`, without a slash at its start. It needs the query
    /// `here=true`, or each peer asks all others again. Fails if this node stops.
    async fn collect<T: DeserializeOwned + Send + 'static>(
        &self,
        is_here_alone: bool,
        path: &str,
        ask: impl FnOnce(&NodeCore) -> T + Send + 'static,
    ) -> Result<(T, Vec<T>, Vec<Missing>), Stopped> {
        if is_here_alone {
            return Ok((self.core(ask).await?, Vec::new(), Vec::new()));
        }
        let (own, (others, missing)) = tokio::join!(self.core(ask), self.peers.ask(Method::GET, path));
        Ok((own?, others, missing))
    }

    fn own(&self) -> &NodeId {
        &self.peers.own
    }
}

impl Node {
    /// Calls a read-only function with the core. Panics within a call of [`Self::with_core`].
    pub(crate) fn with_core_ref<R>(&self, ask: impl FnOnce(&NodeCore) -> R) -> R {
        ask(&self.0.borrow().core)
    }
}

/// Query `?here=true`: this node answers for itself alone. Without it, this node asks the peer
/// nodes too.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Here {
    #[serde(default)]
    here: bool,
}

/// Returns the requested page of at most `most` names, and `true` if it is of this node alone. An
/// invalid query is refused with 400 `bad_request`.
fn page(parsed: QueryResult<PageQuery>, most: usize) -> Result<(Page, bool), Refused> {
    let query = query(parsed)?;
    let here = query.here;
    Ok((query.check(most).map_err(bad_request)?, here))
}
