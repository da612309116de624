//! The lanes from other nodes: one task for each reads the request body of its exchange into the
//! core. Acknowledgements leave in the response. `internal` calls it for each exchange.

use std::convert::Infallible;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Query;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::channel::Sender;
use http_body_util::{BodyExt as _, Channel};
use hyper::body::Incoming;
use signaling_core::node::{BatchError, InboundExchange};
use signaling_server::http::refusal;
use signaling_wire::BatchNumber;
use signaling_wire::lane::{self, BatchReader, INCARNATION_HEADER, Opening};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use super::lanes::update_lanes;
use super::{Node, State};

/// Maximum acknowledgements that wait for the connection. A later one includes the earlier ones.
const MAX_WAITING: usize = 4;

/// The present exchange of the lane from one peer. Dropping it cuts the connection.
pub(super) struct InboundLane {
    exchange: InboundExchange,
    acknowledgements: Sender<Bytes>,
    _task: AbortOnDropHandle<()>,
}

impl InboundLane {
    fn acknowledge(&mut self, number: BatchNumber) {
        let bytes = Bytes::copy_from_slice(&lane::acknowledgement(number));
        // Without room the connection is stuck, and the sender will cut it.
        let _ = self.acknowledgements.try_send(Frame::data(bytes));
    }
}

impl State {
    /// Sends the acknowledgements that are due at `now`.
    pub(super) fn acknowledge(&mut self, now: Instant) {
        for (peer, number) in self.core.take_acknowledgements(now) {
            if let Some(lane) = self.inbound_lanes.get_mut(peer) {
                lane.acknowledge(number);
            }
        }
    }
}

/// Answers the request that opens an exchange, whose secret was checked: 200 with acknowledgements
/// as its body, 400 for an invalid opening, 405 for a method other than POST, or 409 if the sender
/// has this node's id or had opened a later exchange.
pub(super) fn answer(node: &Node, request: Request<Incoming>) -> Response<Body> {
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
    let exchange = match node.with_core(|core| core.accept_lane(Instant::now(), &opening)) {
        Ok(Some(exchange)) => exchange,
        Ok(None) => {
            let message = "this node is the sender, or had a later exchange of the lane";
            return refusal(StatusCode::CONFLICT, "conflict", message, None);
        }
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_opening", &error.to_string(), None),
    };
    let (acknowledgements, channel) = Channel::<Bytes, Infallible>::new(MAX_WAITING);
    let task = tokio::task::spawn_local(read(node.clone(), exchange, request.into_body()));
    let lane = InboundLane { exchange, acknowledgements, _task: AbortOnDropHandle::new(task) };
    let incarnation = {
        let mut state = node.0.borrow_mut();
        state.inbound_lanes.insert(exchange.peer, lane);
        state.acknowledge(Instant::now());
        state.core.settings().incarnation.to_string()
    };
    update_lanes(node);
    let mut response = Response::new(Body::new(channel));
    if let Ok(incarnation) = HeaderValue::from_str(&incarnation) {
        response.headers_mut().insert(INCARNATION_HEADER, incarnation);
    }
    response
}

/// Executes the batches of an exchange until it ends.
async fn read(node: Node, exchange: InboundExchange, mut body: Incoming) {
    let mut batches = BatchReader::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(chunk) = frame.into_data() else { continue };
        let executed = node.with_core(|core| batches.read(&chunk, |batch| core.batch(Instant::now(), exchange, batch)));
        match executed {
            Ok(()) => node.0.borrow_mut().acknowledge_promptly(exchange),
            Err(BatchError::Over) => break,
            Err(error @ BatchError::Damaged(_)) => {
                warn!(%error, "batch of a peer is damaged, its messages will be retransmitted");
                break;
            }
        }
    }
    debug!("lane from a peer ended");
    node.with_core(|core| core.inbound_lane_ended(exchange));
    let mut state = node.0.borrow_mut();
    if state.inbound_lanes.get(exchange.peer).is_some_and(|lane| lane.exchange == exchange) {
        state.inbound_lanes.remove(exchange.peer);
    }
    drop(state);
    update_lanes(&node);
}

impl State {
    /// Sends the acknowledgement of one peer, if it is due.
    fn acknowledge_promptly(&mut self, exchange: InboundExchange) {
        if let Some(number) = self.core.take_acknowledgement(Instant::now(), exchange.peer)
            && let Some(lane) = self.inbound_lanes.get_mut(exchange.peer)
        {
            lane.acknowledge(number);
        }
    }
}
