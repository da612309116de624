//! Signals flow and members stay members while the Redis of the rooms is killed, paused, or
//! restarted empty under load.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::guest::{Standing, join};
use signaling_integration_tests::{Crowd, Drill, Guest, RoomTimes, TestMesh, go_on};

const CLIENTS: usize = 100;
const ROOMS: usize = 10;
const EACH: usize = CLIENTS / ROOMS;
/// Rooms are back by then.
const BACK_WITHIN: Duration = Duration::from_secs(25);
const AWAY: Duration = Duration::from_secs(4);
/// A store that keeps what it has gives seats up of which nothing was heard for two intervals and a
/// quarter: it may stand still for one and a quarter.
const PATIENT: RoomTimes = RoomTimes { presence: Duration::from_secs(5), ..RoomTimes::SHORT };
/// With the time that a join is waited for, less than that.
const SILENT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn kill_of_redis_loses_no_signal_and_no_member() {
    let Some(mut mesh) = TestMesh::with_redis(|options| options.balancers = 2).await else { return };

    let outcome = Drill::new("kill -9 of Redis, then an empty one")
        .run(&mut mesh, async |mesh| {
            let crowd = Crowd::gather(mesh, "redis", ROOMS, CLIENTS).await;
            let mut late = Guest::connect(&mesh.url(), "latecomer").await;
            let begin = Instant::now();
            mesh.mesh.kill("redis").await.unwrap();
            assert_refused(&late.ask(join(&crowd.room(0), "latecomer")).await);
            go_on(AWAY).await;
            assert_refused(&late.ask(join(&crowd.room(0), "latecomer")).await);
            mesh.mesh.restart("redis").await.unwrap();
            let back = rooms_are_back(&crowd, &mut late).await;
            println!("an empty Redis: rooms are back after {back:.1?}");

            // Until all nodes have refreshed their seats, and others would have expired.
            crowd.nobody_leaves_for(RoomTimes::SHORT.stale(), begin).await;
            all_hear_and_go(crowd, late).await;
        })
        .await;

    outcome.assert_nothing_lost();
}

#[tokio::test]
async fn pause_of_redis_loses_no_signal_and_no_member() {
    let with_times = |options: &mut MeshOptions| {
        options.balancers = 2;
        options.node_args = PATIENT.flags();
    };
    let Some(mut mesh) = TestMesh::with_redis(with_times).await else { return };

    let outcome = Drill::new("a pause of Redis")
        .run(&mut mesh, async |mesh| {
            let crowd = Crowd::gather(mesh, "redis", ROOMS, CLIENTS).await;
            let mut late = Guest::connect(&mesh.url(), "latecomer").await;
            let begin = Instant::now();
            mesh.mesh.pause("redis").await.unwrap();
            let asked = Instant::now();
            assert_refused(&late.ask(join(&crowd.room(0), "latecomer")).await);
            println!("a paused Redis: a join is refused after {:.1?}", asked.elapsed());
            go_on(SILENT).await;
            mesh.mesh.resume("redis").await.unwrap();
            rooms_are_back(&crowd, &mut late).await;

            crowd.nobody_leaves_for(PATIENT.presence * 2, begin).await;
            all_hear_and_go(crowd, late).await;
        })
        .await;

    outcome.assert_nothing_lost();
}

#[tokio::test]
async fn broadcast_behind_a_replaced_store_reaches_all_or_is_refused() {
    let Some(mesh) = TestMesh::with_redis(|options| options.balancers = 2).await else { return };
    let mut crowd = Crowd::gather(&mesh, "replaced", 1, 6).await;
    let room = crowd.room(0);
    mesh.mesh.kill("redis").await.unwrap();
    mesh.mesh.restart("redis").await.unwrap();
    let (begin, mut refused) = (Instant::now(), 0);
    loop {
        let request = json!({ "type": "broadcast", "room": room, "data": refused });
        let answer = crowd.guests[0].ask(request).await;
        if answer["type"] == "ack" {
            assert_eq!(answer["delivered"], 5, "acknowledged {:.1?} after the replacement: {answer}", begin.elapsed());
            break;
        }
        assert_refused(&answer);
        refused += 1;
        assert!(begin.elapsed() < BACK_WITHIN, "broadcasts are still refused: {answer}");
        go_on(Duration::from_millis(100)).await;
    }
    println!("a replaced Redis: {refused} broadcasts refused, the next reached all after {:.1?}", begin.elapsed());
    let members = crowd.guests[1].members(&room, None).await;
    assert_eq!(members["count"], 6, "{members}");
}

/// A newcomer may join, and the store knows all members again.
async fn rooms_are_back(crowd: &Crowd, late: &mut Guest) -> Duration {
    let (begin, room) = (Instant::now(), crowd.room(0));
    loop {
        let answer = late.ask(join(&room, "latecomer")).await;
        let (standing, members) = (late.room(&room).standing, late.room(&room).members.len());
        if answer["type"] == "ack" && standing == Standing::Member && members == EACH + 1 {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < BACK_WITHIN, "rooms are not back: {answer}, {members} members");
        go_on(Duration::from_millis(200)).await;
    }
}

/// All rooms work as before, for all who were in them.
async fn all_hear_and_go(mut crowd: Crowd, mut late: Guest) {
    late.leave(&crowd.room(0)).await;
    crowd.assert_all_hear("rooms are back").await;
    crowd.assert_no_faults();
    late.close().await;
    for guest in crowd.guests {
        guest.close().await;
    }
}

fn assert_refused(answer: &Value) {
    assert_eq!(answer["code"], "room_store_unavailable", "{answer}");
    assert!(answer["retry_after_ms"].as_u64() > Some(0), "{answer}");
}
