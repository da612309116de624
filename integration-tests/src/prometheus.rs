//! A Prometheus process for one test, with the committed rules at a faster pace.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use regex::{Captures, Regex};
use serde_json::{Value, json};
use signaling_devmesh::{Service, hold_port};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::http::host;
use crate::{eventually, repository, within};

/// Divisor of the rules' times: 5 minutes become 3 s.
pub const HASTE: u64 = 100;
/// Pause before each request, because servers need the processor.
const REQUEST_INTERVAL: Duration = Duration::from_millis(80);
/// Longer than any of the hastened rules takes.
const ALERT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time without firing after which an alert is over: longer than most `for:` of the rules.
const CALM: Duration = Duration::from_millis(1_500);

/// A running Prometheus. Dropping it ends it.
pub struct Prometheus {
    address: String,
    http: reqwest::Client,
    _service: Service,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus for these servers, given by name and internal listener. It scrapes and
    /// evaluates twice per second, starting 5 s after its start.
    pub async fn start(program: &Path, servers: &[(String, String)]) -> Self {
        let target = |(instance, internal): &(String, String)| json!({ "targets": [host(internal)], "labels": { "instance": instance } });
        let targets: Vec<_> = servers.iter().map(target).collect();
        let dir = tempfile::tempdir().unwrap();
        let config = "
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs: [{job_name: signaling, file_sd_configs: [{files: [targets.json]}]}]
";
        fs::write(dir.path().join("prometheus.yml"), config).unwrap();
        fs::write(dir.path().join("targets.json"), serde_json::to_vec(&targets).unwrap()).unwrap();
        fs::write(dir.path().join("rules.yaml"), hastened(&rules())).unwrap();
        // It does not report its port, so a free one is held for it.
        let port = hold_port((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = port.local_addr().unwrap().to_string();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let mut line: Vec<OsString> = vec![program.into()];
        line.push(format!("--config.file={}", path("prometheus.yml")).into());
        line.push(format!("--storage.tsdb.path={}", path("data")).into());
        line.push(format!("--web.listen-address={address}").into());
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        let url = format!("http://{address}/-/ready");
        let is_ready = async || http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success());
        let ready = eventually("Prometheus to be ready", is_ready);
        let (service, ()) = Service::start(&line, &dir.path().join("log"), ready).await.unwrap();
        Self { address, http, _service: service, _dir: dir }
    }

    /// Returns the firing alerts, as pairs of a name and the server, which is empty if the alert
    /// has none. Returns no alerts if Prometheus does not answer.
    pub async fn firing(&self) -> BTreeSet<(String, String)> {
        sleep(REQUEST_INTERVAL).await;
        let url = format!("http://{}/api/v1/alerts", self.address);
        let ask = async { self.http.get(url).send().await?.error_for_status()?.json::<Value>().await };
        let answer = ask.await.unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| (text(&alert["labels"]["alertname"]), text(&alert["labels"]["instance"]))).collect()
    }

    /// Waits until the alert fires. Panics after 20 s.
    pub async fn fires(&self, alert: &str) {
        let start = Instant::now();
        let fires = async || self.firing().await.into_iter().find(|(name, _)| name == alert);
        let (_, server) = within(ALERT_TIMEOUT, &format!("{alert} to fire"), fires).await;
        println!("{alert} fires after {:.1?}: {server}", start.elapsed());
    }

    /// Waits until the alert has not fired for 1.5 s. Panics after 20 s.
    pub async fn is_over(&self, alert: &str) {
        let (start, mut since) = (Instant::now(), Instant::now());
        let is_over = async || {
            if self.firing().await.iter().any(|(name, _)| name == alert) {
                since = Instant::now();
            }
            (since.elapsed() >= CALM).then_some(since)
        };
        let since = within(ALERT_TIMEOUT, &format!("{alert} to be over"), is_over).await;
        println!("{alert} over after {:.1?}", since - start);
    }
}

/// Returns the names of all alerts of the committed rules.
pub fn alerts() -> BTreeSet<String> {
    rules().lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

fn rules() -> String {
    fs::read_to_string(repository().join("deploy/observability/rules.yaml")).unwrap()
}

/// Divides all durations of the rules by [`HASTE`]: after `for:`, and in brackets.
fn hastened(rules: &str) -> String {
    // A subquery in brackets has a length and a step.
    let durations = Regex::new(r"(for: |\[|:)([0-9]+)([smh])").unwrap();
    let hasten = |found: &Captures<'_>| {
        let seconds = found[2].parse::<u64>().unwrap() * [1, 60, 3_600]["smh".find(&found[3]).unwrap()];
        format!("{}{}ms", &found[1], seconds * 1_000 / HASTE)
    };
    durations.replace_all(rules, hasten).into_owned()
}
