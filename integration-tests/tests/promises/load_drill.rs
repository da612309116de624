//! `mesh-load drill` acts on the mesh by a script, and reports how clients come back.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::load::mesh_load;
use tokio::task::JoinSet;

#[tokio::test]
async fn clients_come_back_to_a_balancer_that_was_away() {
    let (mesh, _control) = controlled_mesh().await;
    let load = ["drill", "--clients=60", "--rate=60", "--warmup=0", "--seconds=8", "--act=1 kill balancer-0"];

    let run = mesh_load(&mesh.dir, &[&load[..], &["--act=1.5 restart balancer-0"]].concat()).await;

    assert!(run.is_success, "{}", run.complaints);
    let returns = &run.report["returns"];
    assert_eq!((&returns["returned"], &returns["resumed"], &returns["away"]), (&json!(60), &json!(60), &json!(0)));
    assert_eq!(run.report["acts"][1]["returned"], 60, "{}", run.report["acts"]);
}

#[tokio::test]
async fn a_thousand_clients_cut_at_once_spread_their_returns() {
    let (mesh, _control) = controlled_mesh().await;
    let load = ["drill", "--clients=1000", "--rate=100", "--warmup=0", "--seconds=6", "--act=1 cut 100%"];

    let run = mesh_load(&mesh.dir, &load).await;

    assert!(run.is_success, "{}", run.complaints);
    let (returns, act) = (&run.report["returns"], &run.report["acts"][0]);
    assert_eq!((&returns["resumed"], &returns["tries"]), (&json!(1000), &json!(1000)), "all let in at once: {returns}");
    assert_eq!((&act["sockets_lost"], &act["returned"]), (&json!(1000), &json!(1000)));
    assert!(act["last_return_us"].as_u64() > Some(900_000), "they came back together: {act}");
}

#[tokio::test]
async fn sockets_stay_open_while_nodes_join_and_leave() {
    let (mesh, _control) = controlled_mesh().await;
    let load = ["drill", "--clients=100", "--rate=500", "--warmup=0", "--seconds=7"];

    let run = mesh_load(&mesh.dir, &[&load[..], &["--act=1 scale 4", "--act=3 kill node-1"]].concat()).await;

    assert!(run.is_success, "{}", run.complaints);
    let acts = &run.report["acts"];
    assert!(acts[0]["handoffs"].as_u64() > Some(0) && acts[1]["moved"].as_u64() > Some(0), "{acts}");
    assert_eq!(run.report["closed"], json!({}));
}

/// A mesh with a control socket. Discovery soon forgets a killed server, so that its restart is not late.
async fn controlled_mesh() -> (TestMesh, JoinSet<()>) {
    let mesh = TestMesh::with(|options| options.notice = Duration::from_millis(200)).await;
    let control = mesh.serve_control().await;
    (mesh, control)
}
