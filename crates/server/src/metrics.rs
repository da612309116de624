//! What both servers count.

use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram};
use signaling_metrics::{Label, Metric};

use crate::trunk::TrunkEnd;

/// All of it.
pub const METRICS: &[Metric] = &[
    BUILD,
    READY,
    DRAINING,
    EVENT_LOOP_DELAY,
    PAUSES,
    SUSPECTS,
    REFUSED_INTERNAL,
    ACCEPT_ERRORS,
    SECRETS,
    SECRET_LOADS,
    FILES_READ,
    TRUNKS,
    TRUNKS_OPENED,
    TRUNKS_ENDED,
    TRUNK_BATCHES,
    TRUNK_BYTES,
    TRUNK_WRITE,
];

const BUILD: Metric = Metric::gauge("signaling_build_info", "1, with the version that runs.")
    .by(&[Label { name: "version", values: &[] }]);
const READY: Metric = Metric::gauge("signaling_ready", "1 while the server can take work, as `/readyz` says.");
const DRAINING: Metric =
    Metric::gauge("signaling_draining", "1 while the server leaves the service, or is kept out of it.");
pub(crate) const EVENT_LOOP_DELAY: Metric = Metric::times(
    "signaling_event_loop_delay_seconds",
    "How late the event loop was, looked at ten times a second: what everything here waits for. A busy server lets input \
     gather (`--gather-us`), which counts.",
);
pub(crate) const PAUSES: Metric = Metric::counter(
    "signaling_pauses_total",
    "Times that the process did nothing for 2 s or more: it was stopped, or starved of CPU.",
);
/// Other servers that this one does not rely on; balancers and nodes have a gauge of it each.
pub const SUSPECTS: Metric = Metric::gauge(
    "signaling_suspect_nodes",
    "Nodes that this server does not rely on now, because they did not answer.",
);
const REFUSED_INTERNAL: Metric = Metric::counter(
    "signaling_refused_internal_total",
    "Requests to the internal listener that were refused: without the mesh secret, without the admin token, or of a foreign web page where \
     there is no admin token.",
)
.by(&[Label { name: "reason", values: &["secret", "admin_token", "foreign_page"] }]);
const ACCEPT_ERRORS: Metric =
    Metric::counter("signaling_accept_errors_total", "Errors of accept, most likely a shortage of descriptors.");
const SECRETS: Metric =
    Metric::gauge("signaling_mesh_secrets", "Mesh secrets that are accepted: two while they are being changed.");
const SECRET_LOADS: Metric = Metric::counter(
    "signaling_mesh_secret_loads_total",
    "Times that a changed mesh secret was read, by what came of it.",
)
.by(&[Label { name: "result", values: &["used", "unusable"] }]);

const FILES_READ: Metric = Metric::counter(
    "signaling_file_reloads_total",
    "Changes of files that are read again while the server runs, by the flag that names the file, and what came of it.",
)
.by(&[Label { name: "flag", values: &[] }, Label { name: "result", values: &["ok", "failed"] }]);

const TRUNKS: Metric = Metric::gauge("signaling_trunks", "Trunks that are open at this end.");
const TRUNKS_OPENED: Metric = Metric::counter("signaling_trunks_opened_total", "Trunks opened.");
const TRUNKS_ENDED: Metric = Metric::counter(
    "signaling_trunks_ended_total",
    "Trunks ended: by the other end, by its silence, by an error of the connection, by what was no frame, or given up here.",
)
.by(&[Label { name: "reason", values: &["closed", "silent", "failed", "nonsense", "given"] }]);
const DIRECTION: &[Label] = &[Label { name: "direction", values: &["in", "out"] }];
const TRUNK_BATCHES: Metric =
    Metric::counter("signaling_trunk_batches_total", "Batches carried over trunks: each is one WebSocket message.")
        .by(DIRECTION);
const TRUNK_BYTES: Metric = Metric::counter("signaling_trunk_bytes_total", "Bytes of these batches.").by(DIRECTION);
const TRUNK_WRITE: Metric = Metric::times(
    "signaling_trunk_write_seconds",
    "How long the system took to take a batch for a trunk: it waits for the other end, or for the network.",
);

pub(crate) fn announce() {
    METRICS.iter().for_each(Metric::announce);
    BUILD.gauge_of(&[env!("CARGO_PKG_VERSION")]).set(1.0);
}

pub(crate) fn health(ready: bool, draining: bool) {
    READY.gauge_of(&[]).set(f64::from(u8::from(ready)));
    DRAINING.gauge_of(&[]).set(f64::from(u8::from(draining)));
}

/// Why a request to the internal listener is refused.
#[derive(Debug, Clone, Copy)]
pub enum InternalRefusal {
    /// It does not show the mesh secret.
    Secret,
    /// It does not show the operators' token.
    AdminToken,
    /// It may be a foreign web page's, and there is no operators' token.
    ForeignPage,
}

/// Counts it.
pub fn refused_internal(refusal: InternalRefusal) {
    let reason = match refusal {
        InternalRefusal::Secret => "secret",
        InternalRefusal::AdminToken => "admin_token",
        InternalRefusal::ForeignPage => "foreign_page",
    };
    REFUSED_INTERNAL.counter_of(&[reason]).increment(1);
}

/// So many are accepted now. `loaded` says whether that was just read, or could not be.
#[expect(clippy::cast_precision_loss, reason = "one or two")]
pub(crate) fn mesh_secrets(accepted: usize, loaded: Option<bool>) {
    SECRETS.gauge_of(&[]).set(accepted as f64);
    if let Some(loaded) = loaded {
        SECRET_LOADS.counter_of(&[if loaded { "used" } else { "unusable" }]).increment(1);
    }
}

pub(crate) fn accept_error() {
    ACCEPT_ERRORS.counter_of(&[]).increment(1);
}

/// What one trunk counts, from its opening to its end.
pub(crate) struct TrunkMetrics {
    open: Gauge,
    batches_in: Counter,
    batches_out: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    write: Histogram,
}

impl TrunkMetrics {
    pub(crate) fn opened() -> Self {
        TRUNKS_OPENED.counter_of(&[]).increment(1);
        let open = TRUNKS.gauge_of(&[]);
        open.increment(1.0);
        Self {
            open,
            batches_in: TRUNK_BATCHES.counter_of(&["in"]),
            batches_out: TRUNK_BATCHES.counter_of(&["out"]),
            bytes_in: TRUNK_BYTES.counter_of(&["in"]),
            bytes_out: TRUNK_BYTES.counter_of(&["out"]),
            write: TRUNK_WRITE.times_of(&[]),
        }
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.batches_in.increment(1);
        self.bytes_in.increment(bytes as u64);
    }

    pub(crate) fn wrote(&self, bytes: usize, took: Duration) {
        self.batches_out.increment(1);
        self.bytes_out.increment(bytes as u64);
        self.write.record(took);
    }

    pub(crate) fn ended(&self, end: &TrunkEnd) {
        TRUNKS_ENDED.counter_of(&[end.as_label()]).increment(1);
    }
}

impl Drop for TrunkMetrics {
    fn drop(&mut self) {
        self.open.decrement(1.0);
    }
}

pub(crate) fn file_read(flag: &'static str, well: bool) {
    FILES_READ.counter_of(&[flag, if well { "ok" } else { "failed" }]).increment(1);
}
