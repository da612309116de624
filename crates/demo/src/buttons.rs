//! Buttons of the demo page. Forwards their requests to the control socket of the `mesh-dev`
//! process that runs this mesh.
//!
//! The buttons can kill servers, so pages of other origins and other machines may not use them.
//! `mesh-dev` gets only requests that meet five conditions:
//!
//! - The connection comes from loopback.
//! - It has no header by which a proxy names itself (`Forwarded`, `Via`, `X-Forwarded-*`).
//! - It names a loopback host. A foreign name that resolves to loopback does not count.
//! - Its origin, if it has one, is that of this host.
//! - It has a header that pages of other origins can set only after a preflight. This server never
//!   answers a preflight.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::header::{CACHE_CONTROL, FORWARDED, HOST, ORIGIN, VIA};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use signaling_server::http::refusal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const PATH: &str = "/demo/mesh";
/// Header that the page sets. Other origins cannot send it without a preflight.
const MARK: &str = "x-signaling-demo";
const MAX_REQUEST_BYTES: usize = 256;
/// Enough for the status of many servers.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;
/// Time limit of a request, longer than a drain.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum unanswered requests.
const MAX_PRESSED: usize = 16;
const MAX_NODES: u32 = 9;

/// Request of a button, in the form that `mesh-dev` reads.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
enum Press {
    Status,
    Scale { nodes: u32 },
    Drain { id: String },
    Kill { id: String },
}

#[derive(Debug)]
struct Buttons {
    /// Control socket of `mesh-dev`, if one runs this mesh.
    control: Option<PathBuf>,
    pressed: Semaphore,
}

/// Returns the route `POST /demo/mesh` of the buttons. `control`: path of the control socket of
/// `mesh-dev`. `None`: a `status` request is answered that there are no buttons, others get 403.
pub(crate) fn router(control: Option<PathBuf>) -> Router {
    Router::new()
        .route(PATH, post(press))
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .with_state(Arc::new(Buttons { control, pressed: Semaphore::new(MAX_PRESSED) }))
}

async fn press(
    State(buttons): State<Arc<Buttons>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let no = |status, code, message: &str| refusal(status, code, message, None);
    if !headers.contains_key(MARK) || !is_of_this_page(&headers) {
        return no(StatusCode::FORBIDDEN, "forbidden", "only pages of this server may send this request");
    }
    let Some(press) = serde_json::from_slice::<Press>(&body).ok().filter(Press::is_valid) else {
        return no(StatusCode::BAD_REQUEST, "bad_request", "no such button, or the number of nodes is not 1 to 9");
    };
    let Some(control) = buttons.control.as_ref().filter(|_| is_from_here(peer, &headers)) else {
        return match press {
            Press::Status => no_buttons(),
            _ => no(
                StatusCode::FORBIDDEN,
                "forbidden",
                "only a browser on the machine of a local mesh may use the buttons",
            ),
        };
    };
    let Ok(_pressed) = buttons.pressed.try_acquire() else {
        return no(StatusCode::TOO_MANY_REQUESTS, "too_many", "too many requests; wait until earlier ones are done");
    };
    match timeout(ANSWER_TIMEOUT, ask(control, &press)).await {
        Ok(Ok(answer)) if answer["result"] == "failed" => {
            no(StatusCode::CONFLICT, "refused", answer["message"].as_str().unwrap_or_default())
        }
        Ok(Ok(answer)) => answered(answer),
        Ok(Err(_)) if matches!(press, Press::Status) => no_buttons(),
        Ok(Err(error)) => no(StatusCode::BAD_GATEWAY, "no_control", &format!("mesh-dev does not answer: {error}")),
        Err(_) => no(StatusCode::GATEWAY_TIMEOUT, "no_answer", "mesh-dev did not finish in time"),
    }
}

impl Press {
    fn is_valid(&self) -> bool {
        match self {
            Self::Status => true,
            Self::Scale { nodes } => (1..=MAX_NODES).contains(nodes),
            Self::Drain { id } | Self::Kill { id } => id.starts_with("node-"),
        }
    }
}

/// Returns `true` for this page's origin or none. Browsers send that of a POST; others need not.
fn is_of_this_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).unwrap_or_default();
    text(ORIGIN).is_none_or(|origin| origin.split_once("://").is_some_and(|(_, authority)| authority == host))
}

/// Returns `true` if a program on this machine sent the request, and no header names a proxy.
fn is_from_here(peer: SocketAddr, headers: &HeaderMap) -> bool {
    let names_proxy =
        |name: &HeaderName| *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded-");
    peer.ip().is_loopback() && names_loopback(headers) && !headers.keys().any(names_proxy)
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let authority = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

async fn ask(control: &PathBuf, press: &Press) -> std::io::Result<Value> {
    let mut socket = UnixStream::connect(control).await?;
    let mut line = serde_json::to_vec(press)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    let mut answer = Vec::new();
    socket.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    Ok(serde_json::from_slice(&answer)?)
}

fn no_buttons() -> Response {
    answered(json!({ "servers": null }))
}

fn answered(answer: Value) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(answer)).into_response()
}

#[cfg(test)]
mod tests;
