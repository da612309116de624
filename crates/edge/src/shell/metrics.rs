//! What an edge counts.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::metrics::{Counter, Gauge, Histogram};
use signaling_metrics::{Label, Metric};
use signaling_protocol::CloseCode;
use signaling_server::http::BadHead;

use super::EdgeConfig;
use super::admission::TooMany;
use signaling_core::edge::{EdgeCore, Kicks};

/// All of it.
pub const METRICS: &[Metric] = &[
    SOCKETS,
    SOCKETS_LIMIT,
    OPENED,
    CLOSED,
    CLOSES,
    SESSIONS,
    MOVING,
    PAUSED,
    CONNECT,
    MESSAGE,
    UPS,
    DOWNS,
    BYTES,
    FILTERED,
    GAPS,
    RESENDS,
    HANDOFFS,
    FULL_STORES,
    REFUSED,
    VIOLATIONS,
    RATE_LIMITED,
    EVICTED,
    IDENTITIES_REFUSED,
    TOKENS_RENEWED,
    TOKENS_EXPIRED,
    KICKED,
    KICKS,
    KICKS_LIMIT,
    KICKS_FORGOTTEN,
    HANDSHAKES,
    HANDSHAKES_LIMIT,
    BUFFERED,
    BUFFERED_LIMIT,
    MEMORY_BOUND,
    UNFINISHED,
    CERTIFICATES,
    CERTIFICATE_EXPIRES,
];

const SOCKETS: Metric = Metric::gauge("signaling_client_sockets", "Client WebSockets open at this edge.");
const SOCKETS_LIMIT: Metric =
    Metric::gauge("signaling_client_sockets_limit", "How many there may be (`--max-sockets`).");
const OPENED: Metric = Metric::counter("signaling_client_sockets_opened_total", "Client WebSockets opened.");
const CLOSED: Metric =
    Metric::counter("signaling_client_sockets_closed_total", "Client WebSockets closed, by whomever.");
const CLOSES: Metric = Metric::counter(
    "signaling_client_closes_total",
    "Of these, with a close frame from here, by its code (`PROTOCOL.md`): the edge's own, or the answer to the client's.",
)
.by(&[Label {
    name: "code",
    values: &[
        "1000", "1001", "1002", "1003", "1007", "1008", "1009", "1011", "1013", "4002", "4003", "4004", "4006", "4029", "4400",
        "4401", "4403", "4409", "4410", "4411", "other",
    ],
}]);
const SESSIONS: Metric =
    Metric::gauge("signaling_edge_sessions", "Sessions of this edge, those without a socket included.");
const MOVING: Metric = Metric::gauge(
    "signaling_moving_sessions",
    "Of these, the ones that no node serves at this moment: they are being handed off, or there is no node for them. What they \
     send waits.",
);
const PAUSED: Metric =
    Metric::gauge("signaling_paused_clients", "Clients that are not read at this moment because their store is full.");
const CONNECT: Metric = Metric::times(
    "signaling_connect_seconds",
    "From a client's request to the answer that lets it in, its node's consent included.",
);
const MESSAGE: Metric = Metric::times(
    "signaling_message_seconds",
    "From a client's message to the word that it was delivered, at the sender's edge: the whole way there and back, and with \
     it the time that the message waited for a recipient who was away. Up to 0.2 s of it is a reliable recipient's own, who need \
     not say at once that it has it.",
);
const UPS: Metric = Metric::counter("signaling_uplink_frames_total", "Messages taken from clients for a node.");
const DOWNS: Metric = Metric::counter("signaling_downlink_frames_total", "Messages of peers written to clients.");
const BYTES: Metric =
    Metric::counter("signaling_client_bytes_total", "Bytes read from clients' sockets, and written to them.")
        .by(&[Label { name: "direction", values: &["in", "out"] }]);
const FILTERED: Metric = Metric::counter("signaling_filtered_repeats_total", "Repeats that were not written again.");
const GAPS: Metric = Metric::counter(
    "signaling_gaps_total",
    "Messages sent back because one before them was missing, or passed, or because the recipient had no room.",
);
const RESENDS: Metric = Metric::counter("signaling_edge_resends_total", "Uplink frames sent again to another node.");
const HANDOFFS: Metric =
    Metric::counter("signaling_handoffs_total", "Sessions moved to another node behind their open socket.");
