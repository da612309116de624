//! What a server tells its peers: `GET /internal/v1/load`, with the mesh secret.

use std::sync::Arc;

use ::http::{StatusCode, header};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::core::Standing;
use crate::Secrets;
use crate::http::refusal;
use crate::metrics::{InternalRefusal, refused_internal};

/// Where it is told.
pub const PATH: &str = "/internal/v1/load";

/// How many clients a server has, and whether it wants more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its name, whatever address it was asked by.
    pub id: String,
    /// Clients that it has.
    pub connections: u64,
    /// How it stands to new ones.
    pub standing: Standing,
}

/// Holds the report of this server. A cheap clone shares it.
#[derive(Debug, Clone)]
pub struct Desk(watch::Sender<Arc<Report>>);

impl Desk {
    /// Closed, until something else is said.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let report = Report { id: id.to_owned(), connections: 0, standing: Standing::Closed };
        Self(watch::Sender::new(Arc::new(report)))
    }

    /// Says this from now on.
    pub(super) fn say(&self, connections: u64, standing: Standing) {
        self.0.send_modify(|report| *report = Arc::new(Report { id: report.id.clone(), connections, standing }));
    }

    /// The route, for whoever shows the mesh secret.
    pub fn router(&self, secrets: Secrets) -> Router {
        Router::new().route(PATH, get(tell)).with_state((self.clone(), secrets))
    }
}

async fn tell(State((desk, secrets)): State<(Desk, Secrets)>, headers: ::http::HeaderMap) -> Response {
    if !secrets.authorize(&headers) {
        refused_internal(InternalRefusal::Secret);
        let message = "this needs the mesh secret as bearer token";
        return refusal(StatusCode::UNAUTHORIZED, "unauthorized", message, None);
    }
    let report = Arc::clone(&desk.0.borrow());
    ([(header::CACHE_CONTROL, "no-store")], Json(&*report)).into_response()
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
    async fn only_servers_of_the_mesh_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, SECRET).unwrap();
        let desk = Desk::new("balancer-0");
        desk.say(1_240, Standing::Crowded);
        let router = desk.router(Secrets::read("--mesh-secret-file", &path).unwrap());
        let ask = async |bearer: &str| {
            let request = Request::get(PATH).header(AUTHORIZATION, format!("Bearer {bearer}")).body(Body::empty());
            let response = router.clone().oneshot(request.unwrap()).await.unwrap();
            let status = response.status().as_u16();
            (status, String::from_utf8(to_bytes(response.into_body(), 1_024).await.unwrap().to_vec()).unwrap())
        };
        let told = r#"{"id":"balancer-0","connections":1240,"standing":"crowded"}"#;
        assert_eq!(ask(SECRET).await, (200, told.into()));
        assert_eq!(ask("a-mesh-secret-of-theirs").await.0, 401);
    }

    #[test]
    fn what_a_later_release_may_say_means_that_it_takes_no_clients() {
        let report: Report = serde_json::from_str(r#"{"id":"a","connections":1,"standing":"basking"}"#).unwrap();
        assert_eq!(report.standing, Standing::Closed);
    }
}
