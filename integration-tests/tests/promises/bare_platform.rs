//! The browser SDK needs only the globals that its contract names, as on React Native.

use std::time::Duration;

use signaling_integration_tests::{TestMesh, get, program};
use tokio::process::Command;
use tokio::time::timeout;

const EXCHANGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/promises/bare_platform/exchange.mjs");

#[tokio::test]
async fn classic_script_runs_with_the_required_globals_only() {
    let Some(node) = program(&["node"], "nodejs") else { return };
    let mesh = TestMesh::start().await;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("signaling-mesh.js");
    std::fs::write(&script, get(&format!("http://{}", mesh.address()), "/signaling-mesh.js").await.body).unwrap();
    let mut command = Command::new(node);
    command.arg("--experimental-websocket").arg(EXCHANGE).arg(script).arg(mesh.url()).kill_on_drop(true);
    let run = timeout(Duration::from_secs(30), command.output()).await.expect("it does not end").unwrap();
    let complaints = String::from_utf8_lossy(&run.stderr);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "ü😀 1 € 2\n", "{complaints}");
    assert!(run.status.success(), "{complaints}");
}
