//! Helpers of this crate's unit tests.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use tower::ServiceExt as _;

use signaling_protocol::NodeId;
use signaling_wire::Incarnation;

use crate::proofs::Proofs;
use crate::{HashSeed, Secrets};

/// Returns the mesh secrets of a file with this content.
pub(crate) fn secrets(content: &str) -> Secrets {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    Secrets::read(file.path()).unwrap()
}

/// Returns the proofs of a server named "own".
pub(crate) fn proofs() -> Proofs {
    let (id, seed) = (NodeId::new("own").unwrap(), HashSeed::default());
    Proofs::new(id, Incarnation([7; 8]), seed, secrets(&"5a".repeat(32)))
}

/// Returns the status and body of a router's answer.
pub(crate) async fn ask(router: &Router, request: http::request::Builder) -> (u16, String) {
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Returns the status and body of a router's answer to a GET request.
pub(crate) async fn get(router: &Router, path: &str) -> (u16, String) {
    ask(router, Request::get(path)).await
}
