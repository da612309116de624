//! The lanes from other nodes: one task for each reads the request body of its exchange into the
//! core. Acknowledgements leave in the response, and so do the batches for a sender that the view
//! lacks. `internal` calls it for each exchange, `lanes` for one in a response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Query;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use signaling_core::node::{BatchError, InboundExchange, PeerKey};
use signaling_protocol::NodeId;
use signaling_server::http::{Refused, refusal};
use signaling_server::proofs::INCARNATION_HEADER;
use signaling_wire::lane::{self, Acknowledgement, Frame, FrameReader, Opening};
use signaling_wire::{DecodeError, ExchangeNumber};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use crate::internal::other_version;
use crate::lane_writer::LaneWriter;
use crate::lanes::update_lanes;
use crate::metrics::METRICS;
use crate::{Node, State};

/// Minimum time between two log entries about nodes outside the view.
const OUTSIDER_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The present exchange of the lane from one peer. Dropping one of a request cuts the connection.
pub(super) struct InboundLane {
    pub(super) exchange: InboundExchange,
    /// Writes acknowledgements. It may also write batches of an exchange in the other direction.
    pub(super) writer: LaneWriter,
    /// Reads the request. `None`: the exchange is in the response to a request of this node.
    reader: Option<AbortOnDropHandle<()>>,
}

impl InboundLane {
    fn acknowledge(&mut self, of: Acknowledgement, counter: u64) {
        // Without room the connection is stuck, and the sender will cut it.
        let _ = self.writer.write(lane::acknowledgement(of, counter));
    }
}

impl Drop for InboundLane {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.writer.close();
        }
    }
}

impl State {
    /// Sends the acknowledgements that are due at `now`.
    pub(super) fn acknowledge(&mut self, now: Instant) {
        let counter = self.core.number(now);
        for (peer, of) in self.core.peers_mut().take_acknowledgements(now) {
            if let Some(lane) = self.inbound_lanes.get_mut(peer) {
                lane.acknowledge(of, counter);
            }
        }
    }
}

/// Checks the version of a request for a lane.
pub(super) fn check_version(request: &Request<Incoming>) -> Result<(), Refused> {
    match request.headers().get(lane::VERSION_HEADER) {
        Some(sent) if sent == lane::VERSION => Ok(()),
        sent => Err(other_version("unknown_lane_version", lane::VERSION, sent)),
    }
}

/// Answers the request that opens an exchange, whose proof was checked: 200 with acknowledgements
/// as its body, 400 for an invalid opening, 403 for one in another server's name, 405 for a method
/// other than POST, or 409 if the sender has this node's id or had opened a later exchange.
/// `server`: name of the server that has sent it.
pub(super) fn answer(node: &Node, server: &NodeId, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST {
        let mut response =
            refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "a lane is opened by POST", None);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let opening = match Query::<Opening>::try_from_uri(request.uri()) {
        Ok(Query(opening)) => opening,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_opening", &error.body_text(), None),
    };
    if opening.sender != server.as_str() {
        let message = format!("{server} opens a lane of {}", opening.sender);
        return refusal(StatusCode::FORBIDDEN, "other_sender", &message, None);
    }
    let exchange = match node.with_core(|core| core.accept_lane(Instant::now(), &opening)) {
        Ok(Some(exchange)) => exchange,
        Ok(None) => {
            let message =
                "this node is the sender, had a later exchange of the lane, or was paused until just now: try again";
            return refusal(StatusCode::CONFLICT, "conflict", message, None);
        }
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_opening", &error.to_string(), None),
    };
    let (writer, body) = LaneWriter::new();
    let reader = AbortOnDropHandle::new(tokio::task::spawn_local(read(node.clone(), exchange, request.into_body())));
    let incarnation = {
        let mut state = node.0.borrow_mut();
        state.record_outsider(server, peer);
        state.core.settings().incarnation.to_string()
    };
    node.add_inbound_lane(InboundLane { exchange, writer, reader: Some(reader) });
    let mut response = Response::new(Body::new(body));
    if let Ok(incarnation) = HeaderValue::from_str(&incarnation) {
        response.headers_mut().insert(INCARNATION_HEADER, incarnation);
    }
    response
}

