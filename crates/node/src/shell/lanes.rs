//! The forwarder: sends the core's batches to other nodes, one request at a time per lane. During a
//! request the core collects the next batch. So batches grow with the load, and an idle node adds
//! no delay.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use reqwest::Url;
use signaling_core::View;
use signaling_protocol::Backoff;
use signaling_server::{FlushSignal, Secrets};
use signaling_wire::forward;
use signaling_wire::limits;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{Span, debug, info_span, warn};

use super::metrics::{ForwardResult, METRICS};
use super::{Lanes, Node};
use signaling_core::node::PeerKey;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of a request. A batch without an answer is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum idle connections to one node.
const MAX_IDLE: usize = 2;
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Returns the HTTP client for batches.
///
/// # Errors
/// If the system refuses a resource.
pub fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Applies each new view and serves the lanes of its peers. Ends when dropped, or when views end.
pub async fn follow(node: Node, http: reqwest::Client, mut views: watch::Receiver<Arc<View>>, secrets: Secrets) {
    loop {
        let view = views.borrow_and_update().clone();
        debug!(nodes = view.len(), hash = format!("{:016x}", view.hash()), "new view");
        node.with_core(|core| core.set_view(Instant::now(), view));
        update_senders(&node, &http, &secrets);
        if views.changed().await.is_err() {
            return;
        }
    }
}

/// Stops senders of removed peers, starts senders of new peers, and updates the addresses of the
/// rest.
fn update_senders(node: &Node, http: &reqwest::Client, secrets: &Secrets) {
    let mut state = node.0.borrow_mut();
    let peers: Vec<_> = state.core.peers().map(|(peer, address)| (peer, address.to_owned())).collect();
    state.lanes.retain(|key, lanes| {
        let stays = peers.iter().any(|(peer, _)| *peer == key);
        if !stays {
            lanes.senders.iter().for_each(tokio::task::AbortHandle::abort);
        }
        stays
    });
    for (peer, address) in peers {
        let Ok(url) = Url::parse(&format!("http://{address}{}", forward::PATH)) else {
            warn!(%address, "cannot forward: no usable address");
            continue;
        };
        if let Some(lanes) = state.lanes.get(peer) {
            // A batch in flight is retried at the new address.
            lanes.url.replace(url);
            continue;
        }
        let url = Rc::new(RefCell::new(url));
        let signals: Box<[Rc<FlushSignal>]> = (0..state.core.lanes()).map(|_| Rc::default()).collect();
        let senders = signals.iter().enumerate().map(|(lane, wake)| {
            let sender = LaneSender {
                node: node.clone(),
                http: http.clone(),
                secrets: secrets.clone(),
                url: Rc::clone(&url),
                peer,
                lane,
                span: info_span!("lane", peer = %address, lane),
            };
            tokio::task::spawn_local(sender.run(Rc::clone(wake))).abort_handle()
        });
        let senders = senders.collect();
        state.lanes.insert(peer, Lanes { url, signals, senders });
    }
    state.wake();
}

struct LaneSender {
    node: Node,
    http: reqwest::Client,
    secrets: Secrets,
    url: Rc<RefCell<Url>>,
    peer: PeerKey,
    lane: usize,
    /// Each event names the span; it is never entered, since that would cost time per batch.
    span: Span,
}

/// Why a batch was not answered.
enum Failure {
    /// The peer accepts no connections.
    Refused(String),
    /// A retry may succeed.
    Retryable(String),
    /// A retry cannot succeed.
    Permanent(String),
}

impl Failure {
    fn label_of(answered: &Result<Bytes, Self>) -> ForwardResult {
        match answered {
            Ok(_) => ForwardResult::Answered,
            Err(Self::Refused(_)) => ForwardResult::Refused,
            Err(Self::Retryable(_)) => ForwardResult::Retry,
            Err(Self::Permanent(_)) => ForwardResult::Rejected,
        }
    }
}

impl LaneSender {
    async fn run(self, wake: Rc<FlushSignal>) {
        loop {
            wake.wait().await;
            while let Some(batch) =
                self.node.with_core(|core| core.take_lane_batch(Instant::now(), self.peer, self.lane))
            {
                self.deliver(batch).await;
            }
        }
    }

    /// Sends a batch until it is answered; each retry has shorter TTLs. Stops when the peer leaves
    /// the view.
    async fn deliver(&self, mut batch: Vec<u8>) {
        let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
        loop {
            let bytes = batch.len();
            let started = Instant::now();
            let answered = self.post(batch).await;
            METRICS.forward.observe(started.elapsed());
            METRICS.forward_batches.of(Failure::label_of(&answered)).inc();
            match answered {
                Ok(answer) => {
                    if !backoff.is_fresh() {
                        debug!(parent: &self.span, "peer answers again");
                    }
                    let taken =
                        self.node.with_core(|core| core.lane_answered(Instant::now(), self.peer, self.lane, &answer));
                    if let Err(error) = taken {
                        warn!(parent: &self.span, %error, "answer of the peer is invalid");
                    }
                    return;
                }
                Err(Failure::Permanent(why)) => {
                    warn!(parent: &self.span, why, bytes, "batch rejected by the peer, its messages will be retransmitted");
                    self.node.with_core(|core| core.lane_lost(self.peer, self.lane));
                    sleep(MAX_BACKOFF).await;
                    return;
                }
                Err(failure @ (Failure::Refused(_) | Failure::Retryable(_))) => {
                    if matches!(failure, Failure::Refused(_)) {
                        self.node.with_core(|core| core.refused(Instant::now(), self.peer));
                    }
                    let (Failure::Refused(why) | Failure::Retryable(why) | Failure::Permanent(why)) = failure;
                    // The sweep warns of a suspect peer once, not per lane.
                    debug!(parent: &self.span, why, "peer does not answer");
                    sleep(backoff.next_limit()).await;
                    let retry = self.node.with_core(|core| core.lane_batch_again(Instant::now(), self.peer, self.lane));
                    let Some(retry) = retry else { return };
                    batch = retry;
                }
            }
        }
    }

    async fn post(&self, batch: Vec<u8>) -> Result<Bytes, Failure> {
        let again = |error: reqwest::Error| match (error.is_connect(), error.without_url().to_string()) {
            (true, why) => Failure::Refused(why),
            (false, why) => Failure::Retryable(why),
        };
        let request = self
            .http
            .post(self.url.borrow().clone())
            .header(header::AUTHORIZATION, self.secrets.shown().bearer())
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .body(batch);
        let response = request.send().await.map_err(again)?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_server_error() => return Err(Failure::Retryable(status.to_string())),
            status => return Err(Failure::Permanent(status.to_string())),
        }
        if response.content_length().is_none_or(|length| length > limits::MAX_BATCH_BYTES as u64 * 16) {
            return Err(Failure::Permanent("the answer has no length or is too long".to_owned()));
        }
        response.bytes().await.map_err(again)
    }
}
