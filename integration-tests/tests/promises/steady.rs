//! Under a steady load every message arrives, once and in order. The bundled harness counts.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::drill::go_on;
use signaling_integration_tests::load::mesh_load;

#[tokio::test]
async fn a_steady_load_arrives_whole_once_and_in_order() {
    let mesh = TestMesh::start().await;

    let arguments = ["steady", "--clients=200", "--rate=1000", "--seconds=5", "--warmup=1"];
    let run = mesh_load(&mesh.dir, &arguments).await;

    assert!(run.is_success, "{}", run.complaints);
    let all_arrived = json!({ "sent": 6_000, "delivered": 6_000, "lost": 0, "doubled": 0, "swapped": 0 });
    assert_eq!(run.report["messages"], all_arrived);
    assert_eq!(run.report["latency_us"]["count"], 5_000, "the whole rate after the warm-up");
    for unexpected in ["received", "closed"] {
        assert_eq!(run.report[unexpected], json!({}), "{unexpected}");
    }
    assert!(run.report.get("foreign").is_none());
}

#[tokio::test]
async fn several_load_processes_put_on_the_load_of_one_and_report_it_as_one() {
    let mesh = TestMesh::start().await;

    let arguments = ["steady", "--clients=100", "--rate=1000", "--seconds=2", "--warmup=1", "--processes=3"];
    let run = mesh_load(&mesh.dir, &arguments).await;

    assert!(run.is_success, "{}", run.complaints);
    assert_eq!((&run.report["processes"], &run.report["clients"]), (&json!(3), &json!(100)));
    let all_arrived = json!({ "sent": 3_000, "delivered": 3_000, "lost": 0, "doubled": 0, "swapped": 0 });
    assert_eq!(run.report["messages"], all_arrived);
    assert_eq!(run.report["latency_us"]["count"], 2_000, "of all three");
    assert_eq!(run.report["costs"]["processes"].as_array().unwrap().len(), 4, "three nodes and a balancer");
}

#[tokio::test]
async fn steady_clients_resume_while_balancers_are_replaced() {
    let mesh = TestMesh::with(|options| {
        options.balancers = 2;
        options.balancer_args = vec!["--drain-ms=2000".to_owned()];
    })
    .await;
    let urls: Vec<String> = mesh.mesh.state().balancers.iter().map(|balancer| balancer.url.clone()).collect();
    let arguments = ["steady", "--resume", "--clients=100", "--rate=1000", "--seconds=12", "--warmup=1"];
    let arguments = [&arguments[..], &["--url", &urls[0], "--url", &urls[1]]].concat();
    let replace = async {
        go_on(Duration::from_secs(3)).await;
        mesh.mesh.kill("balancer-0").await.unwrap();
        go_on(Duration::from_millis(500)).await;
        mesh.mesh.restart("balancer-0").await.unwrap();
        go_on(Duration::from_secs(3)).await;
        mesh.mesh.restart("balancer-1").await.unwrap();
    };

    let (run, ()) = tokio::join!(mesh_load(&mesh.dir, &arguments), replace);

    assert!(run.is_success, "{}\n{}", run.complaints, run.report);
    let (returns, messages) = (&run.report["returns"], &run.report["messages"]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert!(number(&returns["sent_away"]) >= 50, "the restarted balancer sends its clients away: {returns}");
    assert!(number(&returns["returned"]) >= number(&returns["sent_away"]) + 50, "and the killed one's: {returns}");
    assert_eq!(returns["returned"], returns["resumed"]);
    let gone = messages.get("gone").map_or(0, number);
    assert_eq!(number(&messages["sent"]), number(&messages["delivered"]) + gone, "{messages}");
    assert_eq!(run.report["acks"]["unanswered"], 0);
}
