//! Operators' requests to the peer nodes of the view. The operator routes call it.

use std::sync::Arc;

use http::Method;
use serde::de::DeserializeOwned;
use signaling_admin::Missing;
use signaling_membership::View;
use signaling_protocol::NodeId;
use signaling_server::admin::BETWEEN_SERVERS;
use signaling_server::server_client::ServerClient;
use tokio::sync::watch;

/// Sends operator requests to the peer nodes.
#[derive(Clone)]
pub(crate) struct PeerQueries {
    /// Name of this node, which is not asked.
    pub own: NodeId,
    /// Client that sends the requests.
    pub client: ServerClient,
    /// Views of the mesh.
    pub views: watch::Receiver<Arc<View>>,
}

impl PeerQueries {
    pub(super) fn view(&self) -> Arc<View> {
        self.views.borrow().clone()
    }

    /// Sends a request for `path` below [`BETWEEN_SERVERS`] to all peer nodes of the view, for at
    /// most 5 s. Returns their answers in the order of arrival, and the nodes without a usable one:
    /// a status other than 200, another format or no answer in time.
    pub(super) async fn ask<T>(&self, method: Method, path: &str) -> (Vec<T>, Vec<Missing>)
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (view, path) = (self.view(), format!("{BETWEEN_SERVERS}/{path}"));
        let found = self.client.request_all(&view, self.own.as_str(), method, &path).await;
        (found.answers.into_iter().map(|(_, answer)| answer).collect(), found.missing)
    }
}
