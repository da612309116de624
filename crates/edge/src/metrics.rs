//! Metrics of an edge. The counts of the core are published before each `/metrics` page, other
//! events are counted as they occur.

use std::time::SystemTime;

use signaling_metrics::{By, Counter, Gauge, HistogramBuckets, Publish, label, metrics};
use signaling_server::metrics::{Direction, Reload};

use crate::EdgeConfig;
use signaling_core::edge::{EdgeCore, KickList};

metrics! {
    /// Metrics of an edge.
    pub struct EdgeMetrics {
        sockets: Gauge = "signaling_client_sockets", "Client WebSockets open at this edge";
        sockets_limit: Gauge = "signaling_client_sockets_limit",
            "Maximum client WebSockets: `--max-sockets`, or what open files allow";
        opened: Counter = "signaling_client_sockets_opened_total", "Client WebSockets opened";
        closed: Counter = "signaling_client_sockets_closed_total", "Client WebSockets closed, by either side";
        closes: By<CloseLabel> = "signaling_client_closes_total",
            "Close frames sent to clients, including replies, but not to refused connects, by close code \
             (`PROTOCOL.md`; 1005: without a code, 1012: Pixel Streaming)";
        unattached: Gauge = "signaling_unattached_sessions",
            "Sessions of this edge without a node: in handoff, trunk lost, or no node is usable; their messages wait";
        paused: Gauge = "signaling_read_paused_clients",
            "Clients that the edge does not read now: too many of their messages have no outcome, or a dialect's \
             client is over its rate or has a full translator";
        connect: HistogramBuckets = "signaling_connect_seconds",
            "Time from an admitted client's request to the upgrade, including its node's answer";
        delivery: HistogramBuckets = "signaling_message_delivery_seconds",
            "Time from a client's delivered message or finished room command to its outcome at the sender's edge, with the \
             hold for an absent recipient and up to 0.2 s until a reliable recipient acknowledges";
        uplink: Counter = "signaling_uplink_frames_total", "Messages and room commands taken from clients for a node";
        downlink: Counter = "signaling_downlink_frames_total", "Messages of peers queued for clients";
        bytes: By<Direction> = "signaling_client_bytes_total",
            "Bytes read from and written to client sockets, with frame headers, without TLS";
        duplicates: Counter = "signaling_duplicates_dropped_total", "Repeated messages that the edge did not write again";
        gaps: Counter = "signaling_sequence_gaps_total",
            "Messages returned unwritten to their sender's node: an earlier one is missing, the recipient's buffers are \
             full, memory is scarce, or TTL over";
        resends: Counter = "signaling_edge_retransmissions_total",
            "Uplink frames without an outcome, sent when a node attaches their session: again, or for the first time";
        handoffs: Counter = "signaling_handoffs_total", "Handoffs to another node started, behind an open socket";
        read_pauses: Counter = "signaling_client_read_pauses_total",
            "Times that the edge stopped reading a client: too many of its messages had no outcome or were refused, \
             or a dialect's client was over its rate or had a full translator";
        refused: By<RefusalReason> = "signaling_refused_connects_total",
            "Connections and requests of clients refused or closed, by HTTP status or cause";
        violations: By<ViolationLabel> = "signaling_client_violations_total",
            "Sockets closed for a broken protocol or a message unfinished after 10 s (1008), by close code";
        rate_limited: By<RateLabel> = "signaling_rate_limited_total",
            "Messages refused over a rate, and sockets closed for ignored refusals or too many pings or pongs, by limit";
        evicted: By<EvictionLabel> = "signaling_evicted_clients_total",
            "Sockets closed because memory was short (`--max-client-buffer-bytes`), by cause: much unread output \
             or many seats (unread), or an unfinished message (unfinished)";
        auth_failures: By<AuthFailure> = "signaling_auth_failures_total",
            "Tokens and origins refused, at connect or on open sockets, by reason";
        tokens_renewed: Counter = "signaling_tokens_renewed_total", "Tokens replaced on open sockets";
        tokens_expired: Counter = "signaling_tokens_expired_total", "Sockets closed because their token expired";
        kicked: Counter = "signaling_clients_kicked_total", "Kicks by operators that ended a session of this edge";
        kicks: Gauge = "signaling_kicks_remembered",
            "Kicked clients, of all servers, whose older tokens this edge refuses";
        kicks_limit: Gauge = "signaling_kicks_remembered_limit", "Maximum kicked clients that this edge remembers";
        kicks_forgotten: Counter = "signaling_kicks_forgotten_total",
            "Kicked clients forgotten for later ones; their older tokens are valid again until they expire";
        handshakes: Gauge = "signaling_handshakes",
            "Public connections that are not client sockets: before their upgrade, refused, or loading pages";
        handshakes_limit: Gauge = "signaling_handshakes_limit",
            "Maximum public connections that are not client sockets: `--max-handshakes`, or what open files allow";
        buffered: Gauge = "signaling_client_buffered_bytes",
            "Estimated bytes kept for clients: messages, output, senders remembered for deduplication";
        buffered_limit: Gauge = "signaling_client_buffered_bytes_limit",
            "Maximum bytes buffered for all clients (`--max-client-buffer-bytes`); above half of it the edge slows reads";
        memory_bound: Gauge = "signaling_client_memory_bound_bytes",
            "Maximum memory of this edge's clients and the process without them, by the settings; excludes socket \
             buffers of the kernel";
        partial: Gauge = "signaling_partial_message_bytes", "Bytes of messages that clients have not finished";
        certificate_loads: By<Reload> = "signaling_tls_certificate_loads_total",
            "Reads of a changed certificate, by result: in use now (used) or not usable (unusable)";
        certificate_expiry: Gauge = "signaling_tls_certificate_expiry_timestamp_seconds",
            "Earliest end of the certificate in use and its chain, in seconds since 1970; 0 if unreadable or without \
             TLS";
    }
}

