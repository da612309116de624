//! Operator routes under `/admin`. About the mesh, any node answers: it asks the others.

mod clients;
mod explain;
mod kicks;
mod peer_queries;
mod rooms;
mod servers;

use serde::Deserialize;
use signaling_admin::{Page, PageQuery};
use signaling_protocol::NodeId;
use signaling_rooms::RedisRegistry;
use signaling_server::DrainSwitch;
use signaling_server::admin::handlers::{QueryResult, bad_request, document, query};
use signaling_server::admin::{Method, Routes};
use signaling_server::ask::{LocalCaller, Stopped};
use signaling_server::http::Refused;

use super::{Floor, Node};
use signaling_core::node::NodeCore;

pub use self::kicks::learn_kicks;
pub use self::peer_queries::PeerQueries;

/// State of the operator routes.
#[derive(Clone)]
pub struct OperatorApi {
    /// Calls into the node's thread.
    pub floor: LocalCaller<Floor>,
    /// The peer nodes.
    pub peers: PeerQueries,
    /// Registry of clients; `None`: the rooms are not in Redis.
    pub registry: Option<RedisRegistry>,
    /// Drains and undrains this node.
    pub switch: DrainSwitch,
}

/// Returns all operator routes of a node, below `/admin`.
#[must_use]
pub fn operators(api: OperatorApi) -> Routes {
    let switch = api.switch.routes();
    routes().with_state(api).merge(switch)
}

fn routes() -> Routes<OperatorApi> {
    Routes::new()
        .with(Method::Get, "/openapi.json", document)
        .with(Method::Get, "/server", servers::server)
        .with(Method::Get, "/nodes", servers::nodes)
        .with(Method::Post, "/nodes/{node}/drain", servers::drain)
        .with(Method::Post, "/nodes/{node}/undrain", servers::undrain)
        .with(Method::Get, "/clients", clients::list)
        .with(Method::Get, "/clients/{client}", clients::find)
        .with(Method::Post, "/clients/{client}/kick", clients::kick)
        .with(Method::Get, "/kicks", kicks::list)
        .with(Method::Get, "/rooms", rooms::list)
        .with(Method::Get, "/rooms/{room}", rooms::show)
        .with(Method::Get, "/rooms/{room}/explain", explain::room)
        .with(Method::Put, "/rooms/{room}/capacity", rooms::set_capacity)
        .with(Method::Delete, "/rooms/{room}/capacity", rooms::reset_capacity)
        .with(Method::Get, "/explain/{client}", explain::explain)
}

impl OperatorApi {
    /// Calls a read-only function with the core, on the node's thread.
    async fn core<R: Send + 'static>(&self, ask: impl FnOnce(&NodeCore) -> R + Send + 'static) -> Result<R, Stopped> {
        self.floor.ask(move |floor| floor.node.with_core_ref(ask)).await
    }

    fn own(&self) -> &NodeId {
        &self.peers.own
    }
}

impl Node {
    /// Calls a read-only function with the core.
    pub(super) fn with_core_ref<R>(&self, ask: impl FnOnce(&NodeCore) -> R) -> R {
        ask(&self.0.borrow().core)
    }
}

/// Query `?here=true`: no other node is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Here {
    #[serde(default)]
    here: bool,
}

/// Returns the requested page, and `true` if it is of this node alone.
fn page(parsed: QueryResult<PageQuery>, most: usize) -> Result<(Page, bool), Refused> {
    let query = query(parsed)?;
    let here = query.here;
    Ok((query.check(most).map_err(bad_request)?, here))
}

#[cfg(test)]
mod tests {
    use signaling_admin::openapi::operations;
    use signaling_admin::servers::Role;
    use signaling_server::{Health, Shutdown};

    use super::*;

    #[test]
    fn routes_equal_the_description() {
        let mut listed = routes().list();
        listed.extend(DrainSwitch::new(Health::new(), Shutdown::new()).routes().list());
        listed.sort();
        assert_eq!(listed, operations(Role::Node));
    }
}
