//! Metrics of a node, in addition to those of its edge for direct clients. `publish` sets those
//! of the core at each scrape. The tasks of lanes count the others.

use std::time::Duration;

use signaling_metrics::{
    By, Counter, FloatCounter, FloatGauge, Gauge, Label, Labels, Publish, label, metrics, publish_seconds,
};
use signaling_protocol::ErrorCode;
use signaling_server::metrics::publish_suspects;

use signaling_core::node::{NodeCore, Settings};

metrics! {
    /// Metrics of a node.
    pub struct NodeMetrics {
        sessions: Gauge = "signaling_sessions", "Sessions with a socket at this node";
        attached: Counter = "signaling_sessions_attached_total",
            "Sessions attached to this node: new, resumed or handed off to it";
        resumed: Counter = "signaling_sessions_resumed_total", "Sessions resumed on another socket of their client";
        lingering: Gauge = "signaling_lingering_sessions", "Sessions without a socket that can be resumed";
        lingering_limit: Gauge = "signaling_lingering_sessions_limit", "Maximum lingering sessions of this node";
        lingering_refused: Counter = "signaling_lingering_sessions_refused_total",
            "Sessions that cannot be resumed because too many linger at the node, or of one token subject";
        requests: Counter = "signaling_requests_total", "Requests of clients, including repeated and refused ones";
        refused: By<ErrorLabel> = "signaling_requests_refused_total",
            "Requests answered with an error, by its code (`PROTOCOL.md`)";
        messages: By<Outcome> = "signaling_messages_total",
            "Messages of this node's clients, by outcome; a broadcast counts once per recipient";
        held: Gauge = "signaling_held_bytes", "Bytes held for absent recipients";
        held_limit: Gauge = "signaling_held_bytes_limit", "Maximum bytes held for absent recipients (`--hold-bytes`)";
        hold_refused: Counter = "signaling_hold_refused_total",
            "Messages not held because `--hold-bytes`, or 1 MiB for one recipient, is used up; the sender's node \
             retransmits them";
        hold_expired: Counter = "signaling_hold_expired_total", "Messages that this node held until they expired";
        forwarded: Counter = "signaling_forwarded_total",
            "Messages of this node's clients queued for other nodes, including retransmissions";
        forward_batches: Counter = "signaling_forward_batches_total",
            "Batches sent to other nodes, including batches sent again after a broken connection";
        outsiders: Counter = "signaling_lanes_outside_view_total",
            "Lanes that nodes outside this node's view opened; a few are usual while nodes join and leave";
        lane_ends: By<LaneEnd> = "signaling_lane_ends_total",
            "Connections to other nodes that ended: not accepted (refused), answered with an unusable response \
             (rejected), closed by the peer (closed), failed or answered with status 5xx (broken), or ended by this \
             node for lack of progress, after a process pause or for a new mesh secret (cut)";
        lane_bytes: Gauge = "signaling_lane_waiting_bytes",
            "Bytes for other nodes, queued or not acknowledged yet; queued outcomes do not count";
        relayed: Counter = "signaling_relayed_envelopes_total", "Envelopes of other nodes sent on to a third node";
        detours: Counter = "signaling_detours_total", "Copies sent through another node while an owner was suspect";
        retransmissions: Counter = "signaling_node_retransmissions_total",
            "Messages of this node's clients sent again, to other nodes or to recipients at this node";
        drops: Counter = "signaling_forward_drops_total",
            "Items dropped: no room in a lane or for held messages, node unknown, content invalid or message expired; \
             the sender's node retransmits messages until their deadline";
        seats: By<SeatLabel, Gauge> = "signaling_room_seats",
            "Seats of this node's clients in rooms, as members or in waiting queues";
        room_commands: Counter = "signaling_room_commands_total",
            "Joins, leaves and requests for members, answered without an error";
        joins_refused: By<JoinLimit> = "signaling_refused_joins_total",
            "Joins refused, by the limit: rooms of one client (rooms), length of the waiting queue (waiting_queue), \
             new rooms of a client or token subject (new_rooms), members reached by a client (fan_out), or bytes of rooms \
             at the client's node, the owner or its backup (room_bytes)";
        broadcasts: Counter = "signaling_broadcasts_total",
            "Broadcasts sent to the members of their room, each counted once";
        room_bytes: Gauge = "signaling_room_bytes",
            "Estimated bytes of the rooms that this node owns or has copies of, and of its clients' seats";
        room_bytes_limit: Gauge = "signaling_room_bytes_limit",
            "Maximum bytes of the rooms that this node owns or has copies of, and of its clients' seats (`--room-bytes`)";
        rooms_empty: Gauge = "signaling_rooms_empty",
            "Rooms that this node owns without members and waiting clients: they remember former ones, or have a \
             capacity that an operator set";
        rooms_owned: Gauge = "signaling_rooms_owned", "Rooms that this node owns";
        room_copies: Gauge = "signaling_room_copies",
            "Copies of rooms that other nodes own: as their backup, or until their next owner has them";
        room_takeovers: Counter = "signaling_room_takeovers_total",
            "Rooms that this node took over from a copy: of another owner, or its own after it gave the room up";
        rooms_rebuilt: Counter = "signaling_rooms_rebuilt_total",
            "Rooms whose copies were all lost, which this node rebuilt from the seats at the nodes";
        room_copies_sent: Counter = "signaling_room_copies_sent_total",
            "Copies of whole rooms that this node sent to their backups";
        room_timeouts: Counter = "signaling_room_request_timeouts_total",
            "Room requests of clients and operators that the room's owner did not answer within 2 s";
        journal_lag: FloatGauge = "signaling_room_journal_lag_seconds",
            "Time for which changes of rooms have waited for the room journal, or since it went away (0 without one)";
        journal_writes: Counter = "signaling_room_journal_writes_total",
            "Writes about rooms for the room journal, each with the changes of one room";
        journal_refused: Counter = "signaling_room_journal_refused_total",
            "Writes that the room journal refused, as it has a later epoch of the room";
        journal_reads: Counter = "signaling_room_journal_reads_total",
            "Rooms without any copy that this node requested from the room journal";
        room_majority: Gauge = "signaling_room_majority",
            "1 while more than half of the nodes of the view answer, by views that have this node, else 0: it then \
             serves no rooms. Nodes that refuse the connection do not count";
        view_unconfirmed: Gauge = "signaling_room_view_unconfirmed",
            "Nodes of the view that have not confirmed it; until all have, this node serves no rooms that are new to it";
        view_wait: FloatCounter = "signaling_room_view_wait_seconds_total",
            "Time from changes of the view until all nodes had confirmed them, while this node served no rooms that were \
             new to it";
        room_failures: Counter = "signaling_room_failures_total",
            "Operations on rooms without a result of the owner, or skipped because too many waited";
    }
}