const FULL_STORES: Metric =
    Metric::counter("signaling_full_stores_total", "Times that a client was not read because its store was full.");
const REFUSED: Metric = Metric::counter(
    "signaling_refused_connects_total",
    "Connections and requests of clients that were refused, by HTTP status or kind of limit.",
)
.by(&[Label {
    name: "reason",
    values: &[
        "400",
        "401",
        "403",
        "404",
        "405",
        "409",
        "426",
        "431",
        "503",
        "other",
        "sockets",
        "address",
        "rate",
        "address_rate",
        "handshakes",
        "timeout",
        "proxy_header",
        "tls",
    ],
}]);
const VIOLATIONS: Metric = Metric::counter(
    "signaling_client_violations_total",
    "Sockets closed because the client broke the protocol, by close code.",
)
.by(&[Label { name: "code", values: &["1002", "1003", "1007", "1008", "1009", "other"] }]);
const RATE_LIMITED: Metric = Metric::counter(
    "signaling_rate_limited_total",
    "Messages refused, and sockets closed for going on, by what there was too much of.",
)
.by(&[Label { name: "what", values: &["messages", "bytes", "sockets"] }]);
const EVICTED: Metric = Metric::counter(
    "signaling_evicted_clients_total",
    "Sockets closed because memory was short (`--buffer-bytes`), by what took it.",
)
.by(&[Label { name: "what", values: &["unread", "unfinished"] }]);
const IDENTITIES_REFUSED: Metric = Metric::counter(
    "signaling_refused_identities_total",
    "Tokens that were refused, at connecting or over open sockets, and origins, by what was wrong.",
)
.by(&[Label {
    name: "reason",
    values: &[
        "missing",
        "malformed",
        "algorithm",
        "key",
        "signature",
        "expired",
        "not_yet",
        "audience",
        "issuer",
        "kicked",
        "subject",
        "claim",
        "origin",
    ],
}]);
const TOKENS_RENEWED: Metric =
    Metric::counter("signaling_tokens_renewed_total", "Tokens that took the place of older ones over open sockets.");
const TOKENS_EXPIRED: Metric =
    Metric::counter("signaling_tokens_expired_total", "Sockets closed because their token had expired.");
/// What [`MemoryBound`](super::MemoryBound) comes to.
pub(super) const MEMORY_BOUND: Metric = Metric::gauge(
    "signaling_client_memory_bound_bytes",
    "Most bytes of memory that this server's clients can make it use, by its settings.",
);
const KICKED: Metric = Metric::counter("signaling_clients_kicked_total", "Clients that an operator has put out.");
const KICKS: Metric = Metric::gauge(
    "signaling_kicks_remembered",
    "Clients that an operator has put out, here or anywhere, and that are remembered for it: where tokens are asked for, theirs of before \
     are refused.",
);
const KICKS_LIMIT: Metric = Metric::gauge("signaling_kicks_remembered_limit", "How many there may be.");
const KICKS_FORGOTTEN: Metric = Metric::counter(
    "signaling_kicks_forgotten_total",
    "Of these, the ones that were forgotten for later ones: their old tokens are good again until they expire.",
);
const HANDSHAKES: Metric = Metric::gauge(
    "signaling_handshakes",
    "Public connections that are not client sockets: before their upgrade, refused, or loading pages.",
);
const HANDSHAKES_LIMIT: Metric =
    Metric::gauge("signaling_handshakes_limit", "How many there may be (`--max-handshakes`).");
const BUFFERED: Metric = Metric::gauge("signaling_buffered_bytes", "Bytes that are kept for all clients together.");
const BUFFERED_LIMIT: Metric = Metric::gauge(
    "signaling_buffered_bytes_limit",
    "How many there may be (`--buffer-bytes`). Past half of it clients are read more slowly.",
);
const UNFINISHED: Metric =
    Metric::gauge("signaling_unfinished_bytes", "Bytes of messages that clients have begun and not ended.");
