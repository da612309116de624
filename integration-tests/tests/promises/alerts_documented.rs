//! Rules, dashboard and runbook speak of the same alerts, and of metrics that exist.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use signaling_integration_tests::observability::catalogue;
use signaling_integration_tests::optional::{in_path, missing};
use signaling_integration_tests::rendered::repository;
use signaling_integration_tests::runbook::{alerts, entries};
use signaling_metrics::Kind;

/// What Prometheus itself, Kubernetes and Grafana know.
const OTHERS: [&str; 3] = ["up", "container_cpu_cfs_throttled_periods_total", "signaling_mesh"];

/// All names of time series that servers serve.
fn series() -> BTreeSet<String> {
    let mut series = BTreeSet::new();
    for metric in catalogue().iter().flat_map(|section| section.metrics) {
        match metric.kind {
            Kind::Histogram => {
                series.extend(["_bucket", "_sum", "_count"].map(|part| format!("{}{part}", metric.name)));
            }
            _ => {
                series.insert(metric.name.to_owned());
            }
        }
    }
    series
}

/// Everything in a text that is called as metrics are.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("signaling_") || word.starts_with("process_")).map(str::to_owned).collect()
}

/// Names that nobody serves. In prose a histogram goes by its own name.
fn unknown(text: &str, prose: bool) -> Vec<String> {
    let mut known = series();
    if prose {
        known.extend(catalogue().iter().flat_map(|section| section.metrics).map(|metric| metric.name.to_owned()));
    }
    named(text).into_iter().filter(|name| !known.contains(name) && !OTHERS.contains(&name.as_str())).collect()
}

#[test]
fn every_metric_of_a_rule_exists() {
    for alert in alerts() {
        assert_eq!(unknown(&alert.expr, false), [""; 0], "{}", alert.alert);
        assert!(!named(&alert.expr).is_empty() || alert.expr.starts_with("up{"), "{} is about nothing", alert.alert);
    }
}

#[test]
fn every_alert_has_its_entry_and_every_entry_its_alert() {
    let (alerts, entries) = (alerts(), entries());
    let alerting: BTreeSet<_> = alerts.iter().map(|alert| &alert.alert).collect();
    let written: BTreeSet<_> = entries.iter().map(|entry| &entry.alert).collect();
    assert_eq!(alerting, written);
    assert_eq!((alerting.len(), written.len()), (alerts.len(), entries.len()), "each once");
    for alert in &alerts {
        let anchor = format!("docs/RUNBOOK.md#{}", alert.alert.to_lowercase());
        assert_eq!(alert.annotations["runbook"], anchor);
        assert!(["page", "ticket"].contains(&alert.labels["severity"].as_str()), "{}", alert.alert);
        assert!(!alert.annotations["summary"].is_empty());
    }
    for entry in &entries {
        assert_eq!(unknown(&entry.text, true), [""; 0], "{}", entry.alert);
        assert!(entry.text.contains("\nLook") || entry.text.contains("reason"), "{} says where to look", entry.alert);
    }
}

#[test]
fn every_metric_of_the_documents_exists() {
    for document in ["docs/LIMITS.md", "docs/RUNBOOK.md", "docs/OPERATING.md", "README.md", "deploy/README.md"] {
        let text = fs::read_to_string(repository().join(document)).unwrap();
        assert_eq!(unknown(&text, true), [""; 0], "{document}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist_and_leaves_the_data_source_open() {
    let text = fs::read_to_string(repository().join("deploy/observability/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["type"] == "datasource" && variable["name"] == "datasource"));
    let mut asked = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            assert_eq!(unknown(expression, false), [""; 0], "{}", panel["title"]);
            asked.extend(named(expression));
        }
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    // Each hop has all four golden signals.
    let titles: Vec<_> = panels.iter().map(|panel| panel["title"].as_str().unwrap().to_lowercase()).collect();
    let hops = titles.iter().filter(|title| title.starts_with("saturation")).count();
    assert!(hops >= 4, "{titles:?}");
    for signal in ["latency", "traffic", "errors"] {
        assert!(titles.iter().filter(|title| title.contains(signal)).count() >= 4, "{signal}: {titles:?}");
    }
    assert!(asked.len() > 40, "{}", asked.len());
}

#[test]
fn pods_that_have_ended_for_good_are_not_asked() {
    let text = fs::read_to_string(repository().join("deploy/observability/scrape.yaml")).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = config["scrape_configs"][0]["relabel_configs"].as_array().unwrap();
    let by_phase = |rule: &&Value| rule["source_labels"][0] == "__meta_kubernetes_pod_phase";
    let rule = rules.iter().find(by_phase).unwrap();
    assert_eq!((&rule["regex"], &rule["action"]), (&"Failed|Succeeded".into(), &"drop".into()));
}

#[test]
fn prometheus_takes_the_rules_and_they_pass_their_own_tests() {
    let Some(promtool) = in_path(&["promtool"]) else { return missing("promtool", "prometheus") };
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]] {
        let folder = repository().join("deploy/observability");
        let run = Command::new(&promtool).args(arguments).current_dir(folder).output().unwrap();
        let said = [run.stdout, run.stderr].concat();
        assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}