label! {
    /// Outcome of a message: its delivery is confirmed, or not known to have happened.
    pub(crate) enum Outcome = "outcome" { Delivered = "delivered", Unavailable = "unavailable" }
}
label! {
    /// Cause of a lane's end, as in the help of `signaling_lane_ends_total`.
    pub(crate) enum LaneEnd = "reason" {
        Refused = "refused", Rejected = "rejected", Closed = "closed", Broken = "broken", Cut = "cut",
    }
}
label! {
    /// Status of a seat: member, or in a waiting queue.
    pub(crate) enum SeatLabel = "status" { Member = "member", Waiting = "waiting" }
}
label! {
    /// Limit that a refused join exceeds: rooms of one client, length of the waiting queue, new
    /// rooms of a client or subject, members that a client reaches, or bytes of rooms.
    pub(crate) enum JoinLimit = "limit" {
        Rooms = "rooms", WaitingQueue = "waiting_queue", NewRooms = "new_rooms", FanOut = "fan_out",
        RoomBytes = "room_bytes",
    }
}

/// Code of an error that a client receives, as a label.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorLabel(ErrorCode);

impl Label for ErrorLabel {
    fn values() -> Vec<Labels> {
        ErrorCode::ALL.iter().map(|code| vec![("code", code.as_str())]).collect()
    }

