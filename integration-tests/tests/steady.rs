//! Under a steady load every message arrives, once and in order. The bundled harness counts.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::mesh::binaries;
use tokio::process::Command;
use tokio::time::timeout;

/// 6 s of sending, and what starting, settling and a slow machine add.
const PATIENCE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn a_steady_load_arrives_whole_once_and_in_order() {
    let mesh = TestMesh::start().await;
    let program = binaries().join("mesh-load");
    assert!(program.is_file(), "no {}: run `cargo build --workspace --bins` first", program.display());
    let mut harness = Command::new(program);
    harness.args(["steady", "--clients=200", "--rate=1000", "--seconds=5", "--warmup=1", "--pairs=random", "--json=-"]);
    harness.arg("--dir").arg(mesh.dir.path()).kill_on_drop(true);

    let run = timeout(PATIENCE, harness.output()).await.expect("mesh-load has not ended in time").unwrap();

    let complaints = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{complaints}{}", String::from_utf8_lossy(&run.stdout));
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let all_arrived = json!({ "sent": 6_000, "delivered": 6_000, "lost": 0, "doubled": 0, "swapped": 0 });
    assert_eq!(report["messages"], all_arrived);
    assert_eq!(report["latency_us"]["count"], 5_000, "the whole rate after the warm-up");
    for unexpected in ["other_frames", "closed"] {
        assert_eq!(report[unexpected], json!({}), "{unexpected}");
    }
    assert_eq!(report["foreign"], 0);
}
