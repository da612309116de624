//! Serves this server's client count to its peers: `GET /internal/v1/load`, with the mesh secret.

use std::sync::Arc;

use ::http::header;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::rule::{Load, ReadinessState};
use crate::Secrets;
use crate::auth::require_mesh_secret;

/// Path of the report.
pub const PATH: &str = "/internal/v1/load";

/// Client count and readiness of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Server id, whatever address was asked.
    pub id: String,
    /// Connected clients.
    pub clients: u64,
    /// Readiness for new clients.
    pub state: ReadinessState,
}

/// Holds the report of this server. A clone shares it.
#[derive(Debug, Clone)]
pub struct LoadReportServer(watch::Sender<Arc<LoadReport>>);

impl LoadReportServer {
    /// Returns a report of a closed server without clients.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let report = LoadReport { id: id.to_owned(), clients: 0, state: ReadinessState::Closed };
        Self(watch::Sender::new(Arc::new(report)))
    }

    pub(super) fn set(&self, load: Load) {
        let Load { clients, state } = load;
        self.0.send_modify(|report| *report = Arc::new(LoadReport { id: report.id.clone(), clients, state }));
    }

    /// Returns the route. It answers 401 without the mesh secret.
    pub fn router(&self, secrets: Secrets) -> Router {
        let guard = from_fn_with_state(secrets, require_mesh_secret);
        Router::new().route(PATH, get(report)).layer(guard).with_state(self.clone())
    }
}

async fn report(State(server): State<LoadReportServer>) -> impl IntoResponse {
    let report = Arc::clone(&server.0.borrow());
    ([(header::CACHE_CONTROL, "no-store")], Json((*report).clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ::http::Request;
    use ::http::header::AUTHORIZATION;
    use axum::body::{Body, to_bytes};
    use tower::ServiceExt as _;

    use super::*;

    const SECRET: &str = "a-mesh-secret-of-ours";

    #[tokio::test]
    async fn report_needs_the_mesh_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, SECRET).unwrap();
        let server = LoadReportServer::new("balancer-0");
        server.set(Load { clients: 1_240, state: ReadinessState::Unready });
        let router = server.router(Secrets::read("--mesh-secret-file", &path).unwrap());
        let get = async |bearer: &str| {
            let request = Request::get(PATH).header(AUTHORIZATION, format!("Bearer {bearer}")).body(Body::empty());
            let response = router.clone().oneshot(request.unwrap()).await.unwrap();
            let status = response.status().as_u16();
            (status, String::from_utf8(to_bytes(response.into_body(), 1_024).await.unwrap().to_vec()).unwrap())
        };
        let expected = r#"{"id":"balancer-0","clients":1240,"state":"unready"}"#;
        assert_eq!(get(SECRET).await, (200, expected.into()));
        assert_eq!(get("a-mesh-secret-of-theirs").await.0, 401);
    }

    #[test]
    fn unknown_state_of_a_newer_release_means_closed() {
        let report: LoadReport = serde_json::from_str(r#"{"id":"a","clients":1,"state":"basking"}"#).unwrap();
        assert_eq!(report.state, ReadinessState::Closed);
    }
}
