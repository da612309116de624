//! What a node counts.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

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
    forbidden: Counter,
    delivered: Counter,
    unavailable: Counter,
    forwarded: Counter,
    passed_on: Counter,
    resends: Counter,
    dropped: Counter,
    rooms: Gauge,
    members: Gauge,
    waiting: Gauge,
    room_commands: Counter,
    broadcasts: Counter,
    too_many_rooms: Counter,
    full_lines: Counter,
    store_failures: Counter,
    healed: Counter,
    restored: Counter,
    store_seconds: Histogram,
    cleaned: Counter,
}

impl NodeMetrics {
    pub(super) fn new() -> Self {
        const MESSAGES: &str = "signaling_messages_total";
        const SEATS: &str = "signaling_room_seats";
        const JOINS: &str = "signaling_refused_joins_total";
        const STORE: &str = "signaling_room_store_seconds";
        describe_gauge!("signaling_sessions", "Sessions with a socket at this node.");
        describe_gauge!("signaling_held_bytes", "Bytes that wait for absent recipients.");
        describe_gauge!("signaling_suspect_nodes", "Other nodes that this one does not rely on now.");
        describe_gauge!("signaling_lingering_sessions", "Sessions without a socket that can be resumed.");
        describe_counter!("signaling_sessions_resumed_total", "Sessions that went on on another socket.");
        describe_counter!("signaling_detours_total", "Copies sent round by another node while an owner was suspect.");
        describe_counter!("signaling_sessions_attached_total", "Sessions attached.");
        describe_counter!("signaling_sessions_detached_total", "Sessions gone, or moved away.");
        describe_counter!("signaling_sessions_rejected_total", "Sessions refused.");
        describe_counter!(
            "signaling_requests_forbidden_total",
            "Requests that a client's token, or the scope of signals, did not allow."
        );
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
        describe_gauge!("signaling_rooms", "Rooms that somebody at this node is in, or waits for.");
        describe_gauge!(SEATS, "Seats in rooms of this node's clients, and their places in lines.");
        describe_counter!("signaling_room_commands_total", "Requests about rooms that were carried out.");
        describe_counter!(JOINS, "Joins refused, by what there was too much of.");
        describe_counter!("signaling_broadcasts_total", "Messages to all in a room.");
        describe_counter!("signaling_room_store_failures_total", "Operations that the room store did not carry out.");
        describe_counter!(
            "signaling_rooms_healed_total",
            "Rooms whose whole state was told because changes were missing."
        );
        describe_counter!("signaling_seats_restored_total", "Seats given back to a store that had lost them.");
        describe_histogram!(STORE, Unit::Seconds, "How long the room store took to answer a batch.");
        describe_counter!("signaling_registry_cleaned_total", "Entries of dead nodes taken out of the registry.");
        Self {
            rooms: gauge!("signaling_rooms"),
            members: gauge!(SEATS, "standing" => "member"),
            waiting: gauge!(SEATS, "standing" => "waiting"),
            room_commands: counter!("signaling_room_commands_total"),
            broadcasts: counter!("signaling_broadcasts_total"),
            too_many_rooms: counter!(JOINS, "what" => "rooms"),
            full_lines: counter!(JOINS, "what" => "line"),
            store_failures: counter!("signaling_room_store_failures_total"),
            healed: counter!("signaling_rooms_healed_total"),
            restored: counter!("signaling_seats_restored_total"),
            store_seconds: histogram!(STORE),
            cleaned: counter!("signaling_registry_cleaned_total"),
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
            forbidden: counter!("signaling_requests_forbidden_total"),
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
        self.forbidden.absolute(counts.forbidden);
        self.delivered.absolute(counts.delivered);
        self.unavailable.absolute(counts.unavailable);
        self.forwarded.absolute(counts.forwarded);
        self.passed_on.absolute(counts.passed_on);
        self.resends.absolute(counts.resends);
        self.dropped.absolute(counts.dropped);
        let (figures, counts) = (core.room_figures(), core.room_counts());
        self.rooms.set(figures.rooms as f64);
        self.members.set(figures.members as f64);
        self.waiting.set(figures.waiting as f64);
        self.room_commands.absolute(counts.commands);
        self.broadcasts.absolute(counts.broadcasts);
        self.too_many_rooms.absolute(counts.too_many_rooms);
        self.full_lines.absolute(counts.full_lines);
        self.store_failures.absolute(counts.failures);
        self.healed.absolute(counts.healed);
        self.restored.absolute(counts.restored);
    }

    pub(super) fn store_answered(&self, after: Duration) {
        self.store_seconds.record(after.as_secs_f64());
    }

    pub(super) fn cleaned(&self, entries: u64) {
        self.cleaned.increment(entries);
    }
}
