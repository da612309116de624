//! What a node counts beside what its edge for direct clients does.

use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram};
use signaling_metrics::{Label, Metric};
use signaling_protocol::ErrorCode;
use signaling_server::metrics::SUSPECTS;

use signaling_core::node::NodeCore;

/// All of it.
pub const METRICS: &[Metric] = &[
    SESSIONS,
    ATTACHED,
    DETACHED,
    REJECTED,
    RESUMED,
    LINGERING,
    LINGERING_LIMIT,
    LINGERING_REFUSED,
    LINGERING_MOVED,
    REQUESTS,
    REFUSED,
    MESSAGES,
    HELD,
    HELD_LIMIT,
    HOLD_REFUSED,
    HOLD_EXPIRED,
    FORWARDED,
    FORWARD_BATCHES,
    FORWARD_BYTES,
    FORWARD_TIMES,
    LANE_BYTES,
    LANE_BYTES_LIMIT,
    PASSED_ON,
    DETOURS,
    RESENDS,
    DROPPED,
    ROOMS,
    SEATS,
    COMMANDS,
    JOINS_REFUSED,
    BROADCASTS,
    HEALED,
    RESTORED,
    STORE_UP,
    STORE_TIMES,
    STORE_FAILURES,
    STORE_LOST,
    CLEANED,
];

const SESSIONS: Metric = Metric::gauge("signaling_sessions", "Sessions with a socket at this node.");
const ATTACHED: Metric = Metric::counter("signaling_sessions_attached_total", "Sessions attached.");
const DETACHED: Metric = Metric::counter("signaling_sessions_detached_total", "Sessions gone, or moved away.");
const REJECTED: Metric = Metric::counter("signaling_sessions_rejected_total", "Sessions refused.");
const RESUMED: Metric =
    Metric::counter("signaling_sessions_resumed_total", "Sessions that went on on another socket of their client.");
const LINGERING: Metric =
    Metric::gauge("signaling_lingering_sessions", "Sessions without a socket that can be resumed.");
const LINGERING_LIMIT: Metric =
    Metric::gauge("signaling_lingering_sessions_limit", "Maximum lingering sessions of this node.");
const LINGERING_REFUSED: Metric = Metric::counter(
    "signaling_lingering_sessions_refused_total",
    "Sessions that cannot be resumed because as many as may already wait for their clients.",
);
const LINGERING_MOVED: Metric = Metric::counter(
    "signaling_lingering_sessions_moved_total",
    "Sessions without a socket that came from the node that had them.",
);
const REQUESTS: Metric = Metric::counter("signaling_requests_total", "Requests of clients.");
const REFUSED: Metric =
    Metric::counter("signaling_requests_refused_total", "Requests answered by an error, by its code (`PROTOCOL.md`).")
        .by(&[Label { name: "code", values: &CODES }]);
const CODES: [&str; ErrorCode::ALL.len()] = {
    let mut codes = [""; ErrorCode::ALL.len()];
    let mut at = 0;
    while at < codes.len() {
        codes[at] = ErrorCode::ALL[at].as_str();
        at += 1;
    }
    codes
};
const MESSAGES: Metric =
    Metric::counter("signaling_messages_total", "Messages of this node's clients, by what became of them.")
        .by(&[Label { name: "fate", values: &["delivered", "unavailable"] }]);
const HELD: Metric = Metric::gauge("signaling_held_bytes", "Bytes that wait for absent recipients.");
const HELD_LIMIT: Metric = Metric::gauge("signaling_held_bytes_limit", "How many there may be (`--hold-bytes`).");
const HOLD_REFUSED: Metric = Metric::counter(
    "signaling_hold_refused_total",
    "Times that a message could not wait here because all that may wait did (`--hold-bytes`, or 1 MiB for one recipient). Its \
     sender's node says it again.",
);
const HOLD_EXPIRED: Metric =
    Metric::counter("signaling_hold_expired_total", "Messages that waited here until their time was over.");
const FORWARDED: Metric =
    Metric::counter("signaling_forwarded_total", "Envelopes sent to other nodes, repeats included.");
const FORWARD_BATCHES: Metric = Metric::counter(
    "signaling_forward_batches_total",
    "Batches sent to other nodes, by what came of it: answered, no connection, no answer in time, or refused for good.",
)
.by(&[Label { name: "result", values: &[ANSWERED, "refused", "again", "never"] }]);
const FORWARD_BYTES: Metric = Metric::counter("signaling_forward_bytes_total", "Bytes of these batches.");
const FORWARD_TIMES: Metric =
    Metric::times("signaling_forward_seconds", "How long another node took to answer a batch, or not to.");
