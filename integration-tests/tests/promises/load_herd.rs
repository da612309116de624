//! The harness cuts all clients off, and tells how they come back.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use signaling_integration_tests::load::{ControlledMesh, mesh_load};

#[tokio::test]
async fn all_clients_come_back_to_a_balancer_that_was_away_and_a_page_shows_how() {
    let mesh = ControlledMesh::start().await;
    let page = mesh.dir.path().join("herd.html");
    let html = format!("--html={}", page.display());
    let arguments = ["herd", "--clients=60", "--away-ms=500", "--before=1", "--processes=2", &html];

    let run = mesh_load(&mesh.dir, &arguments).await;

    assert!(run.is_success, "{}", run.complaints);
    let report = &run.report;
    assert_eq!(report["balancers"], json!(["balancer-0"]));
    assert_eq!((&report["lost"], &report["back"], &report["resumed"]), (&json!(60), &json!(60), &json!(60)));
    assert_eq!(report["return_us"]["count"], 60);
    let at_nodes = report["spread"]["clients_by_server"].as_object().unwrap();
    assert_eq!(at_nodes.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 60);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("all are cut off") && html.contains("Latency, ms"));
}

/// The balancer's own, clients a second.
const ACCEPT_RATE: u64 = 2_000;

#[tokio::test]
async fn a_thousand_clients_cut_at_once_come_back_slower_than_the_balancer_takes_them() {
    let mesh =
        ControlledMesh::with(|options| options.balancer_args = vec![format!("--accept-rate={ACCEPT_RATE}")]).await;

    let run = mesh_load(&mesh.dir, &["herd", "--clients=1000", "--by-clients", "--before=1"]).await;

    assert!(run.is_success, "{}", run.complaints);
    let report = &run.report;
    assert_eq!((&report["resumed"], &report["tries"]["most"]), (&json!(1000), &json!(1)), "{report}");
    assert!(report["tries"]["most_a_second"].as_u64().unwrap() < ACCEPT_RATE, "{report}");
    assert!(report["return_us"]["max"].as_u64().unwrap() > 900_000, "they came back together: {report}");
}