label! {
    /// Close code of the frame that the edge sends; 1005: the frame has no code.
    pub(crate) struct CloseLabel = "code" [
        1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, 1011, 1012, 1013, 4002, 4003, 4004, 4006, 4029, 4400, 4401, 4403, 4409, 4410,
        4411,
    ]
}
// `ViolationLabel`: close code of a client that broke the protocol. `RateLabel`: exceeded rate, or
// sockets closed for excess. `EvictionLabel`: data that filled the memory.
label! { pub(crate) struct ViolationLabel = "code" [1002, 1003, 1007, 1008, 1009] }
label! { pub(crate) enum RateLabel = "limit" { Messages = "messages", Bytes = "bytes", Sockets = "sockets" } }
label! { pub(crate) enum EvictionLabel = "cause" { Unread = "unread", Unfinished = "unfinished" } }
label! {
    /// Defect of a token, as in [`TokenRefusal`](crate::identity::TokenRefusal), or an origin that
    /// is not allowed.
    pub(crate) enum AuthFailure = "reason" {
        Missing = "missing", Malformed = "malformed", Algorithm = "algorithm", Key = "key", Signature = "signature",
        Expired = "expired", NotYet = "not_yet", Audience = "audience", Issuer = "issuer", Kicked = "kicked",
        Subject = "subject", Claim = "claim", Origin = "origin",
    }
}
label! {
    /// HTTP status of a refusal, the exceeded limit, or the part that failed or came too late.
    ///
    /// - `Sockets`: clients of the edge. `Address`: clients or other connections of one address.
    /// - `Subject`: clients with tokens of one subject.
    /// - `Rate`: new clients/s of the edge. `AddressRate`: requests/s of one address.
    /// - `Handshakes`: the oldest connection that is no client socket was closed for a new one.
    /// - `Timeout`: a PROXY header, TLS handshake or request head took too long.
    /// - `ProxyHeader`, `Tls`: an invalid PROXY header, a failed TLS handshake.
    /// - `Other`: another status, or a refusal of a dialect after the upgrade.
    pub(crate) enum RefusalReason = "reason" {
        BadRequest = "400", Unauthorized = "401", Forbidden = "403", NotFound = "404", Method = "405", Conflict = "409",
        Upgrade = "426", TooLarge = "431", Unavailable = "503", Other = "other", Sockets = "sockets", Address = "address",
        Subject = "subject", Rate = "rate", AddressRate = "address_rate", Handshakes = "handshakes", Timeout = "timeout",
        ProxyHeader = "proxy_header", Tls = "tls",
    }
}

/// Publishes the limits of the settings, and the expiry of the certificate if there is TLS.
pub(super) fn publish_limits(config: &EdgeConfig) {
    METRICS.sockets_limit.publish(config.admission.sockets as u64);
    METRICS.handshakes_limit.publish(config.handshakes.min(config.connections) as u64);
    METRICS.buffered_limit.publish(config.core.max_memory_bytes as u64);
    METRICS.kicks_limit.publish(KickList::MAX_CLIENTS as u64);
    if let Some(tls) = &config.tls {
        certificate_expires(tls.expires());
    }
}

pub(super) fn publish(core: &EdgeCore) {
    let (metrics, counts, figures) = (&*METRICS, core.counts(), core.figures());
    metrics.delivery.publish(core.delays().counts());
    metrics.unattached.publish(figures.unattached as u64);
    metrics.paused.publish(figures.read_paused as u64);
    metrics.buffered.publish(core.kept() as u64);
    metrics.rate_limited.of(RateLabel::Messages).publish(counts.over_message_rate);
    metrics.rate_limited.of(RateLabel::Bytes).publish(counts.over_byte_rate);
    metrics.rate_limited.of(RateLabel::Sockets).publish(counts.rate_abuses);
    metrics.evicted.of(EvictionLabel::Unread).publish(counts.evicted);
    metrics.tokens_expired.publish(counts.expired_tokens);
    let (kicks, forgotten) = core.kicks();
    metrics.kicks.publish(kicks as u64);
    metrics.kicks_forgotten.publish(forgotten);
    metrics.uplink.publish(counts.ups);
    metrics.downlink.publish(counts.downs);
    metrics.duplicates.publish(counts.duplicates);
    metrics.gaps.publish(counts.sequence_gaps);
    metrics.resends.publish(counts.retransmissions);
    metrics.handoffs.publish(counts.handoffs);
    metrics.read_pauses.publish(counts.read_pauses);
}

pub(super) fn refused(reason: RefusalReason) {
    METRICS.refused.of(reason).inc();
}

/// Counts a refusal by its HTTP status. Skips 429, which is counted by the exceeded limit.
pub(super) fn refused_status(status: u16) {
    refused(match status {
        429 => return,
        400 => RefusalReason::BadRequest,
        401 => RefusalReason::Unauthorized,
        403 => RefusalReason::Forbidden,
        404 => RefusalReason::NotFound,
        405 => RefusalReason::Method,
        409 => RefusalReason::Conflict,
        426 => RefusalReason::Upgrade,
        431 => RefusalReason::TooLarge,
        503 => RefusalReason::Unavailable,
        _ => RefusalReason::Other,
    });
}

/// Publishes the expiry of the certificate in use. `None` is published as 0.
pub(super) fn certificate_expires(at: Option<SystemTime>) {
    let since_1970 = at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    METRICS.certificate_expiry.publish(since_1970.map_or(0, |time| time.as_secs()));
}