const CERTIFICATES: Metric = Metric::counter(
    "signaling_tls_certificate_loads_total",
    "Times that a changed certificate was read, by what came of it.",
)
.by(&[Label { name: "result", values: &["shown", "unusable"] }]);
const CERTIFICATE_EXPIRES: Metric = Metric::gauge(
    "signaling_tls_certificate_expiry_timestamp_seconds",
    "When the certificate that is shown ends, or one of its chain before it, in seconds since 1970; 0 without TLS.",
);

/// Handles, made once.
pub(super) struct EdgeMetrics {
    sockets: Gauge,
    sessions: Gauge,
    moving: Gauge,
    paused: Gauge,
    opened: Counter,
    closed: Counter,
    connect: Histogram,
    message: Histogram,
    /// How many messages of each delay the histogram has.
    told: BTreeMap<u64, u64>,
    ups: Counter,
    downs: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    filtered: Counter,
    gaps: Counter,
    resends: Counter,
    handoffs: Counter,
    full_stores: Counter,
    handshakes: Gauge,
    buffered: Gauge,
    unfinished: Gauge,
    over_message_rate: Counter,
    over_byte_rate: Counter,
    rate_abuses: Counter,
    evicted_unread: Counter,
    tokens_expired: Counter,
    kicks: Gauge,
    kicks_forgotten: Counter,
}

