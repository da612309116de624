//! The HTTP server: routes, the token, and requests that fail by a status or hang.

use std::collections::HashMap;

use axum::body::Body;
use axum::extract::{Path, Query, Request, State as Extracted};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::store::Selection;
use crate::watching::{WatchRequest, lines};
use crate::{Asked, Fault, Shared, TOKEN};

/// Serves until dropped, which cuts all connections.
pub(crate) async fn serve(listener: TcpListener, shared: Shared) {
    let router = Router::new()
        .route("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", get(slices))
        .route_layer(from_fn(require_token))
        .fallback(async || status(404))
        .layer(from_fn_with_state(shared.clone(), record))
        .with_state(shared);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.unwrap();
                connections.spawn(serve_connection(stream, router.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    // Some tests break the connection on purpose.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

async fn record(
    Extracted(shared): Extracted<Shared>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
    next: Next,
) -> Response {
    let asked = Asked::new(request.method(), request.uri().path(), is_watch(&query));
    shared.send_if_modified(|state| {
        state.asked.push(asked);
        false
    });
    next.run(request).await
}

async fn require_token(request: Request, next: Next) -> Response {
    let is_right = request.headers().get(AUTHORIZATION).is_some_and(|value| *value == format!("Bearer {TOKEN}"));
    if is_right { next.run(request).await } else { status(401) }
}

fn is_watch(query: &HashMap<String, String>) -> bool {
    query.get("watch").is_some_and(|value| value == "true" || value == "1")
}

async fn slices(
    Extracted(shared): Extracted<Shared>,
    Path(namespace): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let is_watch = is_watch(&query);
    let fault = if is_watch { shared.borrow().watch_fault } else { shared.borrow().list_fault };
    match fault {
        Some(Fault::Status(code)) => return status(code),
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(other) if !is_watch => panic!("a list cannot fail by {other:?}"),
        _ => {}
    }
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    let selection = Selection::new(namespace, value("labelSelector"));
    if !is_watch {
        return json_answer(200, &shared.borrow().store.list(&selection));
    }
    let (version, seconds) = (value("resourceVersion").parse().unwrap(), value("timeoutSeconds").parse().unwrap());
    let lines = lines(shared, WatchRequest { selection, version, seconds });
    ([(CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}

fn status(code: u16) -> Response {
    json_answer(code, &status_object(code))
}

/// Returns an object as a real API server sends it with this HTTP status.
pub(crate) fn status_object(code: u16) -> Value {
    let reason = StatusCode::from_u16(code).unwrap().canonical_reason();
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("the stand-in answers {code}"), "reason": reason, "code": code,
    })
}

fn json_answer(code: u16, body: &Value) -> Response {
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}
