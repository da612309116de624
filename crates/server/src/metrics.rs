//! Metrics of every server, and of its trunks. `telemetry` registers them.

use signaling_metrics::{By, Counter, Gauge, HistogramBuckets, Publish, label, metrics};

metrics! {
    /// Metrics of every server and its trunks. The macro also defines their static, `METRICS`.
    pub struct ServerMetrics {
        ready: Gauge = "signaling_ready",
            "1 while the server can take work, even if its client count makes it unready; else 0";
        draining: Gauge = "signaling_draining", "1 while the server drains or an operator keeps it out of service, else 0";
        event_loop_delay: HistogramBuckets = "signaling_event_loop_delay_seconds",
            "Lateness of a timer that fires every 250 ms; a busy event loop and its read delay (`--coalesce-us`) add to it";
        process_pauses: Counter = "signaling_process_pauses_total",
            "Stalls of the event loop of 2 s or more: the process was stopped, had no CPU, or one task ran that long; \
             suspension of the machine does not count";
        suspects: Gauge = "signaling_suspect_nodes",
            "Nodes that this server avoids because they did not answer or a connection to them failed";
        internal_refusals: By<InternalRefusal> = "signaling_refused_internal_total",
            "Requests refused at the internal listener, by the missing or wrong proof";
        accept_errors: Counter = "signaling_accept_errors_total",
            "Errors of `accept` at both listeners; the usual cause is a shortage of descriptors";
        mesh_secrets: Gauge = "signaling_mesh_secrets", "Secrets of `--mesh-secret-file` that this server accepts: 1, or 2 during a rotation";
        mesh_secret_loads: By<Reload> = "signaling_mesh_secret_loads_total",
            "Reads of a changed `--mesh-secret-file`: in use now (used), or unreadable or invalid (unusable)";
        file_reloads: By<Reload> = "signaling_file_reloads_total",
            "Reads of changed files with token keys, ICE servers or a TURN secret: in use now (used), or unreadable or \
             invalid (unusable); the log names flag and file";
        trunk_closes: By<TrunkCloseLabel> = "signaling_trunks_ended_total",
            "Trunks ended: by a close frame of the other end (closed), without input or with an unfinished write for \
             2 s (silent), by a connection error or without a close frame (failed), by an invalid, late or too \
             large batch (protocol_error) or closed by this server (local)";
        trunk_bytes: By<Direction> = "signaling_trunk_bytes_total", "Bytes of batches carried over trunks";
        trunk_write: HistogramBuckets = "signaling_trunk_write_seconds",
            "Time until the kernel takes a batch for a trunk; it grows with a slow peer or network";
    }
}

label! {
    /// Proof that a refused request to the internal listener lacks or has wrong.
    pub enum InternalRefusal = "reason" { Secret = "secret", AdminToken = "admin_token" }
}
label! {
    /// Result of reading a changed file: in use now, or unreadable or invalid.
    pub enum Reload = "result" { Used = "used", Unusable = "unusable" }
}
label! {
    /// A [`TrunkCloseReason`](crate::trunk::TrunkCloseReason) as label; `Local` is `ClosedLocally`.
    pub(crate) enum TrunkCloseLabel = "reason" {
        Closed = "closed", Silent = "silent", Failed = "failed", ProtocolError = "protocol_error", Local = "local",
    }
}
label! {
    /// Direction of bytes: received by this server, or sent.
    pub enum Direction = "direction" { In = "in", Out = "out" }
}

/// Publishes the number of suspect nodes as `signaling_suspect_nodes`.
pub fn publish_suspects(count: usize) {
    METRICS.suspects.publish(count as u64);
}
