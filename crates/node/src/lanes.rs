//! The lanes to other nodes: one task for each keeps an HTTP exchange open and writes the core's
//! batches into it. This node connects to addresses of discovery alone, so a node outside the view
//! gets them in the response to its own exchange. `run` starts the lanes; each view changes them.

use std::error::Error as _;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::Url;
use signaling_core::node::{BatchError, InboundExchange, NodeCore, PeerKey};
use signaling_membership::View;
use signaling_protocol::{Backoff, NodeId};
use signaling_server::FlushSignal;
use signaling_server::proofs::{Proofs, Purpose, incarnation_in};
use signaling_server::server_client::refusal_text;
use signaling_wire::lane::{self, Frame, FrameReader, Opening};
use signaling_wire::{DecodeError, ExchangeNumber};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Span, debug, info_span, warn};

use crate::lane_writer::LaneWriter;
use crate::metrics::{LaneEnd, METRICS};
use crate::{Node, OutboundLane};

/// Time limit of a lane's connection to its peer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of the response to an opening.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Duration of an exchange after which earlier failures are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(1);
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Applies each view and keeps a lane to each of its peers open. Returns when the sender of views
/// is dropped; the lanes stay. Panics outside a `LocalSet`. `http` connects within
/// [`CONNECT_TIMEOUT`] and keeps no unused connection.
pub(crate) async fn follow_views(
    node: Node,
    http: reqwest::Client,
    mut views: watch::Receiver<Arc<View>>,
    proofs: Proofs,
) {
    node.0.borrow_mut().lane_client = Some(LaneClient { http, proofs });
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

/// Client and proofs that all lanes share.
#[derive(Clone)]
pub(super) struct LaneClient {
    http: reqwest::Client,
    proofs: Proofs,
}

/// The connection of a lane.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// A request of this node to the address of discovery.
    Request(Url),
    /// The response to a request of the peer, which the view lacks.
    Response(InboundExchange),
}

/// Ends the lanes to removed peers, starts lanes to new peers, and restarts those with a changed
/// route. Logs and skips invalid addresses. Does nothing before [`follow_views`].
pub(super) fn update_lanes(node: &Node) {
    let mut state = node.0.borrow_mut();
    let Some(client) = state.lane_client.clone() else { return };
    let mut routes = Vec::new();
    for (peer, address) in state.core.peers().addressed() {
        let route = match address.map(|address| Url::parse(&format!("http://{address}{}", lane::PATH))) {
            Some(Ok(url)) => Some(Route::Request(url)),
            Some(Err(error)) => {
                warn!(peer = ?state.core.peers().id(peer), %error, "cannot forward: no usable address");
                None
            }
            None => state.inbound_lanes.get(peer).map(|lane| Route::Response(lane.exchange)),
        };
        if let (Some(route), Some(id)) = (route, state.core.peers().id(peer)) {
            routes.push((peer, id.clone(), route));
        }
    }
    state.lanes.retain(|key, _| routes.iter().any(|(peer, ..)| *peer == key));
    for (peer, id, route) in routes {
        if state.lanes.get(peer).is_some_and(|lane| lane.route == route) {
            continue;
        }
        let signal = Rc::new(FlushSignal::new(&state.coalescer));
        let span = info_span!("lane", peer = %id);
        let sender =
            LaneSender { node: node.clone(), client: client.clone(), id, peer, signal: Rc::clone(&signal), span };
        let task = match route.clone() {
            Route::Request(url) => tokio::task::spawn_local(sender.keep_open(url)),
            Route::Response(exchange) => {
                let Some(writer) = state.inbound_lanes.get(peer).map(|lane| lane.writer.clone()) else { continue };
                tokio::task::spawn_local(sender.respond(exchange, writer))
            }
        };
        state.lanes.insert(peer, OutboundLane { route, signal, _task: AbortOnDropHandle::new(task) });
    }
}

struct LaneSender {
    node: Node,
    client: LaneClient,
    id: NodeId,
    peer: PeerKey,
    signal: Rc<FlushSignal>,
    /// Each event names the span; it is never entered, since that would cost time per batch.
    span: Span,
}

/// An exchange that the peer has accepted.
struct Opened {
    exchange: ExchangeNumber,
    response: reqwest::Response,
    writer: LaneWriter,
}

/// The exchange of a peer in the response to this node's own, which ends with that.
struct Returned {
    node: Node,
    exchange: Option<InboundExchange>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange {
            self.node.end_inbound_lane(exchange);
        }
    }
}

