//! What a node counts.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::core::NodeCore;

/// Handles, made once.
pub(super) struct NodeMetrics {
    sessions: Gauge,
    held_bytes: Gauge,
    suspects: Gauge,
    lingering: Gauge,
    resumed: Counter,
    detours: Counter,
    attached: Counter,
    detached: Counter,
    rejected: Counter,
    requests: Counter,
    refused: Counter,
    delivered: Counter,
    unavailable: Counter,
    forwarded: Counter,
    passed_on: Counter,
    resends: Counter,
    dropped: Counter,
}

impl NodeMetrics {
    pub(super) fn new() -> Self {
        const MESSAGES: &str = "signaling_messages_total";
        describe_gauge!("signaling_sessions", "Sessions with a socket at this node.");
        describe_gauge!("signaling_held_bytes", "Bytes that wait for absent recipients.");
        describe_gauge!("signaling_suspect_nodes", "Other nodes that this one does not rely on now.");
        describe_gauge!("signaling_lingering_sessions", "Sessions without a socket that can be resumed.");
        describe_counter!("signaling_sessions_resumed_total", "Sessions that went on on another socket.");
        describe_counter!("signaling_detours_total", "Copies sent round by another node while an owner was suspect.");
        describe_counter!("signaling_sessions_attached_total", "Sessions attached.");
        describe_counter!("signaling_sessions_detached_total", "Sessions gone, or moved away.");
        describe_counter!("signaling_sessions_rejected_total", "Sessions refused.");
        describe_counter!("signaling_requests_total", "Requests of clients.");
        describe_counter!("signaling_requests_refused_total", "Requests answered by an error.");
        describe_counter!(MESSAGES, "Messages of this node's clients, by what became of them.");
        describe_counter!("signaling_forwarded_total", "Envelopes sent to other nodes, repeats included.");
        describe_counter!("signaling_passed_on_total", "Envelopes of other nodes sent on to a third.");
        describe_counter!("signaling_resends_total", "Envelopes sent again.");
        describe_counter!(
            "signaling_dropped_total",
            "What got no further between nodes: no room, no such node, no valid name."
        );
        Self {
            sessions: gauge!("signaling_sessions"),
            held_bytes: gauge!("signaling_held_bytes"),
            suspects: gauge!("signaling_suspect_nodes"),
            lingering: gauge!("signaling_lingering_sessions"),
            resumed: counter!("signaling_sessions_resumed_total"),
            detours: counter!("signaling_detours_total"),
            attached: counter!("signaling_sessions_attached_total"),
            detached: counter!("signaling_sessions_detached_total"),
            rejected: counter!("signaling_sessions_rejected_total"),
            requests: counter!("signaling_requests_total"),
            refused: counter!("signaling_requests_refused_total"),
            delivered: counter!(MESSAGES, "fate" => "delivered"),
            unavailable: counter!(MESSAGES, "fate" => "unavailable"),
            forwarded: counter!("signaling_forwarded_total"),
            passed_on: counter!("signaling_passed_on_total"),
            resends: counter!("signaling_resends_total"),
            dropped: counter!("signaling_dropped_total"),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn publish(&self, core: &NodeCore) {
        self.sessions.set(core.sessions() as f64);
        self.held_bytes.set(core.held_bytes() as f64);
        self.suspects.set(core.suspects().count() as f64);
        self.lingering.set(core.lingering() as f64);
        let counts = core.counts();
        self.resumed.absolute(counts.resumed);
        self.detours.absolute(counts.detours);
        self.attached.absolute(counts.attached);
        self.detached.absolute(counts.detached);
        self.rejected.absolute(counts.rejected);
        self.requests.absolute(counts.requests);
        self.refused.absolute(counts.refused);
        self.delivered.absolute(counts.delivered);
        self.unavailable.absolute(counts.unavailable);
        self.forwarded.absolute(counts.forwarded);
        self.passed_on.absolute(counts.passed_on);
        self.resends.absolute(counts.resends);
        self.dropped.absolute(counts.dropped);
    }
}
