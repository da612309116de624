//! The harness lets visitors come and go in rooms and a line move, and tells what that asks of the store.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::load::mesh_load;

#[tokio::test]
async fn each_change_is_heard_by_all_who_stay_the_line_moves_in_order_and_a_limit_sets_the_exit_code() {
    let Some(mesh) = TestMesh::with_redis(|_| {}).await else { return };
    let rooms = ["rooms", "--clients=100", "--rooms=10", "--rate=40", "--seconds=4", "--warmup=1"];
    let line = ["--line=40", "--seats=3", "--line-rate=5", "--max-event-p99-ms=0.001"];

    let run = mesh_load(&mesh.dir, &[&rooms[..], &line].concat()).await;

    let changes = &run.report["changes"];
    assert_eq!(
        (&changes["begun"], &changes["refused"], &run.report["unanswered"]),
        (&json!(200), &json!(0), &json!(0))
    );
    // Where an event was late, the whole state has told of it.
    let told = changes["heard"].as_u64().unwrap() + changes["heard_by_state"].as_u64().unwrap();
    assert_eq!((told, &run.report["unheard"], &changes["doubled"]), (200 * 5, &json!(0), &json!(0)));
    assert_eq!(
        run.report["join_us"]["count"].as_u64().unwrap() + run.report["leave_us"]["count"].as_u64().unwrap(),
        160
    );
    let line = &run.report["line"];
    assert_eq!((&line["left"], &line["admitted"], &line["overtook"]), (&json!(25), &json!(25), &json!(0)));
    assert!(line["shortest_gap_ms"].as_u64() >= Some(900), "told at most once a second: {line}");
    let store = &run.report["store"];
    assert!(store["scripts_per_operation"].as_f64() >= Some(1.0), "{store}");
    assert!(store["calls_by_command"]["evalsha"].as_u64() > Some(0), "{store}");
    assert!(!run.is_success);
    let complaints: Vec<&str> = run.complaints.lines().collect();
    assert!(matches!(complaints[..], [only] if only.contains("until others hear of a change is")), "{complaints:?}");
}
