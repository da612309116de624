//! What an edge counts.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use signaling_server::http::BadHead;

use super::admission::TooMany;
use crate::core::EdgeCore;

const REFUSED: &str = "signaling_refused_connects_total";
const VIOLATIONS: &str = "signaling_client_violations_total";
const RATE_LIMITED: &str = "signaling_rate_limited_total";
const EVICTED: &str = "signaling_evicted_clients_total";
const CERTIFICATES: &str = "signaling_tls_certificate_loads_total";

/// Handles, made once.
pub(super) struct EdgeMetrics {
    sockets: Gauge,
    sessions: Gauge,
    opened: Counter,
    closed: Counter,
    ups: Counter,
    downs: Counter,
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
}

impl EdgeMetrics {
    pub(super) fn new() -> Self {
        describe_gauge!("signaling_client_sockets", "Client WebSockets open at this edge.");
        describe_gauge!("signaling_edge_sessions", "Sessions of this edge, those without a socket included.");
        describe_counter!("signaling_client_sockets_opened_total", "Client WebSockets opened.");
        describe_counter!("signaling_client_sockets_closed_total", "Client WebSockets closed, by whomever.");
        describe_counter!("signaling_uplink_frames_total", "Messages taken from clients for a node.");
        describe_counter!("signaling_downlink_frames_total", "Messages of peers written to clients.");
        describe_counter!("signaling_filtered_repeats_total", "Repeats that were not written again.");
        describe_counter!("signaling_gaps_total", "Messages sent back because one before them was missing, or passed.");
        describe_counter!("signaling_edge_resends_total", "Uplink frames sent again to another node.");
        describe_counter!("signaling_handoffs_total", "Sessions moved to another node behind their open socket.");
        describe_counter!(
            "signaling_full_stores_total",
            "Times that a client was not read because its store was full."
        );
        describe_counter!(
            REFUSED,
            "Connections and requests of clients that were refused, by HTTP status or kind of limit."
        );
        describe_counter!(VIOLATIONS, "Sockets closed because the client broke the protocol, by close code.");
        describe_gauge!("signaling_handshakes", "Connections of clients that have not asked for a WebSocket yet.");
        describe_gauge!("signaling_buffered_bytes", "Bytes that are kept for all clients together (--buffer-bytes).");
        describe_gauge!("signaling_unfinished_bytes", "Bytes of messages that clients have begun and not ended.");
        describe_counter!(
            RATE_LIMITED,
            "Messages refused, and sockets closed for going on, by what there was too much of."
        );
        describe_counter!(EVICTED, "Sockets closed because memory was short (--buffer-bytes), by what took it.");
        describe_counter!(CERTIFICATES, "Times that a changed certificate was read, by what came of it.");
        Self {
            sockets: gauge!("signaling_client_sockets"),
            sessions: gauge!("signaling_edge_sessions"),
            opened: counter!("signaling_client_sockets_opened_total"),
            closed: counter!("signaling_client_sockets_closed_total"),
            ups: counter!("signaling_uplink_frames_total"),
            downs: counter!("signaling_downlink_frames_total"),
            filtered: counter!("signaling_filtered_repeats_total"),
            gaps: counter!("signaling_gaps_total"),
            resends: counter!("signaling_edge_resends_total"),
            handoffs: counter!("signaling_handoffs_total"),
            full_stores: counter!("signaling_full_stores_total"),
            handshakes: gauge!("signaling_handshakes"),
            buffered: gauge!("signaling_buffered_bytes"),
            unfinished: gauge!("signaling_unfinished_bytes"),
            over_message_rate: counter!(RATE_LIMITED, "what" => "messages"),
            over_byte_rate: counter!(RATE_LIMITED, "what" => "bytes"),
            rate_abuses: counter!(RATE_LIMITED, "what" => "sockets"),
            evicted_unread: counter!(EVICTED, "what" => "unread"),
        }
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
    pub(super) fn publish(&self, core: &EdgeCore, handshakes: usize, unfinished_bytes: usize) {
        let counts = core.counts();
        self.sessions.set(core.len() as f64);
        self.handshakes.set(handshakes as f64);
        self.buffered.set(core.kept() as f64);
        self.unfinished.set(unfinished_bytes as f64);
        self.over_message_rate.absolute(counts.over_message_rate);
        self.over_byte_rate.absolute(counts.over_byte_rate);
        self.rate_abuses.absolute(counts.rate_abuses);
        self.evicted_unread.absolute(counts.evicted);
        self.ups.absolute(counts.ups);
        self.downs.absolute(counts.downs);
        self.filtered.absolute(counts.filtered_repeats);
        self.gaps.absolute(counts.gaps);
        self.resends.absolute(counts.resends);
        self.handoffs.absolute(counts.handoffs);
        self.full_stores.absolute(counts.full_stores);
    }
}

pub(super) fn refused_status(status: u16) {
    refused(status_label(status));
}

pub(super) fn refused_limit(limit: TooMany) {
    refused(limit.as_label());
}

pub(super) fn refused(reason: &'static str) {
    counter!(REFUSED, "reason" => reason).increment(1);
}

pub(super) fn evicted_unfinished() {
    counter!(EVICTED, "what" => "unfinished").increment(1);
}

pub(super) fn certificate_renewed(serves: bool) {
    counter!(CERTIFICATES, "result" => if serves { "shown" } else { "unusable" }).increment(1);
}

pub(super) fn refused_head(bad: BadHead) {
    let reason = match bad {
        BadHead::Late => "timeout",
        BadHead::TooLarge => "431",
        BadHead::Malformed => "400",
    };
    refused(reason);
}

pub(super) fn violation(code: u16) {
    let code = match code {
        1002 => "1002",
        1003 => "1003",
        1007 => "1007",
        1008 => "1008",
        1009 => "1009",
        _ => "other",
    };
    counter!(VIOLATIONS, "code" => code).increment(1);
}

/// Labels come from a short list, whatever a node says.
fn status_label(status: u16) -> &'static str {
    match status {
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        405 => "405",
        409 => "409",
        426 => "426",
        503 => "503",
        _ => "other",
    }
}
