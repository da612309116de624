//! Metrics of dialects' clients by `dialect`. `state` publishes them before each `/metrics` page.

use signaling_core::edge::EdgeCore;
use signaling_dialects::Dialect;
use signaling_metrics::{By, Gauge, Label, Labels, Publish, label, metrics};
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
    pub(crate) type Ignored = "reason" ["json", "type", "field", "binary", "foreign", "unknown_peer", "limit"]
}
label! { pub(crate) type Answer = "kind" ["expire", "error", "subscribe_failed"] }
label! { pub(crate) type Claim = "result" ["new", "taken_over", "refused"] }
label! { pub(crate) type Wait = "cause" ["rate", "room"] }

/// Publishes the counts of the core. Labels have the order of `Dialect::ALL`, `IgnoredReason`,
/// `AnswerKind` and `DialectCounts::claims`.
pub(super) fn publish(core: &EdgeCore) {
    let counts = Dialect::ALL.map(|dialect| core.dialect_counts(dialect));
    publish_each(&METRICS.sockets, core.figures().dialect_sockets.map(|sockets| sockets as u64));
    publish_each(&METRICS.frames, counts.iter().flat_map(|it| [it.frames_in, it.frames_out]));
    publish_each(&METRICS.ignored, counts.iter().flat_map(|it| it.ignored));
    publish_each(&METRICS.answers, counts.iter().flat_map(|it| it.answers));
    publish_each(&METRICS.claims, counts.iter().flat_map(|it| it.claims));
    publish_each(&METRICS.waits, counts.iter().flat_map(|it| [it.rate_waits, it.room_waits]));
}

fn publish_each<L: Label, M: Publish>(metrics: &By<L, M>, counts: impl IntoIterator<Item = u64>) {
    metrics.all().zip(counts).for_each(|(metric, count)| metric.publish(count));
}
