//! Metrics of dialects' clients by `dialect`. `state` publishes them before each `/metrics` page.

use signaling_core::edge::{DialectCounts, EdgeCore};
use signaling_dialects::Dialect;
use signaling_metrics::{By, Gauge, Label, Labels, Publish as _, label, metrics};
use signaling_server::metrics::Direction;

metrics! {
    /// Metrics of dialects' clients.
    pub struct DialectMetrics {
        sockets: By<DialectLabel, Gauge> = "signaling_dialect_sockets",
            "Client WebSockets open at this edge, by dialect (`--dialects`)";
        frames: By<(DialectLabel, Direction)> = "signaling_dialect_frames_total",
            "Text and binary frames read from clients of dialects, and text frames queued for them, by dialect and \
             direction";
        ignored: By<(DialectLabel, Ignored)> = "signaling_dialect_ignored_total",
            "Frames from dialects' clients, messages to them, or parts of one, without effect, by dialect and reason: no JSON \
             object (json), message unknown (type), field missing or invalid (field), binary frame not allowed (binary), sender \
             or content of another protocol (foreign), sender, recipient or session not valid for the client now \
             (unknown_peer), limit per client reached (limit)";
        answers: By<(DialectLabel, Answer)> = "signaling_dialect_answers_total",
            "Failed messages and subscriptions of dialects' clients, by dialect and kind: recipient not reached (expire), request \
             invalid or peer not reached (error), subscription failed for good, in most dialects without an answer \
             (subscribe_failed)";
        claims: By<(DialectLabel, Claim)> = "signaling_dialect_claims_total",
            "Claims of client ids by dialects' clients, by dialect and result: no session had the id (new), a session of the \
             same client had it (taken_over), another client has it (refused)";
        waits: By<(DialectLabel, Wait)> = "signaling_dialect_waits_total",
            "Waits of dialects' clients, each retry counted, by dialect and cause: message or byte rate exceeded, client not read \
             (rate), no node can carry out the room request (room)";
    }
}

/// A dialect as the label `dialect`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DialectLabel(Dialect);

impl Label for DialectLabel {
    fn values() -> Vec<Labels> {
        Dialect::ALL.iter().map(|dialect| vec![("dialect", dialect.as_str())]).collect()
    }

    fn index(&self) -> usize {
        self.0 as usize
    }
}

label! {
    pub(crate) enum Ignored = "reason" {
        Json = "json", Type = "type", Field = "field", Binary = "binary", Foreign = "foreign",
        UnknownPeer = "unknown_peer", Limit = "limit",
    }
}
label! { pub(crate) enum Answer = "kind" { Expire = "expire", Error = "error", SubscribeFailed = "subscribe_failed" } }
label! { pub(crate) enum Claim = "result" { New = "new", TakenOver = "taken_over", Refused = "refused" } }
label! { pub(crate) enum Wait = "cause" { Rate = "rate", Room = "room" } }

// Labels in the order of `IgnoredReason`, `AnswerKind` and `DialectCounts::claims`.
const IGNORED: [Ignored; 7] = [
    Ignored::Json,
    Ignored::Type,
    Ignored::Field,
    Ignored::Binary,
    Ignored::Foreign,
    Ignored::UnknownPeer,
    Ignored::Limit,
];
const ANSWERS: [Answer; 3] = [Answer::Expire, Answer::Error, Answer::SubscribeFailed];
const CLAIMS: [Claim; 3] = [Claim::New, Claim::TakenOver, Claim::Refused];

pub(super) fn publish(core: &EdgeCore) {
    let sockets = core.figures().dialect_sockets;
    for (dialect, sockets) in Dialect::ALL.into_iter().zip(sockets) {
        let label = DialectLabel(dialect);
        METRICS.sockets.of(label).publish(sockets as u64);
        let counts = core.dialect_counts(dialect);
        let DialectCounts { frames_in, frames_out, ignored, answers, claims, rate_waits, room_waits } = counts;
        publish_each(&METRICS.frames, label, [Direction::In, Direction::Out], [frames_in, frames_out]);
        publish_each(&METRICS.ignored, label, IGNORED, ignored);
        publish_each(&METRICS.answers, label, ANSWERS, answers);
        publish_each(&METRICS.claims, label, CLAIMS, claims);
        publish_each(&METRICS.waits, label, [Wait::Rate, Wait::Room], [rate_waits, room_waits]);
    }
}

fn publish_each<L: Label, const N: usize>(
    metric: &By<(DialectLabel, L)>,
    dialect: DialectLabel,
    labels: [L; N],
    counts: [u64; N],
) {
    for (label, count) in labels.into_iter().zip(counts) {
        metric.of((dialect, label)).publish(count);
    }
}