/// What the shell itself keeps count of, beside the core.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShellCounts {
    pub(super) handshakes: usize,
    pub(super) unfinished_bytes: usize,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl EdgeMetrics {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn new(config: &EdgeConfig) -> Self {
        METRICS.iter().for_each(Metric::announce);
        SOCKETS_LIMIT.gauge_of(&[]).set(config.admission.sockets as f64);
        HANDSHAKES_LIMIT.gauge_of(&[]).set(config.handshakes.min(config.connections) as f64);
        BUFFERED_LIMIT.gauge_of(&[]).set(config.buffer_bytes as f64);
        KICKS_LIMIT.gauge_of(&[]).set(Kicks::MOST as f64);
        if let Some(tls) = &config.tls {
            certificate_expires(tls.expires());
        }
        Self {
            sockets: SOCKETS.gauge_of(&[]),
            sessions: SESSIONS.gauge_of(&[]),
            moving: MOVING.gauge_of(&[]),
            paused: PAUSED.gauge_of(&[]),
            opened: OPENED.counter_of(&[]),
            closed: CLOSED.counter_of(&[]),
            connect: CONNECT.times_of(&[]),
            message: MESSAGE.times_of(&[]),
            told: BTreeMap::new(),
            ups: UPS.counter_of(&[]),
            downs: DOWNS.counter_of(&[]),
            bytes_in: BYTES.counter_of(&["in"]),
            bytes_out: BYTES.counter_of(&["out"]),
            filtered: FILTERED.counter_of(&[]),
            gaps: GAPS.counter_of(&[]),
            resends: RESENDS.counter_of(&[]),
            handoffs: HANDOFFS.counter_of(&[]),
            full_stores: FULL_STORES.counter_of(&[]),
            handshakes: HANDSHAKES.gauge_of(&[]),
            buffered: BUFFERED.gauge_of(&[]),
            unfinished: UNFINISHED.gauge_of(&[]),
            over_message_rate: RATE_LIMITED.counter_of(&["messages"]),
            over_byte_rate: RATE_LIMITED.counter_of(&["bytes"]),
            rate_abuses: RATE_LIMITED.counter_of(&["sockets"]),
            evicted_unread: EVICTED.counter_of(&["unread"]),
            tokens_expired: TOKENS_EXPIRED.counter_of(&[]),
            kicks: KICKS.gauge_of(&[]),
            kicks_forgotten: KICKS_FORGOTTEN.counter_of(&[]),
        }
    }

    pub(super) fn let_in(&self, after: Duration) {
        self.connect.record(after);
    }

    pub(super) fn opened(&self) {
        self.opened.increment(1);
        self.sockets.increment(1.0);
    }

    pub(super) fn closed(&self) {
        self.closed.increment(1);
        self.sockets.decrement(1.0);
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn publish(&mut self, core: &EdgeCore, shell: ShellCounts) {
        for (micros, count) in core.delays().counts() {
            let told = self.told.entry(micros).or_default();
            let news = usize::try_from(count - std::mem::replace(told, count)).unwrap_or(usize::MAX);
            if news > 0 {
                self.message.record_many(micros as f64 / 1e6, news);
            }
        }
        let (counts, figures) = (core.counts(), core.figures());
        self.sessions.set(core.len() as f64);
        self.moving.set(figures.moving as f64);
        self.paused.set(figures.paused as f64);
        self.handshakes.set(shell.handshakes as f64);
        self.buffered.set(core.kept() as f64);
        self.unfinished.set(shell.unfinished_bytes as f64);
        self.bytes_in.absolute(shell.read_bytes);
        self.bytes_out.absolute(shell.written_bytes);
        self.over_message_rate.absolute(counts.over_message_rate);
        self.over_byte_rate.absolute(counts.over_byte_rate);
        self.rate_abuses.absolute(counts.rate_abuses);
        self.evicted_unread.absolute(counts.evicted);
        self.tokens_expired.absolute(counts.expired_tokens);
        let (kicks, forgotten) = core.kicks();
        self.kicks.set(kicks as f64);
        self.kicks_forgotten.absolute(forgotten);
        self.ups.absolute(counts.ups);
        self.downs.absolute(counts.downs);
        self.filtered.absolute(counts.filtered_repeats);
        self.gaps.absolute(counts.gaps);
        self.resends.absolute(counts.resends);
        self.handoffs.absolute(counts.handoffs);
        self.full_stores.absolute(counts.full_stores);
    }
}

/// A socket is closed with a close frame.
pub(super) fn closes(code: CloseCode) {
    CLOSES.counter_of(&[listed(&CLOSES, code.0)]).increment(1);
}

/// Status 429 is counted by the limit that led to it.
pub(super) fn refused_status(status: u16) {
    if status != 429 {
        refused(listed(&REFUSED, status));
    }
}

/// A token, or an origin, is not let in.
pub(super) fn refused_identity(reason: &'static str) {
    IDENTITIES_REFUSED.counter_of(&[reason]).increment(1);
}

pub(super) fn token_renewed() {
    TOKENS_RENEWED.counter_of(&[]).increment(1);
}

pub(super) fn kicked() {
    KICKED.counter_of(&[]).increment(1);
}

pub(super) fn refused_limit(limit: TooMany) {
    refused(limit.as_label());
}

pub(super) fn refused(reason: &'static str) {
    REFUSED.counter_of(&[reason]).increment(1);
}

pub(super) fn evicted_unfinished() {
    EVICTED.counter_of(&["unfinished"]).increment(1);
}

pub(super) fn certificate_renewed(serves: bool) {
    CERTIFICATES.counter_of(&[if serves { "shown" } else { "unusable" }]).increment(1);
}

/// A certificate is shown that ends then.
pub(super) fn certificate_expires(at: Option<SystemTime>) {
    let since_1970 = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    CERTIFICATE_EXPIRES.gauge_of(&[]).set(since_1970.map_or(0.0, |time| time.as_secs_f64()));
}

pub(super) fn refused_head(bad: BadHead) {
    refused(match bad {
        BadHead::Late => "timeout",
        BadHead::TooLarge => "431",
        BadHead::Malformed => "400",
    });
}

pub(super) fn violation(code: u16) {
    VIOLATIONS.counter_of(&[listed(&VIOLATIONS, code)]).increment(1);
}

/// The code as a value of the metric's one label. Values come from a short list, whatever a client or node says.
fn listed(metric: &Metric, code: u16) -> &'static str {
    let values = metric.labels.iter().flat_map(|label| label.values);
    values.copied().find(|value| value.parse() == Ok(code)).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_nobody_has_listed_is_counted_among_the_others() {
        assert_eq!((listed(&VIOLATIONS, 1009), listed(&VIOLATIONS, 1)), ("1009", "other"));
        assert_eq!((listed(&REFUSED, 503), listed(&REFUSED, 500)), ("503", "other"));
    }
}