const LANE_BYTES: Metric = Metric::gauge(
    "signaling_lane_waiting_bytes",
    "Bytes that wait until the batch in front of them is answered by another node.",
);
const LANE_BYTES_LIMIT: Metric = Metric::gauge(
    "signaling_lane_waiting_bytes_limit",
    "How many may, to all nodes together; past its share a lane takes no more, and senders repeat.",
);
const PASSED_ON: Metric = Metric::counter("signaling_passed_on_total", "Envelopes of other nodes sent on to a third.");
const DETOURS: Metric =
    Metric::counter("signaling_detours_total", "Copies sent round by another node while an owner was suspect.");
const RESENDS: Metric = Metric::counter("signaling_resends_total", "Envelopes sent again.");
const DROPPED: Metric = Metric::counter(
    "signaling_dropped_total",
    "What got no further between nodes: no room, no such node, no valid name. Its sender's node says it again.",
);
const ROOMS: Metric = Metric::gauge("signaling_rooms", "Rooms that somebody at this node is in, or waits for.");
const SEATS: Metric =
    Metric::gauge("signaling_room_seats", "Seats in rooms of this node's clients, and their places in lines.")
        .by(&[Label { name: "standing", values: &["member", "waiting"] }]);
const COMMANDS: Metric =
    Metric::counter("signaling_room_commands_total", "Requests about rooms that were carried out.");
const JOINS_REFUSED: Metric =
    Metric::counter("signaling_refused_joins_total", "Joins refused, by what there was too much of.")
        .by(&[Label { name: "what", values: &["rooms", "line"] }]);
const BROADCASTS: Metric = Metric::counter("signaling_broadcasts_total", "Messages to all in a room.");
const HEALED: Metric =
    Metric::counter("signaling_rooms_healed_total", "Rooms whose whole state was told because changes were missing.");
const RESTORED: Metric =
    Metric::counter("signaling_seats_restored_total", "Seats given back to a store that had lost them.");
const STORE_UP: Metric = Metric::gauge(
    "signaling_room_store_up",
    "1 if the room store has carried out what it was asked last, 0 if it has not. Every few seconds it is asked something.",
);
const STORE_TIMES: Metric =
    Metric::times("signaling_room_store_seconds", "How long the room store took to answer a batch, or not to.");
const STORE_FAILURES: Metric =
    Metric::counter("signaling_room_store_failures_total", "Operations that the room store did not carry out.");
const STORE_LOST: Metric = Metric::counter(
    "signaling_room_store_connections_lost_total",
    "Room store connections given up: broken, silent, or to a server that cannot serve (replica, loading, repeated errors).",
);
const CLEANED: Metric =
    Metric::counter("signaling_registry_cleaned_total", "Entries of dead nodes taken out of the registry.");

/// What becomes of nearly all batches.
pub(super) const ANSWERED: &str = "answered";

/// Handles, made once.
pub(super) struct NodeMetrics {
    sessions: Gauge,
    held_bytes: Gauge,
    suspects: Gauge,
    lingering: Gauge,
    lingering_moved: Counter,
    lingering_refused: Counter,
    resumed: Counter,
    detours: Counter,
    attached: Counter,
    detached: Counter,
    rejected: Counter,
    requests: Counter,
    refused: [Counter; CODES.len()],
    delivered: Counter,
    unavailable: Counter,
    hold_refused: Counter,
    hold_expired: Counter,
    forwarded: Counter,
    forward_answered: Counter,
    forward_bytes: Counter,
    forward_times: Histogram,
    lane_bytes: Gauge,
    lane_bytes_limit: Gauge,
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
    store_up: Gauge,
    store_failures: Counter,
    healed: Counter,
    restored: Counter,
    store_times: Histogram,
    cleaned: Counter,
    store_lost: Counter,
}

