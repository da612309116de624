//! Reading a server's metrics page.

use std::time::Duration;

use crate::eventually;

const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than what a test has set going takes to show.
const SOON: Duration = Duration::from_secs(10);

/// The sum of all samples of a metric whose labels contain `label` (empty: all), on the internal listener at `internal`.
pub async fn metric(internal: &str, name: &str, label: &str) -> f64 {
    // Not kept from call to call: a client's connections live on the runtime of the test that made them.
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let page = http.get(format!("{internal}/metrics")).send().await.unwrap().text().await.unwrap();
    let samples = page.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(label)
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until the sum of all samples of a metric is this.
pub async fn becomes(internal: &str, name: &str, value: usize) {
    let reached = || async { (metric(internal, name, "").await == value as f64).then_some(()) };
    eventually(&format!("{name} at {internal} to become {value}"), SOON, reached).await;
}
