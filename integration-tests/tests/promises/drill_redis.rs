//! Signals flow and members stay members while the Redis of the rooms is killed, paused, or
//! restarted empty under load.

use std::time::{Duration, Instant};

use serde_json::Value;
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::room_client::{SeatStatus, join};
use signaling_integration_tests::{Crowd, Drill, RoomClient, RoomTimes, TestMesh, within};
use tokio::time::sleep;

const CLIENTS: usize = 100;
const ROOMS: usize = 10;
const EACH: usize = CLIENTS / ROOMS;
/// Time limit until rooms are back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(25);
const AWAY: Duration = Duration::from_secs(4);
/// The store frees a seat after two intervals and a quarter without a refresh, so it may pause for
/// one interval and a quarter.
const PATIENT: RoomTimes = RoomTimes { presence_refresh: Duration::from_secs(5), ..RoomTimes::SHORT };
/// Pause of the store beside the time limit of a join: less than that together.
const SILENT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn kill_of_redis_loses_no_signal_and_no_member() {
    // Until all nodes have refreshed their seats, and others would have expired.
    without_redis_nothing_is_lost(true, AWAY, RoomTimes::SHORT, RoomTimes::SHORT.max_seat_without_refresh()).await;
}

#[tokio::test]
async fn pause_of_redis_loses_no_signal_and_no_member() {
    without_redis_nothing_is_lost(false, SILENT, PATIENT, PATIENT.presence_refresh * 2).await;
}

/// Kills or pauses the Redis for the time `away` beside the limit of a join. All members must stay
/// for the time `stay` after its return.
async fn without_redis_nothing_is_lost(is_killed: bool, away: Duration, times: RoomTimes, stay: Duration) {
    let with_times = |options: &mut MeshOptions| (options.balancers, options.node_args) = (2, times.flags());
    let Some(mut mesh) = TestMesh::with_redis(with_times).await else { return };
    let fault = if is_killed { "kill -9 of Redis, then an empty one" } else { "a pause of Redis" };

    let outcome = Drill::new(fault)
        .run(&mut mesh, async |mesh| {
            let crowd = Crowd::gather(mesh, "redis", ROOMS, CLIENTS).await;
            let mut late = RoomClient::connect(&mesh.url(), "latecomer").await;
            let begin = Instant::now();
            let stopped = if is_killed { mesh.kill("redis").await } else { mesh.pause("redis").await };
            stopped.unwrap();
            assert_refused(&late.ask(join(&crowd.room(0), "latecomer")).await);
            println!("{fault}: a join is refused after {:.1?}", begin.elapsed());
            sleep(away).await;
            if is_killed {
                assert_refused(&late.ask(join(&crowd.room(0), "latecomer")).await);
                mesh.restart("redis").await.unwrap();
            } else {
                mesh.resume("redis").await.unwrap();
            }
            let back = rooms_are_back(&crowd, &mut late).await;
            println!("{fault}: rooms are back after {back:.1?}");

            crowd.all_stay_for(stay).await;
            all_receive_and_leave(crowd, late).await;
        })
        .await;

    outcome.assert_nothing_lost();
}

/// Waits until a newcomer may join and the store has all members again.
async fn rooms_are_back(crowd: &Crowd, late: &mut RoomClient) -> Duration {
    let (begin, room) = (Instant::now(), crowd.room(0));
    let is_back = async || {
        let answer = late.ask(join(&room, "latecomer")).await;
        let (seat, members) = (late.room(&room).seat, late.room(&room).members.len());
        (answer["type"] == "ack" && seat == SeatStatus::Member && members == EACH + 1).then_some(())
    };
    within(RETURN_TIMEOUT, "rooms to be back", is_back).await;
    begin.elapsed()
}

/// Checks that all rooms work as before, and closes their clients.
async fn all_receive_and_leave(mut crowd: Crowd, mut late: RoomClient) {
    late.leave(&crowd.room(0)).await;
    crowd.assert_broadcasts_arrive("rooms are back").await;
    crowd.assert_no_faults();
    late.close().await;
    for client in crowd.clients {
        client.close().await;
    }
}

fn assert_refused(answer: &Value) {
    assert_eq!(answer["code"], "room_store_unavailable", "{answer}");
    assert!(answer["retry_after_ms"].as_u64() > Some(0), "{answer}");
}
