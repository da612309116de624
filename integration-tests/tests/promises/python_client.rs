//! A client in Python, written from PROTOCOL.md alone, works.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use signaling_devmesh::find_in_path;
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::optional::missing;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Debian's Python, for which Debian packages its modules.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A connected `clients/python/signaling_client.py`. It ends when dropped.
struct PythonClient {
    process: Child,
    orders: ChildStdin,
    received: Lines<BufReader<ChildStdout>>,
}

impl PythonClient {
    /// Starts the client and waits until it is connected. Without Python or its module `websockets`
    /// prints that the test is skipped and returns `None`, but panics with `CI=true`.
    async fn start(url: &str, client_id: &str) -> Option<Self> {
        let Some(python) = python().await else {
            missing("python3 with its module websockets", "python3-websockets");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/signaling_client.py");
        let mut process = Command::new(python)
            .arg(script)
            .args([url, client_id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let received = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut client = Self { process, orders, received };
        assert_eq!(client.recv().await["type"], "welcome");
        Some(client)
    }

    /// Has the client send a signal.
    async fn signal(&mut self, to: &str, data: &Value) {
        let line = json!({ "to": to, "data": data }).to_string() + "\n";
        self.orders.write_all(line.as_bytes()).await.unwrap();
    }

    /// Returns the next message. Panics if none arrives within 15 s, or the client has ended.
    async fn recv(&mut self) -> Value {
        let line = timeout(ANSWER_TIMEOUT, self.received.next_line()).await.expect("no message in time");
        serde_json::from_str(&line.unwrap().expect("the client in Python has ended")).unwrap()
    }

    /// Closes its standard input and returns its exit status. Panics if it runs on for 15 s.
    async fn finish(self) -> ExitStatus {
        let Self { mut process, orders, received: _received } = self;
        drop(orders);
        timeout(ANSWER_TIMEOUT, process.wait()).await.expect("it has not ended in time").unwrap()
    }
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
    let Some(mut python) = PythonClient::start(&mesh.url(), &python_id).await else { return };
    let mut rust = mesh.peer(&rust_id).await;
    let data = json!({ "sdp": "v=0\r\n\"ø 😀\"", "deep": [1.5, null, { "x": [] }] });

    for n in 1..=3 {
        python.signal(&rust_id, &json!({ "n": n, "data": data })).await;
        let got = rust.recv().await;
        assert_eq!(got["from"], python_id.as_str());
        assert_eq!(got["data"], json!({ "n": n, "data": data }));
        assert_eq!(python.recv().await, json!({ "type": "ack", "id": n }));

        rust.signal(&python_id, data.clone(), Some(n)).await;
        let got = python.recv().await;
        assert_eq!((&got["type"], &got["from"], &got["data"]), (&json!("signal"), &json!(rust_id), &data));
        assert_eq!(rust.recv().await, json!({ "type": "ack", "id": n }));
    }

    assert!(python.finish().await.success());
}