impl LaneSender {
    /// Keeps an exchange open until the peer leaves the core's view.
    async fn keep_open(self, url: Url) {
        let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
        while let Some(opening) = self.with_core(|core, now| core.peers_mut().open_lane(now, self.peer)) {
            let started = Instant::now();
            let (end, why) = match self.open(&url, &opening).await {
                Ok(opened) => self.serve(opened).await,
                Err(failed) => failed,
            };
            self.with_core(|core, now| core.peers_mut().lane_ended(now, self.peer, opening.exchange));
            METRICS.lane_ends.of(end).inc();
            match end {
                LaneEnd::Rejected => warn!(parent: &self.span, why, "lane rejected by the peer"),
                LaneEnd::Refused | LaneEnd::Closed | LaneEnd::Broken | LaneEnd::Cut => {}
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
    async fn open(&self, url: &Url, opening: &Opening) -> Result<Opened, (LaneEnd, String)> {
        let opened = async {
            let proofs = &self.client.proofs;
            let headers = || proofs.headers(Purpose::Lane, &self.id);
            let sent = headers();
            let (response, writer) = self.request(url, opening, sent.clone()).await?;
            // The peer is another process than before, or this is the first request to it.
            if response.status() == StatusCode::UNAUTHORIZED && proofs.learn(&self.id, &sent, response.headers()) {
                return self.request(url, opening, headers()).await;
            }
            Ok((response, writer))
        };
        let (response, writer) = match timeout(OPEN_TIMEOUT, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) if error.is_connect() => {
                self.with_core(|core, now| match is_refusal(&error) {
                    true => core.refused(now, self.peer),
                    false => core.unreachable(now, self.peer),
                });
                return Err((LaneEnd::Refused, error.without_url().to_string()));
            }
            Ok(Err(error)) => return Err((LaneEnd::Broken, error.without_url().to_string())),
            Err(_) => return Err((LaneEnd::Broken, format!("no response within {OPEN_TIMEOUT:?}"))),
        };
        match response.status() {
            StatusCode::OK => {}
            status if status.is_server_error() => return Err((LaneEnd::Broken, status.to_string())),
            _ => return Err((LaneEnd::Rejected, refusal_text(response).await)),
        }
        let Some(incarnation) = incarnation_in(response.headers()) else {
            return Err((LaneEnd::Rejected, "the response has no incarnation".to_owned()));
        };
        let exchange = opening.exchange;
        self.with_core(|core, now| core.lane_opened(now, self.peer, exchange, incarnation));
        Ok(Opened { exchange, response, writer })
    }

    async fn request(
        &self,
        url: &Url,
        opening: &Opening,
        proof: HeaderMap,
    ) -> reqwest::Result<(reqwest::Response, LaneWriter)> {
        let (writer, body) = LaneWriter::new();
        let request = self
            .client
            .http
            .post(url.clone())
            .query(opening)
            .headers(proof)
            .header(lane::VERSION_HEADER, lane::VERSION)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .body(reqwest::Body::wrap(body));
        Ok((request.send().await?, writer))
    }

    /// Writes batches and reads the response until the exchange ends.
    async fn serve(&self, Opened { exchange, mut response, writer }: Opened) -> (LaneEnd, String) {
        let mut frames = FrameReader::default();
        let mut returned = Returned { node: self.node.clone(), exchange: None };
        loop {
            tokio::select! {
                chunk = response.chunk() => match chunk {
                    Ok(Some(chunk)) => {
                        let read = frames.read(&chunk, |frame| self.answered(exchange, &writer, &mut returned, frame));
                        if let Err(error) = read {
                            return (LaneEnd::Broken, error.to_string());
                        }
                    }
                    Ok(None) => return (LaneEnd::Closed, "closed by the peer".to_owned()),
                    Err(error) => return (LaneEnd::Broken, error.without_url().to_string()),
                },
                () = self.signal.wait() => {
                    if let Err(end) = self.write_batches(exchange, &writer) {
                        return end;
                    }
                }
            }
        }
    }

    /// Handles a frame of the response.
    fn answered(
        &self,
        exchange: ExchangeNumber,
        writer: &LaneWriter,
        returned: &mut Returned,
        frame: Frame<'_>,
    ) -> Result<(), BatchError> {
        match (frame, returned.exchange) {
            (Frame::Acknowledgement(of, counter), _) => {
                self.with_core(|core, now| core.lane_acknowledged(now, self.peer, exchange, (of, counter)))?;
            }
            (Frame::Exchange(number), _) => {
                returned.exchange = self.node.add_returned_lane((self.peer, exchange), number, writer);
            }
            (Frame::Batch(batch), Some(at)) => match self.with_core(|core, now| core.batch(now, at, batch)) {
                Ok(()) => self.node.0.borrow_mut().acknowledge_promptly(at),
                // The peer's view has this node by now, and its own request sends the batch again.
                Err(BatchError::Over) => {}
                Err(damaged) => return Err(damaged),
            },
            (Frame::Batch(_), None) => return Err(DecodeError::new("a batch outside of an exchange").into()),
        }
        Ok(())
    }

    /// Writes batches into the response to a peer's exchange until that ends, or the view has the
    /// peer.
    async fn respond(self, at: InboundExchange, writer: LaneWriter) {
        let Some(exchange) = self.with_core(|core, now| core.open_return(now, at)) else { return };
        let mut takes_more = writer.write(lane::exchange(exchange));
        while takes_more {
            self.signal.wait().await;
            takes_more = self.write_batches(exchange, &writer).is_ok();
        }
        self.node.end_inbound_lane(at);
    }

    /// Writes the batches that are ready. Fails if the exchange has to end.
    fn write_batches(&self, exchange: ExchangeNumber, writer: &LaneWriter) -> Result<(), (LaneEnd, String)> {
        while let Some(frame) = self.with_core(|core, now| core.peers_mut().take_lane_frame(now, self.peer, exchange)) {
            METRICS.forward_batches.inc();
            if !writer.write(frame) {
                return Err((LaneEnd::Broken, "the connection takes no more".to_owned()));
            }
        }
        if self.with_core(|core, _| core.peers().is_lane_cut(self.peer)) {
            writer.abort("lane cut");
            return Err((LaneEnd::Cut, "no progress, or the process was paused".to_owned()));
        }
        Ok(())
    }

    fn with_core<R>(&self, call: impl FnOnce(&mut NodeCore, Instant) -> R) -> R {
        self.node.with_core(|core| call(core, Instant::now()))
    }
}

/// Returns `true` if the peer's machine answered that no process listens. A connection without an
/// answer, or without a route, tells nothing about the process.
fn is_refusal(error: &reqwest::Error) -> bool {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let mut errors = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    errors.any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
