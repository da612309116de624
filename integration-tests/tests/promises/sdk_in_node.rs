//! The JavaScript SDK of a balancer in Node.js, on real processes.

use std::time::Duration;

use signaling_integration_tests::{TestMesh, get, program};
use tokio::process::Command;
use tokio::time::timeout;

/// Runs a script of the folder `sdk_in_node` on this file of a balancer. Returns its output; `None`
/// without Node.js.
async fn run(script: &str, served: &str) -> Option<String> {
    let node = program(&["node"], "nodejs")?;
    let mesh = TestMesh::start().await;
    let folder = tempfile::tempdir().unwrap();
    let sdk = folder.path().join(served);
    std::fs::write(&sdk, get(&format!("http://{}", mesh.address()), &format!("/{served}")).await.body).unwrap();
    let script = format!("{}/tests/promises/sdk_in_node/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(node);
    command.arg("--experimental-websocket").arg(script).arg(sdk).arg(mesh.url()).kill_on_drop(true);
    let run = timeout(Duration::from_secs(60), command.output()).await.expect("it does not end").unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8(run.stdout).unwrap())
}

/// As on React Native, which lacks many globals of browsers.
#[tokio::test]
async fn classic_script_runs_with_the_required_globals_only() {
    let Some(output) = run("bare.mjs", "signaling-mesh.js").await else { return };
    assert_eq!(output, "ü😀 1 € 2\n");
}

#[tokio::test]
async fn loop_of_2000_signals_keeps_to_the_default_rate() {
    let Some(output) = run("paced.mjs", "signaling-mesh.mjs").await else { return };
    // 900 at once, the others at 180 per second.
    let seconds = output.trim_end().strip_prefix("0 true ").expect(&output).parse::<u64>().unwrap();
    assert!((6..8).contains(&seconds), "{output}");
}
