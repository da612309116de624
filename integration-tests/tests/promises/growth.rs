//! The curves of growth: each kind of point is measured on a mesh of its own. How high they are, is not for a test to say.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::Value;
use signaling_integration_tests::mesh::binaries;
use tokio::process::Command;
use tokio::time::timeout;

/// Some twenty seconds for the sessions that move, fewer for the rest, and what starting everything adds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_point_of_clients_and_one_of_handoffs_have_all_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    let (markdown, html) = (dir.path().join("tables.md"), dir.path().join("curves.html"));
    let mut harness = Command::new(binaries().join("mesh-load"));
    harness.args(["growth", "--only=clients,handoffs", "--rounds=1", "--seconds=1", "--rate=200", "--low-rate=200"]);
    harness.args(["--clients=20", "--sessions=90", "--json=-"]);
    harness.arg("--markdown").arg(&markdown).arg("--html").arg(&html).kill_on_drop(true);

    let run = timeout(PATIENCE, harness.output()).await.expect("mesh-load has not ended in time").unwrap();

    let complaints = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{complaints}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{complaints}"));
    let figures = |point: usize| -> Vec<&str> {
        report["points"][point]["medians"].as_object().unwrap().keys().map(String::as_str).collect()
    };
    let of_load = ["balancers_by_generator", "balancers_us", "generator_us", "nodes_by_generator", "nodes_us"];
    for figure in of_load.into_iter().chain(["balancers_bytes", "nodes_bytes", "p50_ms", "p99_ms"]) {
        assert!(figures(0).contains(&figure), "{figure} in {report}");
    }
    assert_eq!(figures(1), ["join_moved", "join_ms", "leave_ms", "unmoved_p99_ms"], "{report}");
    assert!(report["points"][1]["medians"]["join_moved"].as_f64().unwrap() > 10.0, "{report}");
    assert!(std::fs::read_to_string(markdown).unwrap().contains("| sessions |"));
    assert!(std::fs::read_to_string(html).unwrap().contains("Memory per idle client by clients"));
}
