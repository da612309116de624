//! The lanes to other nodes: one task for each keeps an HTTP exchange open and writes the core's
//! batches into it. `run` starts them; each view changes them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Frame;
use http_body_util::Channel;
use http_body_util::channel::Sender;
use reqwest::Url;
use signaling_core::View;
use signaling_core::node::{NodeCore, PeerKey};
use signaling_protocol::Backoff;
use signaling_server::{FlushSignal, Secrets};
use signaling_wire::lane::{self, AcknowledgementReader, Opening};
use signaling_wire::{ExchangeNumber, Incarnation, limits};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Span, debug, info_span, warn};

use super::metrics::{LaneEnd, METRICS};
use super::{Node, OutboundLane};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of the response to an opening.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Duration of an exchange after which earlier failures are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(1);
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Returns the HTTP client for [`follow_views`]. It connects within 500 ms, or fails.
///
/// # Errors
/// If the system refuses a resource.
pub fn lane_http_client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Applies each view and keeps a lane to each of its peers open. Returns when the sender of views
/// is dropped; the lanes stay. Panics outside a `LocalSet`. `http` is from [`lane_http_client`].
/// `secrets`: the primary one is sent to peers.
pub async fn follow_views(node: Node, http: reqwest::Client, mut views: watch::Receiver<Arc<View>>, secrets: Secrets) {
    node.0.borrow_mut().lane_client = Some(LaneClient { http, secrets });
    loop {
        let view = views.borrow_and_update().clone();
        debug!(nodes = view.len(), hash = format!("{:016x}", view.hash()), "new view");
        node.with_core(|core| core.set_view(Instant::now(), view));
        update_lanes(&node);
        if views.changed().await.is_err() {
            return;
        }
    }
}

/// Client and secrets that all lanes share.
#[derive(Clone)]
pub(super) struct LaneClient {
    http: reqwest::Client,
    secrets: Secrets,
}

/// Ends the lanes to removed peers, starts lanes to new peers, and restarts those with a changed
/// address. Logs and skips invalid addresses. Does nothing before [`follow_views`].
pub(super) fn update_lanes(node: &Node) {
    let mut state = node.0.borrow_mut();
    let Some(client) = state.lane_client.clone() else { return };
    let peers: Vec<_> = state.core.peers().map(|(peer, address)| (peer, address.to_owned())).collect();
    state.lanes.retain(|key, _| peers.iter().any(|(peer, _)| *peer == key));
    for (peer, address) in peers {
        let Ok(url) = Url::parse(&format!("http://{address}{}", lane::PATH)) else {
            warn!(%address, "cannot forward: no usable address");
            continue;
        };
        if state.lanes.get(peer).is_some_and(|lane| lane.url == url) {
            continue;
        }
        let signal = Rc::new(FlushSignal::new(&state.coalescer));
        let sender = LaneSender {
            node: node.clone(),
            client: client.clone(),
            url: url.clone(),
            peer,
            signal: Rc::clone(&signal),
            span: info_span!("lane", peer = %address),
        };
        let task = AbortOnDropHandle::new(tokio::task::spawn_local(sender.run()));
        state.lanes.insert(peer, OutboundLane { url, signal, _task: task });
    }
}

/// Task of one lane.
struct LaneSender {
    node: Node,
    client: LaneClient,
    url: Url,
    peer: PeerKey,
    signal: Rc<FlushSignal>,
    /// Each event names the span; it is never entered, since that would cost time per batch.
    span: Span,
}

/// An exchange that the peer has accepted.
struct Opened {
    exchange: ExchangeNumber,
    response: reqwest::Response,
    body: Sender<Bytes, io::Error>,
}

