//! The mesh secret changes while the mesh runs, in three steps. All servers have taken a step
//! before the next one.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Chatter, Head, OtherServer, RawSocket, TestMesh, ask, becomes, ends, eventually};
use signaling_server::proofs::Purpose;
use signaling_wire::trunk;

const ENDED: &str = "signaling_trunks_ended_total";

const NEW: &str = "4e774e774e774e774e774e774e774e774e774e774e774e774e774e774e774e77";

#[tokio::test]
async fn mesh_secret_rotation_loses_no_message() {
    let mesh = TestMesh::start().await;
    let old = mesh.secret();
    let talk = Chatter::start(&mesh).await;
    let mut early = RawSocket::open(&mesh.address(), &Head::connect("early")).await;
    let token = early.message().await["resume"].as_str().unwrap().to_owned();
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (405, 401));

    // Servers read the file at different times, so some take a step before others.
    set_secrets(&mesh, &[&old, NEW]).await;
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (405, 405));
    mesh.restart("node-2").await.unwrap();
    set_secrets(&mesh, &[NEW, &old]).await;
    mesh.restart("node-2").await.unwrap();
    mesh.until_views_agree().await;

    // A session continues with a token that the old secret signed.
    let head = Head::upgrade(&format!("/v1/connect?client_id=early&resume={token}"));
    let mut early = RawSocket::open(&mesh.address(), &head).await;
    let welcome = early.message().await;
    assert_eq!(welcome["resumed"], true, "{welcome}");

    set_secrets(&mesh, &[NEW]).await;
    assert_eq!((status(&mesh, &old).await, status(&mesh, NEW).await), (401, 405));
    mesh.restart("node-2").await.unwrap();
    mesh.until_views_agree().await;
    // The new secret signed its newest token.
    let token = welcome["resume"].as_str().unwrap();
    let head = Head::upgrade(&format!("/v1/connect?client_id=early&resume={token}"));
    assert_eq!(RawSocket::open(&mesh.address(), &head).await.message().await["resumed"], true);

    let talk = talk.stop().await;
    assert!(talk.messages > 100, "{talk:?}");
    let unusable = mesh.metrics("", "signaling_mesh_secret_loads_total", "unusable").await;
    assert!(unusable.iter().all(|loads| *loads == 0.0), "{unusable:?}");
    let refused = mesh.sum_over_nodes("signaling_refused_internal_total").await;
    assert!(refused <= 2.0, "only what this test asked without the right secret: {refused}");
    mesh.peer("late").await.close().await;
}

#[tokio::test]
async fn trunk_of_a_removed_secret_ends_and_those_of_balancers_stay() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    let old = mesh.secret();
    let mut alice = mesh.peer("alice").await;
    let intruder = OtherServer::with_secret(&mesh, "balancer-9", &old);
    set_secrets(&mesh, &[&old, NEW]).await;
    set_secrets(&mesh, &[NEW, &old]).await;
    let head = Head::upgrade(trunk::PATH).offer(trunk::SUBPROTOCOL);
    let head = intruder.prove_to_node(&mesh, Purpose::Trunk, &head).await;
    let mut held = RawSocket::open(&mesh.node_internal(0), &head).await;
    let renewed = async || mesh.sum_over_nodes(ENDED).await >= 2.0;
    eventually("the balancer to replace its trunks to both nodes", renewed).await;
    let before = mesh.sum_over_nodes(ENDED).await;

    set_secrets(&mesh, &[NEW]).await;
    assert!(ends(&mut held.stream, Duration::from_secs(5)).await, "the trunk of the old secret stays");
    assert_eq!(mesh.sum_over_nodes(ENDED).await, before + 1.0, "a balancer lost a trunk");
    assert_eq!(status(&mesh, &old).await, 401);
    alice.send(&json!({ "type": "signal", "to": "alice", "data": 1 })).await;
    assert_eq!(alice.recv().await["data"], 1);
}

/// Writes these lines into the file, and waits until all servers have them.
async fn set_secrets(mesh: &TestMesh, lines: &[&str]) {
    let before = loads(mesh).await;
    mesh.replace_file("mesh.secret", &(lines.join("\n") + "\n"));
    let all = async || loads(mesh).await.iter().zip(&before).all(|(now, before)| now > before);
    eventually("all servers to read the secret again", all).await;
    for internal in mesh.internals() {
        becomes(&internal, "signaling_mesh_secrets", lines.len()).await;
    }
}

async fn loads(mesh: &TestMesh) -> Vec<f64> {
    mesh.metrics("", "signaling_mesh_secret_loads_total", "result=\"used\"").await
}

/// Returns the status of a POST for a trunk at the first node: 405 for a valid secret.
async fn status(mesh: &TestMesh, secret: &str) -> u16 {
    let server = OtherServer::with_secret(mesh, "intruder", secret);
    let head = Head::post("/internal/v1/trunk");
    ask(&mesh.node_internal(0), server.prove_to_node(mesh, Purpose::Trunk, &head).await).await.status
}
