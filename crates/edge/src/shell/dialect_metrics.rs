//! Metrics of dialects' clients, each with the label `dialect`. `state` publishes them.

use signaling_core::edge::{DialectCounts, EdgeCore};
use signaling_dialects::Dialect;
use signaling_dialects::event::{AnswerKind, IgnoredReason};
use signaling_metrics::{By, Gauge, Publish as _, label, metrics};
use signaling_server::metrics::Direction;

metrics! {
    /// Metrics of dialects' clients.
    pub struct DialectMetrics {
        sockets: By<DialectLabel, Gauge> = "signaling_dialect_sockets",
            "Client WebSockets open at this edge, by dialect (`--dialects`)";
        frames: By<(DialectLabel, Direction)> = "signaling_dialect_frames_total",
            "Frames read from and written to clients of dialects, by dialect and direction";
        ignored: By<(DialectLabel, Ignored)> = "signaling_dialect_ignored_total",
            "Frames of dialects, or parts of them, without effect, by dialect and reason: no JSON object (json), message unknown \
             (type), field missing or invalid (field), binary frame not allowed (binary), sender of another dialect (foreign), \
             sender or recipient not in the room (unknown_peer), limit reached (limit)";
        answers: By<(DialectLabel, Answer)> = "signaling_dialect_answers_total",
            "Failures reported to clients in their dialect, by dialect and kind: recipient not reached (expire), request invalid \
             (error), subscription refused (subscribe_failed)";
        claims: By<(DialectLabel, Claim)> = "signaling_dialect_claims_total",
            "Claims of client ids, by dialect and result: no session had the id (new), a session of the same client had it \
             (taken_over), another client has it (refused)";
        waits: By<(DialectLabel, Wait)> = "signaling_dialect_waits_total",
            "Waits of dialects\' clients, by dialect and cause: message rate exceeded (rate), no node can serve the room (room)";
    }
}

// Labels of the metrics above. Their order is that of the core's counts.
label! {
    pub(crate) enum DialectLabel = "dialect" {
        PeerJs = "peerjs", YWebrtc = "y-webrtc", Trystero = "trystero", Rxdb = "rxdb",
        PixelStreaming = "pixelstreaming", Matchbox = "matchbox", GStreamer = "gstreamer",
    }
}
label! {
    pub(crate) enum Ignored = "reason" {
        Json = "json", Type = "type", Field = "field", Binary = "binary", Foreign = "foreign",
        UnknownPeer = "unknown_peer", Limit = "limit",
    }
}
label! { pub(crate) enum Answer = "what" { Expire = "expire", Error = "error", SubscribeFailed = "subscribe_failed" } }
label! { pub(crate) enum Claim = "result" { New = "new", TakenOver = "taken_over", Refused = "refused" } }
label! { pub(crate) enum Wait = "what" { Rate = "rate", Room = "room" } }

impl From<Dialect> for DialectLabel {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::PeerJs => Self::PeerJs,
            Dialect::YWebrtc => Self::YWebrtc,
            Dialect::Trystero => Self::Trystero,
            Dialect::Rxdb => Self::Rxdb,
            Dialect::PixelStreaming => Self::PixelStreaming,
            Dialect::Matchbox => Self::Matchbox,
            Dialect::GStreamer => Self::GStreamer,
        }
    }
}

impl From<IgnoredReason> for Ignored {
    fn from(reason: IgnoredReason) -> Self {
        match reason {
            IgnoredReason::Json => Self::Json,
            IgnoredReason::Type => Self::Type,
            IgnoredReason::Field => Self::Field,
            IgnoredReason::Binary => Self::Binary,
            IgnoredReason::Foreign => Self::Foreign,
            IgnoredReason::UnknownPeer => Self::UnknownPeer,
            IgnoredReason::Limit => Self::Limit,
        }
    }
}

impl From<AnswerKind> for Answer {
    fn from(kind: AnswerKind) -> Self {
        match kind {
            AnswerKind::Expire => Self::Expire,
            AnswerKind::Error => Self::Error,
            AnswerKind::SubscribeFailed => Self::SubscribeFailed,
        }
    }
}

/// Publishes the counts of the core.
pub(super) fn publish(core: &EdgeCore) {
    let sockets = core.figures().dialect_sockets;
    for (dialect, sockets) in Dialect::ALL.into_iter().zip(sockets) {
        let label = DialectLabel::from(dialect);
        METRICS.sockets.of(label).publish(sockets as u64);
        let counts = core.dialect_counts(dialect);
        let DialectCounts { frames_in, frames_out, ignored, answers, claims, room_waits, rate_waits } = counts;
        METRICS.frames.of((label, Direction::In)).publish(frames_in);
        METRICS.frames.of((label, Direction::Out)).publish(frames_out);
        for (reason, count) in IgnoredReason::ALL.into_iter().zip(ignored) {
            METRICS.ignored.of((label, reason.into())).publish(count);
        }
        for (kind, count) in AnswerKind::ALL.into_iter().zip(answers) {
            METRICS.answers.of((label, kind.into())).publish(count);
        }
        for (result, count) in [Claim::New, Claim::TakenOver, Claim::Refused].into_iter().zip(claims) {
            METRICS.claims.of((label, result)).publish(count);
        }
        METRICS.waits.of((label, Wait::Rate)).publish(rate_waits);
        METRICS.waits.of((label, Wait::Room)).publish(room_waits);
    }
}
