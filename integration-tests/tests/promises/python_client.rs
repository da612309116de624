//! A client in Python, written from PROTOCOL.md alone, works.

use serde_json::json;
use signaling_integration_tests::{PythonClient, TestMesh};

#[tokio::test]
async fn python_client_exchanges_signals_with_a_rust_one() {
    let mesh = TestMesh::start().await;
    let (python_id, rust_id) = (mesh.id_owned_by("node-0", "python"), mesh.id_owned_by("node-1", "rust"));
    let Some(mut python) = PythonClient::start(&mesh.url(), &python_id).await else { return };
    let mut rust = mesh.peer(&rust_id).await;
    let data = json!({ "sdp": "v=0\r\n\"ø 😀\"", "deep": [1.5, null, { "x": [] }] });

    for n in 1..=3 {
        python.signal(&rust_id, json!({ "n": n, "data": data })).await;
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