/// Executes the batches of an exchange until it ends.
async fn read(node: Node, exchange: InboundExchange, mut body: Incoming) {
    let mut frames = FrameReader::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(chunk) = frame.into_data() else { continue };
        let executed = node.with_core(|core| {
            let now = Instant::now();
            frames.read(&chunk, |frame| match frame {
                Frame::Batch(batch) => core.batch(now, exchange, batch),
                Frame::Acknowledgement(of, counter) => core.return_acknowledged(now, exchange, (of, counter)),
                Frame::Exchange(_) => Err(DecodeError::new("an exchange inside a request").into()),
            })
        });
        match executed {
            Ok(()) => node.0.borrow_mut().acknowledge_promptly(exchange),
            Err(BatchError::Over) => break,
            Err(error @ (BatchError::Damaged(_) | BatchError::TooLate(_))) => {
                warn!(%error, "batch of a peer is damaged or late, its messages will be retransmitted");
                break;
            }
        }
    }
    debug!("lane from a peer ended");
    node.end_inbound_lane(exchange);
}

impl Node {
    /// Adds the exchange that a peer forms in the response to this node's exchange `own`, whose
    /// requests `writer` writes. Returns `None` if it is known, or `own` was replaced.
    pub(super) fn add_returned_lane(
        &self,
        (peer, own): (PeerKey, ExchangeNumber),
        number: ExchangeNumber,
        writer: &LaneWriter,
    ) -> Option<InboundExchange> {
        let exchange = self.with_core(|core| core.accept_return(Instant::now(), (peer, own), number))?;
        self.add_inbound_lane(InboundLane { exchange, writer: writer.clone(), reader: None });
        Some(exchange)
    }

    fn add_inbound_lane(&self, lane: InboundLane) {
        let mut state = self.0.borrow_mut();
        let replaced = state.inbound_lanes.insert(lane.exchange.peer, lane);
        state.acknowledge(Instant::now());
        drop(state);
        drop(replaced);
        update_lanes(self);
    }

    /// Ends an exchange of a peer, and what returns on it. No effect on a later one.
    pub(super) fn end_inbound_lane(&self, exchange: InboundExchange) {
        self.with_core(|core| core.inbound_lane_ended(Instant::now(), exchange));
        let mut state = self.0.borrow_mut();
        if state.inbound_lanes.get(exchange.peer).is_some_and(|lane| lane.exchange == exchange) {
            state.inbound_lanes.remove(exchange.peer);
        }
        drop(state);
        update_lanes(self);
    }
}

impl State {
    /// Counts the opening of a node outside the view, and logs one per 10 s.
    fn record_outsider(&mut self, server: &NodeId, peer: SocketAddr) {
        if self.core.peers().view().get(server.as_str()).is_some() {
            return;
        }
        METRICS.outsiders.inc();
        let now = Instant::now();
        if self.outsiders_quiet_until.is_none_or(|until| now >= until) {
            info!(%server, %peer, "lane opened by a node outside the view; it is new, or leaves, or is an intruder");
            self.outsiders_quiet_until = Some(now + OUTSIDER_LOG_INTERVAL);
        }
    }

    /// Sends the acknowledgement of one peer, if it is due.
    pub(super) fn acknowledge_promptly(&mut self, exchange: InboundExchange) {
        let now = Instant::now();
        if let Some(of) = self.core.take_acknowledgement(now, exchange.peer)
            && let Some(lane) = self.inbound_lanes.get_mut(exchange.peer)
        {
            lane.acknowledge(of, self.core.number(now));
        }
    }
}
