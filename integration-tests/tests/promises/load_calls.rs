//! The harness sets up calls, and tells how long that takes.

use serde_json::json;
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::load::mesh_load;

#[tokio::test]
async fn calls_are_set_up_whole_and_a_limit_on_the_time_that_takes_sets_the_exit_code() {
    let mesh = TestMesh::start().await;
    let arguments = ["calls", "--clients=40", "--rate=20", "--seconds=2", "--warmup=1", "--max-setup-p99-ms=0.001"];

    let run = mesh_load(&mesh.dir, &arguments).await;

    assert_eq!(run.report["calls"], json!({ "begun": 60, "set_up": 60 }));
    assert_eq!(run.report["set_up_us"]["count"], 40, "those that began after the warm-up");
    let messages = &run.report["messages"];
    assert_eq!((&messages["lost"], &messages["doubled"], &messages["swapped"]), (&json!(0), &json!(0), &json!(0)));
    assert!(messages["delivered"].as_u64() > Some(60 * 22), "two descriptions and ten candidates each way at least");
    assert!(!run.is_success);
    assert!(run.complaints.contains("p99 of the set-up time is"), "{}", run.complaints);
}