    fn index(&self) -> usize {
        self.0 as usize
    }
}

/// Publishes the maximum of held bytes, of lingering sessions and of the bytes of rooms. Called
/// once, at the start.
pub(super) fn publish_limits(settings: &Settings) {
    METRICS.held_limit.publish(settings.hold_limits.bytes as u64);
    METRICS.lingering_limit.publish(settings.rules.max_lingering as u64);
    METRICS.room_bytes_limit.publish(settings.rooms.max_bytes as u64);
}

pub(super) fn publish(core: &NodeCore) {
    let (metrics, counts) = (&*METRICS, core.counts());
    publish_suspects(core.peers().suspects().count());
    metrics.sessions.publish(core.sessions() as u64);
    metrics.held.publish(core.held_bytes() as u64);
    metrics.hold_refused.publish(core.hold_refused());
    metrics.lingering.publish(core.lingering() as u64);
    metrics.lane_bytes.publish(core.peers().lane_bytes() as u64);
    metrics.lingering_refused.publish(counts.lingering_refused);
    metrics.resumed.publish(counts.resumed);
    metrics.detours.publish(counts.detours);
    metrics.attached.publish(counts.attached);
    metrics.requests.publish(counts.requests);
    metrics.refused.all().zip(counts.refused).for_each(|(counter, count)| counter.publish(count));
    metrics.messages.of(Outcome::Delivered).publish(counts.delivered);
    metrics.messages.of(Outcome::Unavailable).publish(counts.unavailable);
    metrics.hold_expired.publish(counts.expired);
    metrics.forwarded.publish(counts.forwarded);
    metrics.relayed.publish(counts.relayed);
    metrics.retransmissions.publish(counts.retransmissions);
    metrics.drops.publish(counts.dropped);
    let (figures, counts) = (core.rooms().figures(), core.rooms().counts());
    metrics.seats.of(SeatLabel::Member).publish(figures.members as u64);
    metrics.seats.of(SeatLabel::Waiting).publish(figures.waiting as u64);
    metrics.room_commands.publish(counts.commands);
    metrics.broadcasts.publish(counts.broadcasts);
    metrics.joins_refused.of(JoinLimit::Rooms).publish(counts.too_many_rooms);
    metrics.joins_refused.of(JoinLimit::WaitingQueue).publish(counts.full_queues);
    metrics.joins_refused.of(JoinLimit::NewRooms).publish(counts.joins_over_new_rooms);
    metrics.joins_refused.of(JoinLimit::RoomBytes).publish(counts.joins_over_bytes);
    metrics.joins_refused.of(JoinLimit::FanOut).publish(counts.joins_over_fan_out);
    metrics.room_failures.publish(counts.failures);
    let figures = core.rooms().mesh_figures();
    let counts = core.rooms().mesh_counts();
    metrics.rooms_owned.publish(figures.owned as u64);
    metrics.rooms_empty.publish(figures.vacant as u64);
    metrics.room_bytes.publish(figures.bytes as u64);
    metrics.room_copies.publish(figures.copies as u64);
    metrics.room_majority.publish(u64::from(core.rooms().has_majority()));
    metrics.view_unconfirmed.publish(figures.unconfirmed as u64);
    metrics.room_takeovers.publish(counts.taken_over);
    metrics.rooms_rebuilt.publish(counts.rebuilt);
    metrics.room_copies_sent.publish(counts.copied);
    metrics.room_timeouts.publish(counts.timeouts);
    publish_seconds(&metrics.view_wait, counts.waited);
    let counts = core.rooms().journal_counts();
    metrics.journal_writes.publish(counts.taken);
    metrics.journal_refused.publish(counts.refused);
    metrics.journal_reads.publish(counts.reads);
}

/// Publishes how long changes have waited for the room journal.
pub(super) fn publish_journal_lag(lag: Duration) {
    METRICS.journal_lag.set(lag.as_secs_f64());
}
