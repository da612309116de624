//! The harness lets visitors come and go, and looks what the servers keep of them.

#![allow(clippy::unwrap_used)]

use signaling_integration_tests::TestMesh;
use signaling_integration_tests::load::mesh_load;

#[tokio::test]
async fn visitors_are_heard_and_leave_and_each_process_is_compared_with_before() {
    let mesh = TestMesh::start().await;
    let arguments =
        ["churn", "--clients=10", "--visits=200", "--warmup=1", "--rate=200", "--settle-ms=1000", "--max-growth=900"];

    let run = mesh_load(&mesh.dir, &arguments).await;

    assert!(run.is_success, "{}", run.complaints);
    assert_eq!(run.report["done"], 200);
    assert_eq!(run.report["visit_us"]["count"], 200);
    let leftovers = run.report["leftovers"].as_array().unwrap();
    assert_eq!(leftovers.len(), 12, "memory, descriptors and threads of four processes");
    assert!(leftovers.iter().all(|leftover| leftover["before"].as_u64() > Some(0)), "{leftovers:?}");
}
