//! A client in Python, written from PROTOCOL.md alone, works.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use signaling_devmesh::find_in_path;
use signaling_integration_tests::optional::missing;
use signaling_integration_tests::{LineProgram, TestMesh};
use tokio::process::Command;

/// Debian's Python, for which Debian packages its modules.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// Starts `clients/python/signaling_client.py` and waits until it is connected. Without Python or
/// its module `websockets` prints that the test is skipped and returns `None`, but panics with
/// `CI=true`.
async fn start(url: &str, client_id: &str) -> Option<LineProgram> {
    let Some(python) = python().await else {
        missing("python3 with its module websockets", "python3-websockets");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/signaling_client.py");
    let mut client = LineProgram::start(Command::new(python).arg(script).args([url, client_id]));
    assert_eq!(message(&mut client).await["type"], "welcome");
    Some(client)
}

/// Returns the client's next message. Panics if none arrives within 30 s, or the client has ended.
async fn message(client: &mut LineProgram) -> Value {
    serde_json::from_str(&client.line().await).unwrap()
}

async fn python() -> Option<PathBuf> {
    for python in [Some(PathBuf::from(SYSTEM_PYTHON)), find_in_path("python3")].into_iter().flatten() {
        let import = Command::new(&python).args(["-c", "import websockets"]).stderr(Stdio::null()).status().await;
        if import.is_ok_and(|status| status.success()) {
            return Some(python);
        }
    }
    None
}

#[tokio::test]
async fn python_client_exchanges_signals_with_a_rust_one() {
    let mesh = TestMesh::start().await;
    let (python_id, rust_id) = (mesh.id_owned_by("node-0", "python"), mesh.id_owned_by("node-1", "rust"));
    let Some(mut python) = start(&mesh.url(), &python_id).await else { return };
    let mut rust = mesh.peer(&rust_id).await;
    let data = json!({ "sdp": "v=0\r\n\"ø 😀\"", "deep": [1.5, null, { "x": [] }] });

    for n in 1..=3 {
        python.write(&json!({ "to": rust_id, "data": { "n": n, "data": data } }).to_string()).await;
        let got = rust.recv().await;
        assert_eq!(got["from"], python_id.as_str());
        assert_eq!(got["data"], json!({ "n": n, "data": data }));
        assert_eq!(message(&mut python).await, json!({ "type": "ack", "id": n }));

        rust.signal(&python_id, data.clone(), Some(n)).await;
        let got = message(&mut python).await;
        assert_eq!((&got["type"], &got["from"], &got["data"]), (&json!("signal"), &json!(rust_id), &data));
        assert_eq!(rust.recv().await, json!({ "type": "ack", "id": n }));
    }

    assert!(python.finish().await.success());
}
