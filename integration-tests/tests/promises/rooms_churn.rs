//! Endless joins and leaves leave no state behind in nodes.
//! `ROOMS_CHURN_SECONDS=400 cargo test --test promises rooms_churn` makes a hundred thousand of
//! them.

use signaling_integration_tests::{RoomTimes, TestMesh, mesh_load, setting};

const RATE: u64 = 250;

#[tokio::test]
async fn churn_of_joins_leaks_no_memory() {
    let mesh = TestMesh::with_options(|options| options.node_args = RoomTimes::SHORT.flags()).await;
    let seconds: u64 = setting("ROOMS_CHURN_SECONDS", 14);
    let (rate, lasting) = (format!("--rate={RATE}"), format!("--seconds={seconds}"));
    let rooms = ["rooms", "--clients=800", "--rooms=40", "--warmup=5", "--settle-ms=30000", "--max-growth=10"];

    let run = mesh_load(&mesh, &[&rooms[..], &[&rate, &lasting]].concat()).await;

    assert!(run.is_success, "{}{}", run.complaints, run.report["changes"]);
    let is_measured = |name: &str| {
        let processes = run.report["costs"]["processes"].as_array().unwrap();
        processes.iter().any(|process| process["name"] == name)
    };
    assert!(is_measured("node-0"));
    let [joins, events] = ["join_us", "event_us"].map(|figures| &run.report[figures]);
    println!("{} joins and leaves: joins {joins}, events {events}", RATE * seconds);
}
