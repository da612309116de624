//! The mesh secret changes while the mesh runs, in three steps. All servers have taken a step
//! before the next one.

use std::time::Duration;

use signaling_integration_tests::{Chatter, Head, Peer, RawSocket, TestMesh, ask, becomes, eventually, metric};

const NEW: &str = "another-secret-of-this-mesh-0123456789";
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn mesh_secret_rotation_loses_no_message() {
    let mesh = TestMesh::start().await;
    let old = mesh.secret();
    let talk = Chatter::start(&mesh).await;
    let mut early = RawSocket::open(&mesh.address(), &Head::connect("early")).await;
    let token = early.message().await["resume"].as_str().unwrap().to_owned();
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (405, 401));

    // Servers look at the file each at its own moment, so meanwhile some have taken a step that
    // others have not.
    take(&mesh, &[&old, NEW]).await;
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (405, 405));
    mesh.mesh.restart("node-2").await.unwrap();
    take(&mesh, &[NEW, &old]).await;
    mesh.mesh.restart("node-2").await.unwrap();
    mesh.agrees().await;

    // A session of before goes on, with a token that the old secret has signed.
    let head = Head::upgrade(&format!("/v1/connect?client_id=early&resume={token}"));
    let mut early = RawSocket::open(&mesh.address(), &head).await;
    let welcome = early.message().await;
    assert_eq!(welcome["resumed"], true, "{welcome}");

    take(&mesh, &[NEW]).await;
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (401, 405));
    mesh.mesh.restart("node-2").await.unwrap();
    mesh.agrees().await;
    // With its newest token, which the new secret has signed.
    let token = welcome["resume"].as_str().unwrap();
    let head = Head::upgrade(&format!("/v1/connect?client_id=early&resume={token}"));
    assert_eq!(RawSocket::open(&mesh.address(), &head).await.message().await["resumed"], true);

    let talk = talk.stop().await;
    assert!(talk.times.len() > 100, "{}", talk.times.len());
    for internal in mesh.internals() {
        assert_eq!(metric(&internal, "signaling_mesh_secret_loads_total", "unusable").await, 0.0);
    }
    let refused = mesh.total("signaling_refused_internal_total").await;
    assert!(refused <= 2.0, "only what this test asked without the right secret: {refused}");
    Peer::connect(&mesh.url(), "late").await.close().await;
}

/// Puts these lines into the file, and waits until all servers have them.
async fn take(mesh: &TestMesh, lines: &[&str]) {
    let before = loads(mesh).await;
    mesh.replace_file("mesh.secret", &(lines.join("\n") + "\n"));
    let all = || async { (loads(mesh).await.iter().zip(&before).all(|(now, before)| now > before)).then_some(()) };
    eventually("all servers to have read the secret again", PATIENCE, all).await;
    for internal in mesh.internals() {
        becomes(&internal, "signaling_mesh_secrets", lines.len()).await;
    }
}

async fn loads(mesh: &TestMesh) -> Vec<f64> {
    let mut loads = Vec::new();
    for internal in mesh.internals() {
        loads.push(metric(&internal, "signaling_mesh_secret_loads_total", "result=\"used\"").await);
    }
    loads
}

/// What the first node says to a request for a trunk by POST: 405 to who may ask.
async fn status(mesh: &TestMesh, secret: &str) -> u16 {
    let node = mesh.node(0).trim_start_matches("http://").to_owned();
    let head = Head::get("/internal/v1/trunk").method("POST").with("Content-Length", "0");
    ask(&node, head.with("Authorization", &format!("Bearer {secret}")).text()).await.status
}