impl NodeMetrics {
    /// The limits are those of bytes that are held, and of lingering sessions.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn new((held_bytes, lingering): (usize, usize)) -> Self {
        METRICS.iter().for_each(Metric::announce);
        HELD_LIMIT.gauge_of(&[]).set(held_bytes as f64);
        LINGERING_LIMIT.gauge_of(&[]).set(lingering as f64);
        let store_up = STORE_UP.gauge_of(&[]);
        // Until it is asked.
        store_up.set(1.0);
        Self {
            rooms: ROOMS.gauge_of(&[]),
            members: SEATS.gauge_of(&["member"]),
            waiting: SEATS.gauge_of(&["waiting"]),
            room_commands: COMMANDS.counter_of(&[]),
            broadcasts: BROADCASTS.counter_of(&[]),
            too_many_rooms: JOINS_REFUSED.counter_of(&["rooms"]),
            full_lines: JOINS_REFUSED.counter_of(&["line"]),
            store_up,
            store_failures: STORE_FAILURES.counter_of(&[]),
            healed: HEALED.counter_of(&[]),
            restored: RESTORED.counter_of(&[]),
            store_times: STORE_TIMES.times_of(&[]),
            cleaned: CLEANED.counter_of(&[]),
            store_lost: STORE_LOST.counter_of(&[]),
            sessions: SESSIONS.gauge_of(&[]),
            held_bytes: HELD.gauge_of(&[]),
            suspects: SUSPECTS.gauge_of(&[]),
            lingering: LINGERING.gauge_of(&[]),
            lingering_moved: LINGERING_MOVED.counter_of(&[]),
            lingering_refused: LINGERING_REFUSED.counter_of(&[]),
            resumed: RESUMED.counter_of(&[]),
            detours: DETOURS.counter_of(&[]),
            attached: ATTACHED.counter_of(&[]),
            detached: DETACHED.counter_of(&[]),
            rejected: REJECTED.counter_of(&[]),
            requests: REQUESTS.counter_of(&[]),
            refused: CODES.map(|code| REFUSED.counter_of(&[code])),
            delivered: MESSAGES.counter_of(&["delivered"]),
            unavailable: MESSAGES.counter_of(&["unavailable"]),
            hold_refused: HOLD_REFUSED.counter_of(&[]),
            hold_expired: HOLD_EXPIRED.counter_of(&[]),
            forwarded: FORWARDED.counter_of(&[]),
            forward_answered: FORWARD_BATCHES.counter_of(&[ANSWERED]),
            forward_bytes: FORWARD_BYTES.counter_of(&[]),
            forward_times: FORWARD_TIMES.times_of(&[]),
            lane_bytes: LANE_BYTES.gauge_of(&[]),
            lane_bytes_limit: LANE_BYTES_LIMIT.gauge_of(&[]),
            passed_on: PASSED_ON.counter_of(&[]),
            resends: RESENDS.counter_of(&[]),
            dropped: DROPPED.counter_of(&[]),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn publish(&self, core: &NodeCore) {
        self.sessions.set(core.sessions() as f64);
        self.held_bytes.set(core.held_bytes() as f64);
        self.hold_refused.absolute(core.hold_refused());
        self.suspects.set(core.suspects().count() as f64);
        self.lingering.set(core.lingering() as f64);
        self.lane_bytes.set(core.lane_bytes() as f64);
        self.lane_bytes_limit.set(core.lane_bytes_limit() as f64);
        let counts = core.counts();
        self.lingering_moved.absolute(counts.lingering_moved);
        self.lingering_refused.absolute(counts.lingering_refused);
        self.resumed.absolute(counts.resumed);
        self.detours.absolute(counts.detours);
        self.attached.absolute(counts.attached);
        self.detached.absolute(counts.detached);
        self.rejected.absolute(counts.rejected);
        self.requests.absolute(counts.requests);
        self.refused.iter().zip(counts.refused).for_each(|(counter, count)| counter.absolute(count));
        self.delivered.absolute(counts.delivered);
        self.unavailable.absolute(counts.unavailable);
        self.hold_expired.absolute(counts.expired);
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

    /// A batch for another node was answered, or not.
    pub(super) fn forwarded(&self, bytes: usize, after: Duration, result: &'static str) {
        match result {
            ANSWERED => self.forward_answered.increment(1),
            failure => FORWARD_BATCHES.counter_of(&[failure]).increment(1),
        }
        self.forward_bytes.increment(bytes as u64);
        self.forward_times.record(after);
    }

    pub(super) fn store_answered(&self, after: Duration) {
        self.store_times.record(after);
    }

    pub(super) fn store_is_up(&self, is_up: bool) {
        self.store_up.set(f64::from(u8::from(is_up)));
    }

    pub(super) fn store_connections_lost(&self, count: u64) {
        self.store_lost.absolute(count);
    }

    pub(super) fn cleaned(&self, entries: u64) {
        self.cleaned.increment(entries);
    }
}
