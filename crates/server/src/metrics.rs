//! What this crate counts.

use metrics::{counter, describe_counter, describe_gauge, gauge};

const REFUSED_INTERNAL: &str = "signaling_refused_internal_total";
const ACCEPT_ERRORS: &str = "signaling_accept_errors_total";
const SECRETS: &str = "signaling_mesh_secrets";
const SECRET_LOADS: &str = "signaling_mesh_secret_loads_total";
const FILES_READ: &str = "signaling_file_reloads_total";

pub(crate) fn describe() {
    describe_counter!(REFUSED_INTERNAL, "Requests to the internal listener without the mesh secret.");
    describe_counter!(ACCEPT_ERRORS, "Errors of accept, most likely a shortage of descriptors.");
    describe_gauge!(SECRETS, "Mesh secrets that are accepted: two while they are being changed.");
    describe_counter!(SECRET_LOADS, "Times that a changed mesh secret was read, by what came of it.");
    describe_counter!(FILES_READ, "Changes of files that are read again while the server runs, by flag and result.");
    // So that the page has them from the start.
    counter!(REFUSED_INTERNAL).absolute(0);
    counter!(ACCEPT_ERRORS).absolute(0);
}

pub(crate) fn refused_internal() {
    counter!(REFUSED_INTERNAL).increment(1);
}

/// So many are accepted now. `loaded` says whether that was just read, or could not be.
#[expect(clippy::cast_precision_loss, reason = "one or two")]
pub(crate) fn mesh_secrets(accepted: usize, loaded: Option<bool>) {
    gauge!(SECRETS).set(accepted as f64);
    for (result, is_it) in [("used", loaded == Some(true)), ("unusable", loaded == Some(false))] {
        counter!(SECRET_LOADS, "result" => result).increment(u64::from(is_it));
    }
}

pub(crate) fn accept_error() {
    counter!(ACCEPT_ERRORS).increment(1);
}

pub(crate) fn file_read(flag: &'static str, well: bool) {
    counter!(FILES_READ, "flag" => flag, "result" => if well { "ok" } else { "failed" }).increment(1);
}