impl LaneSender {
    /// Keeps an exchange open until the peer leaves the core's view.
    async fn run(self) {
        let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
        while let Some(opening) = self.with_core(|core, now| core.open_lane(now, self.peer)) {
            let started = Instant::now();
            let (end, why) = match self.open(&opening).await {
                Ok(opened) => self.serve(opened).await,
                Err(failed) => failed,
            };
            self.with_core(|core, now| core.lane_ended(now, self.peer, opening.exchange));
            METRICS.lane_ends.of(end).inc();
            match end {
                LaneEnd::Refused => self.with_core(|core, now| core.refused(now, self.peer)),
                LaneEnd::Rejected => warn!(parent: &self.span, why, "lane rejected by the peer"),
                LaneEnd::Closed | LaneEnd::Broken | LaneEnd::Cut => {}
            }
            // The sweep warns of a suspect peer once.
            debug!(parent: &self.span, why, "lane ended");
            if started.elapsed() >= STABLE_AFTER {
                backoff.reset();
            }
            sleep(backoff.next_limit()).await;
        }
    }

    /// Opens an exchange. Fails with the kind of failure and its reason, after at most 2 s.
    async fn open(&self, opening: &Opening) -> Result<Opened, (LaneEnd, String)> {
        let (body, channel) = Channel::<Bytes, io::Error>::new(limits::MAX_WINDOW_BATCHES);
        let request = self
            .client
            .http
            .post(self.url.clone())
            .query(opening)
            .header(header::AUTHORIZATION, self.client.secrets.primary().bearer())
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .body(reqwest::Body::wrap(channel));
        let response = match timeout(OPEN_TIMEOUT, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => return Err((LaneEnd::Refused, error.without_url().to_string())),
            Ok(Err(error)) => return Err((LaneEnd::Broken, error.without_url().to_string())),
            Err(_) => return Err((LaneEnd::Broken, format!("no response within {OPEN_TIMEOUT:?}"))),
        };
        match response.status() {
            StatusCode::OK => {}
            status if status.is_server_error() => return Err((LaneEnd::Broken, status.to_string())),
            status => return Err((LaneEnd::Rejected, status.to_string())),
        }
        let Some(incarnation) = incarnation_in(response.headers()) else {
            return Err((LaneEnd::Rejected, "the response has no incarnation".to_owned()));
        };
        let exchange = opening.exchange;
        self.with_core(|core, now| core.lane_opened(now, self.peer, exchange, incarnation));
        Ok(Opened { exchange, response, body })
    }

    /// Writes batches and reads acknowledgements until the exchange ends.
    async fn serve(&self, Opened { exchange, mut response, mut body }: Opened) -> (LaneEnd, String) {
        let mut acknowledgements = AcknowledgementReader::default();
        loop {
            tokio::select! {
                chunk = response.chunk() => match chunk {
                    Ok(Some(chunk)) => {
                        if let Some(number) = acknowledgements.read(&chunk) {
                            self.with_core(|core, now| core.lane_acknowledged(now, self.peer, exchange, number));
                        }
                    }
                    Ok(None) => return (LaneEnd::Closed, "closed by the peer".to_owned()),
                    Err(error) => return (LaneEnd::Broken, error.without_url().to_string()),
                },
                () = self.signal.wait() => {
                    while let Some(frame) = self.with_core(|core, now| core.take_lane_frame(now, self.peer, exchange)) {
                        METRICS.forward_batches.inc();
                        if body.try_send(Frame::data(frame.into())).is_err() {
                            return (LaneEnd::Broken, "the connection takes no more".to_owned());
                        }
                    }
                    if self.with_core(|core, _| core.is_lane_cut(self.peer)) {
                        body.abort(io::Error::other("lane cut"));
                        return (LaneEnd::Cut, "no progress, or the process was paused".to_owned());
                    }
                }
            }
        }
    }

    fn with_core<R>(&self, call: impl FnOnce(&mut NodeCore, Instant) -> R) -> R {
        self.node.with_core(|core| call(core, Instant::now()))
    }
}

fn incarnation_in(headers: &HeaderMap) -> Option<Incarnation> {
    headers.get(lane::INCARNATION_HEADER)?.to_str().ok()?.parse().ok()
}
