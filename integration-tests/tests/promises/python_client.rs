//! Clients in Python work: one written from PROTOCOL.md alone, and the listing in it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use signaling_integration_tests::{LineProgram, TestMesh, repository};
use tokio::process::Command;

async fn python() -> Option<PathBuf> {
    signaling_integration_tests::python("websockets", "python3-websockets").await
}

/// Starts `clients/python/signaling_client.py` and waits until it is connected. Without Python or
/// its module `websockets` prints that the test is skipped and returns `None`, but panics with
/// `CI=true`.
async fn start(url: &str, client_id: &str) -> Option<LineProgram> {
    let python = python().await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/signaling_client.py");
    let mut client = LineProgram::start(Command::new(python).arg(script).args([url, client_id]));
    assert_eq!(message(&mut client).await["type"], "welcome");
    Some(client)
}

/// Returns the client's next message. Panics if none arrives within 30 s, or the client has ended.
async fn message(client: &mut LineProgram) -> Value {
    serde_json::from_str(&client.line().await).unwrap()
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

/// Runs the listing of PROTOCOL.md. Its input has requests, its output messages of the server.
const MAIN: &str = "
import sys, threading

async def main():
    client = ReliableClient(sys.argv[1], sys.argv[2], lambda message, _: print(json.dumps(message), flush=True))
    loop = asyncio.get_running_loop()
    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(client.request, json.loads(line))
    threading.Thread(target=read, daemon=True).start()
    await client.run()

asyncio.run(main())
";
const MAX_LINES: usize = 100;

#[tokio::test]
async fn listing_in_protocol_md_is_a_reliable_client() {
    let Some(python) = python().await else { return };
    let text = std::fs::read_to_string(repository().join("crates/protocol/PROTOCOL.md")).unwrap();
    let listing = text.split_once("```python\n").unwrap().1.split("```").next().unwrap();
    assert!(listing.lines().count() <= MAX_LINES);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("listing.py");
    std::fs::write(&file, format!("{listing}{MAIN}")).unwrap();
    let mesh = TestMesh::with_options(|options| options.balancers = 1).await;
    let mut client = LineProgram::start(Command::new(python).arg(&file).args([&mesh.url(), "listing"]));
    let ask = async |client: &mut LineProgram, request: Value| client.write(&request.to_string()).await;

    ask(&mut client, json!({ "type": "join", "room": "hall" })).await;
    assert_eq!(message(&mut client).await["type"], "joined");
    assert_eq!(message(&mut client).await, json!({ "type": "ack", "id": 1 }));
    let mut peer = mesh.peer("peer").await;
    peer.signal("listing", json!("before"), None).await;
    assert_eq!(message(&mut client).await["data"], "before");

    // The balancer dies, and another one takes its place.
    mesh.kill("balancer-0").await.unwrap();
    mesh.restart("balancer-0").await.unwrap();
    for n in 2..=300 {
        ask(&mut client, json!({ "type": "signal", "to": "listing", "data": n })).await;
    }
    let (mut received, mut acknowledged) = (Vec::new(), Vec::new());
    while received.len() < 299 || acknowledged.len() < 299 {
        let got = message(&mut client).await;
        match got["type"].as_str().unwrap() {
            "signal" => received.push(got["data"].clone()),
            "ack" => acknowledged.push(got["id"].clone()),
            _ => {}
        }
    }
    assert_eq!(json!(received), json!((2..=300).collect::<Vec<_>>()));
    assert_eq!(acknowledged.len(), 299);
}
