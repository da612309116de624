//! `mesh-dev page`: serves the demo, and forwards all other requests to a mesh elsewhere, so that
//! page and mesh have one origin.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse as _, Response};
use clap::Args;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use reqwest::Url;
use signaling_server::http::refusal;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::{debug, warn};

/// Maximum size of a request's body in bytes, above that of any request to a public listener.
const MAX_BODY_BYTES: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of the head of the mesh's answer, above that of a handshake.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Options of `mesh-dev page`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PageOptions {
    /// Address of a balancer, or of the proxy before the balancers, as http://HOST:PORT
    #[arg(long, value_name = "URL")]
    to: Url,
    /// Address on which the page is served
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

/// Where requests beside the page go.
#[derive(Clone, Debug)]
struct Mesh {
    url: Url,
    http: reqwest::Client,
}

/// Serves the page until a signal. Fails if the URL is not that of a server, or the address cannot
/// be bound.
pub(crate) async fn serve(options: PageOptions) -> Result<()> {
    let is_server = options.to.scheme() == "http" && options.to.path() == "/";
    ensure!(is_server, "--to {} must be http://HOST:PORT, without TLS and path", options.to);
    let listener = TcpListener::bind(options.listen).await.with_context(|| format!("--listen {}", options.listen))?;
    // As process 1 of a container it would ignore a signal without a handler.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    println!("page      http://{}/", listener.local_addr()?);
    let app = router(options.to)?.into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        served = axum::serve(listener, app).into_future() => served.context("cannot serve the page"),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn router(url: Url) -> Result<Router> {
    let http = reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .context("cannot create an HTTP client")?;
    Ok(Router::new().fallback(forward).with_state(Mesh { url, http }).merge(signaling_demo::router(None)))
}

/// Sends a request to the mesh. Copies the bytes of an upgraded connection until it ends.
async fn forward(
    State(mesh): State<Mesh>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Response {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "a request has at most 64 KiB", None);
    };
    let answer = match send(&mesh, client, parts, body).await {
        Ok(answer) => answer,
        Err(error) => {
            warn!(%error, "the mesh does not answer");
            return refusal(StatusCode::BAD_GATEWAY, "no_mesh", "the mesh does not answer", None);
        }
    };
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = match upgrade {
        Some(upgrade) if status == StatusCode::SWITCHING_PROTOCOLS => {
            tokio::spawn(copy(upgrade, answer));
            Body::empty()
        }
        _ => Body::new(reqwest::Body::from(answer)),
    };
    (status, headers, body).into_response()
}

async fn send(mesh: &Mesh, client: SocketAddr, parts: Parts, body: Bytes) -> Result<reqwest::Response> {
    let mut url = mesh.url.clone();
    url.set_path(parts.uri.path());
    url.set_query(parts.uri.query());
    let mut headers = parts.headers;
    headers.append(FORWARDED_FOR, HeaderValue::from_str(&client.ip().to_string())?);
    let request = mesh.http.request(parts.method, url).headers(headers).body(body);
    let answer = timeout(ANSWER_TIMEOUT, request.send()).await.context("no answer in time")?;
    answer.map_err(|error| error.without_url().into())
}

async fn copy(upgrade: OnUpgrade, answer: reqwest::Response) {
    let (Ok(client), Ok(mut mesh)) = tokio::join!(upgrade, answer.upgrade()) else { return };
    if let Err(error) = copy_bidirectional(&mut TokioIo::new(client), &mut mesh).await {
        debug!(%error, "a client's connection has ended");
    }
}
