//! A Prometheus process for one test, with the committed rules at a faster pace.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use regex::{Captures, Regex};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::eventually;
use crate::optional::{in_path, missing};
use crate::runbook::rules_text;

/// Divisor of the rules' times: 5 minutes become 3 s.
pub const HASTE: u64 = 100;
/// Time limit of its start.
const STARTS_WITHIN: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(100);

/// A running Prometheus. Dropping it ends it.
pub struct Prometheus {
    address: String,
    http: reqwest::Client,
    _dir: TempDir,
    _process: Child,
}

impl Prometheus {
    pub fn program() -> Option<PathBuf> {
        let program = in_path(&["prometheus"]);
        if program.is_none() {
            missing("prometheus", "prometheus");
        }
        program
    }

    /// Starts a Prometheus for these servers, given by name and internal listener. It scrapes and
    /// evaluates twice per second, starting 5 s after its start.
    pub async fn start(program: &Path, servers: &[(String, String)]) -> Self {
        let target = |(instance, internal): &(String, String)| json!({ "targets": [internal.trim_start_matches("http://")], "labels": { "instance": instance } });
        let targets: Vec<_> = servers.iter().map(target).collect();
        let dir = tempfile::tempdir().unwrap();
        let config = "
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs: [{job_name: signaling, file_sd_configs: [{files: [targets.json]}]}]
";
        fs::write(dir.path().join("prometheus.yml"), config).unwrap();
        fs::write(dir.path().join("targets.json"), serde_json::to_vec(&targets).unwrap()).unwrap();
        fs::write(dir.path().join("rules.yaml"), hastened(&rules_text())).unwrap();
        // It does not report its port, so a free one is chosen for it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let process = Command::new(program)
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        let this = Self { address, http, _dir: dir, _process: process };
        let ready = || async { this.ask("-/ready").await.is_some().then_some(()) };
        eventually("Prometheus to be ready", STARTS_WITHIN, ready).await;
        this
    }

    /// Returns the firing alerts, as pairs of a name and the server, if the alert has one.
    pub async fn firing(&self) -> BTreeSet<(String, String)> {
        let text = self.ask("api/v1/alerts").await.unwrap_or_default();
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| (text(&alert["labels"]["alertname"]), text(&alert["labels"]["instance"]))).collect()
    }

    pub async fn fires(&self, alert: &str, within: Duration) -> Vec<String> {
        let start = Instant::now();
        loop {
            let firing = self.firing().await;
            let servers: Vec<_> =
                firing.iter().filter(|(name, _)| name == alert).map(|(_, instance)| instance.clone()).collect();
            if !servers.is_empty() {
                println!("{alert} fires after {:.1?}: {servers:?}", start.elapsed());
                return servers;
            }
            assert!(start.elapsed() < within, "{alert} does not fire within {within:?}, but {firing:?}");
            sleep(LOOK).await;
        }
    }

    /// Waits until none of the alerts has fired for `calm`.
    pub async fn are_over(&self, alerts: &[&str], calm: Duration, within: Duration) {
        let start = Instant::now();
        let mut since = None;
        loop {
            let firing = self.firing().await;
            let still: Vec<_> = firing.iter().filter(|(name, _)| alerts.contains(&name.as_str())).collect();
            if still.is_empty() {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() >= calm {
                    println!("{alerts:?} over after {:.1?}", since - start);
                    return;
                }
            } else {
                since = None;
            }
            assert!(start.elapsed() < within, "still after {within:?}: {still:?}");
            sleep(LOOK).await;
        }
    }

    async fn ask(&self, path: &str) -> Option<String> {
        let answer = self.http.get(format!("http://{}/{path}", self.address)).send().await.ok()?;
        if answer.status().is_success() { answer.text().await.ok() } else { None }
    }
}

/// Divides all durations of the rules by [`HASTE`]: after `for:`, and in brackets.
pub fn hastened(rules: &str) -> String {
    // A subquery in brackets has a length and a step.
    let durations = Regex::new(r"(for: |\[|:)([0-9]+)([smh])").unwrap();
    let hasten = |found: &Captures<'_>| {
        let seconds = found[2].parse::<u64>().unwrap() * [1, 60, 3_600]["smh".find(&found[3]).unwrap()];
        format!("{}{}ms", &found[1], seconds * 1_000 / HASTE)
    };
    durations.replace_all(rules, hasten).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hastened_rules_differ_in_durations_only() {
        let rules = "for: 5m\nexpr: rate(a{b=~\"[x]\"}[10m]) > 14 * 86400 # 30s\nchanges(a[15m:15s])\n      for: 30s\n";
        let expected = "for: 3000ms\nexpr: rate(a{b=~\"[x]\"}[6000ms]) > 14 * 86400 # 30s\nchanges(a[9000ms:150ms])\n      for: 300ms\n";
        assert_eq!(hastened(rules), expected);
    }
}
