//! Endless joins and leaves leave no state behind, in nodes and in the store.
//! `ROOMS_CHURN_SECONDS=290 cargo test --test promises rooms_churn` makes a hundred thousand of
//! them.

use signaling_integration_tests::{TestMesh, mesh_load, setting};

const RATE: u64 = 350;

#[tokio::test]
async fn churn_of_joins_leaks_no_memory_and_no_keys() {
    let Some(mesh) = TestMesh::with_redis(|_| {}).await else { return };
    let seconds: u64 = setting("ROOMS_CHURN_SECONDS", 10);
    let (rate, lasting) = (format!("--rate={RATE}"), format!("--seconds={seconds}"));
    let rooms = ["rooms", "--clients=800", "--rooms=40", "--warmup=5", "--settle-ms=30000", "--max-growth=10"];

    let run = mesh_load(&mesh, &[&rooms[..], &[&rate, &lasting]].concat()).await;

    assert!(run.is_success, "{}{}", run.complaints, run.report["changes"]);
    let is_measured = |name: &str| {
        let processes = run.report["costs"]["processes"].as_array().unwrap();
        processes.iter().any(|process| process["name"] == name)
    };
    assert!(is_measured("node-0") && run.report["store"]["keys_after"].is_number());
    let [store, joins, events] = ["store", "join_us", "event_us"].map(|figures| &run.report[figures]);
    println!("{} joins and leaves: {store}; joins {joins}, events {events}", RATE * seconds);
}
