//! Metrics of a server, from its metrics page.

use crate::{eventually, get};

/// Returns the sum of all samples of a metric whose labels contain the text `label` (empty: all),
/// or 0 without any. `internal` is the `http://HOST:PORT` of a server's internal listener. Panics
/// if the server does not answer.
pub async fn metric(internal: &str, name: &str, label: &str) -> f64 {
    let page = get(internal, "/metrics").await.body;
    let samples = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until the sum of all samples of a metric equals `value`. Panics after 60 s.
pub async fn becomes(internal: &str, name: &str, value: usize) {
    until(internal, name, "", |now| now == value as f64).await;
}

/// Waits until the sum of all samples of a metric whose labels contain the text `label` (empty:
/// all) satisfies `fits`. Panics after 60 s.
pub async fn until(internal: &str, name: &str, label: &str, fits: impl Fn(f64) -> bool) {
    let what = format!("{name} {label} at {internal} to change");
    eventually(&what, async || fits(metric(internal, name, label).await)).await;
}
