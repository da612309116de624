//! Rooms on three real nodes: visitors join and leave all the time while nodes are killed, drained,
//! paused, partitioned and restarted.

use std::time::{Duration, Instant};

use signaling_devmesh::MeshOptions;
use signaling_integration_tests::{Crowd, FullRoom, Relay, RoomDrill, RoomTimes, TestMesh, eventually, metric, until};
use tokio::time::sleep;

/// Time until the view drops a killed node.
const REMOVAL_DELAY: Duration = Duration::from_millis(500);
/// Longer than a drill.
const UNNOTICED: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(5);
/// Time in which a room that has lost all copies admits no client.
const SETTLE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn rooms_survive_kill_drain_and_pause_of_their_nodes() {
    let mut drill = RoomDrill::start(REMOVAL_DELAY).await;

    let join_and_drain = async |mesh: &TestMesh, _: &mut FullRoom| {
        mesh.scale(4).await.unwrap();
        mesh.until_views_agree().await;
        mesh.drain("node-2").await.unwrap();
        mesh.until_views_agree().await;
        None
    };
    drill.run("a node joined and a node drained", join_and_drain).await;

    let kill = async |mesh: &TestMesh, _: &mut FullRoom| {
        let killed = Instant::now();
        mesh.kill("node-1").await.unwrap();
        sleep(Duration::from_secs(4)).await;
        Some(killed + REMOVAL_DELAY)
    };
    drill.run("a node was killed", kill).await;

    let pause = async |mesh: &TestMesh, _: &mut FullRoom| {
        mesh.pause("node-0").await.unwrap();
        sleep(PAUSE).await;
        mesh.resume("node-0").await.unwrap();
        let resumed = Instant::now();
        sleep(PAUSE).await;
        Some(resumed)
    };
    drill.run("a node was paused", pause).await;
    drill.assert_all_stayed().await;
}

#[tokio::test]
async fn rooms_survive_a_partition_between_two_nodes() {
    let mut drill = RoomDrill::start(UNNOTICED).await;
    let mesh = &drill.mesh;
    let (to_first, to_second) = (Relay::to_node(mesh, "node-0").await, Relay::to_node(mesh, "node-1").await);
    to_first.until_used(mesh, "node-1", "node-0").await;
    to_second.until_used(mesh, "node-0", "node-1").await;

    let partition = async |_: &TestMesh, _: &mut FullRoom| {
        to_first.hold_lanes_of(&["node-1"]);
        to_second.hold_lanes_of(&["node-0"]);
        sleep(PAUSE).await;
        to_first.let_go();
        to_second.let_go();
        let healed = Instant::now();
        sleep(PAUSE).await;
        Some(healed)
    };
    drill.run("two nodes were partitioned", partition).await;
    drill.assert_all_stayed().await;
}

#[tokio::test]
async fn lost_rooms_get_all_members_back_before_they_admit() {
    let mut drill = RoomDrill::start(REMOVAL_DELAY).await;
    let ranked = drill.mesh.ranked(FullRoom::NAME);
    let is_lost = |room: &&String| drill.mesh.ranked(room)[2] == ranked[2];
    let lost = 1 + drill.rooms.iter().filter(is_lost).count();

    let kill_both = async |mesh: &TestMesh, full: &mut FullRoom| {
        let before = full.incarnation(mesh).await;
        let killed = Instant::now();
        let (owner, backup) = tokio::join!(mesh.kill(&ranked[0]), mesh.kill(&ranked[1]));
        owner.and(backup).unwrap();
        sleep(RoomDrill::REPAIR).await;
        full.move_up().await;
        let admitted = killed.elapsed();
        println!("owner and backup were killed: {lost} rooms lost, the first client admitted after {admitted:?}");
        let expected = SETTLE..SETTLE + REMOVAL_DELAY + RoomDrill::REPAIR;
        assert!(expected.contains(&admitted), "{admitted:?}");
        assert!(full.incarnation(mesh).await > before);
        assert_eq!(mesh.sum_over_nodes("signaling_rooms_rebuilt_total").await, lost as f64);
        Some(killed + REMOVAL_DELAY)
    };
    drill.run("owner and backup were killed", kill_both).await;
    drill.assert_all_stayed().await;
}

#[tokio::test]
async fn no_room_is_rebuilt_when_one_zone_of_three_is_killed() {
    const ROOMS: usize = 100;
    let mesh = TestMesh::with_options(|options: &mut MeshOptions| {
        (options.nodes, options.zones, options.removal_delay) = (6, 3, REMOVAL_DELAY);
        options.node_args = RoomTimes::SHORT.flags();
    })
    .await;
    let mut crowd = Crowd::gather(&mesh, "member", ROOMS, 2 * ROOMS).await;
    let entries = mesh.discovery_entries();
    let zone = ["node-0", "node-3"];
    let of_zone: Vec<_> = entries.iter().filter(|node| node["zone"] == "zone-0").map(|node| &node["id"]).collect();
    assert_eq!(of_zone, zone);
    let owned = (0..ROOMS).filter(|room| zone.contains(&mesh.owner(&crowd.room(*room)).as_str())).count();

    let (one, other) = tokio::join!(mesh.kill(zone[0]), mesh.kill(zone[1]));
    one.and(other).unwrap();
    mesh.until_views_agree().await;

    crowd.all_stay_for(RoomTimes::SHORT.max_unclaimed() + Duration::from_secs(2)).await;
    crowd.assert_broadcasts_arrive("a zone was killed").await;
    crowd.assert_no_faults();
    let taken_over = mesh.sum_over_nodes("signaling_room_takeovers_total").await;
    println!("a zone was killed: it owned {owned} of {ROOMS} rooms, {taken_over} were taken over");
    assert!(owned > 0 && taken_over >= owned as f64);
    assert_eq!(mesh.sum_over_nodes("signaling_rooms_rebuilt_total").await, 0.0);
}

#[tokio::test]
async fn dropped_owner_commits_nothing_after_its_pause() {
    let mut drill = RoomDrill::start(UNNOTICED).await;

    let pause_and_drop = async |mesh: &TestMesh, full: &mut FullRoom| {
        let (owner, listed) = (mesh.owner(FullRoom::NAME), mesh.discovery_entries());
        let others: Vec<_> = listed.iter().filter(|node| node["id"] != owner.as_str()).cloned().collect();
        mesh.pause(&owner).await.unwrap();
        sleep(REMOVAL_DELAY).await;
        mesh.set_discovery_entries(&others);
        let dropped = Instant::now();
        sleep(PAUSE).await;
        full.move_up().await;
        mesh.resume(&owner).await.unwrap();
        sleep(Duration::from_secs(2)).await;
        full.move_up().await;
        mesh.set_discovery_entries(&listed);
        mesh.until_views_agree().await;
        sleep(Duration::from_secs(2)).await;
        Some(dropped)
    };
    drill.run("an owner was paused and dropped", pause_and_drop).await;
    drill.assert_all_stayed().await;
}

#[tokio::test]
async fn restarted_node_finds_its_rooms_and_clients_again() {
    let mut drill = RoomDrill::start(UNNOTICED).await;

    let restart = async |mesh: &TestMesh, full: &mut FullRoom| {
        let (before, owner) = (full.incarnation(mesh).await, mesh.owner(FullRoom::NAME));
        mesh.kill_unnoticed(&owner).await;
        mesh.restart(&owner).await.unwrap();
        let restarted = Instant::now();
        full.move_up().await;
        assert_eq!(full.incarnation(mesh).await, before);
        assert_eq!(mesh.sum_over_nodes("signaling_rooms_rebuilt_total").await, 0.0);
        let nodes = mesh.state().nodes;
        let node = nodes.iter().find(|node| node.id == owner).unwrap();
        assert!(metric(&node.internal, "signaling_rooms_owned", "").await > 0.0);
        until(&node.internal, "signaling_sessions", "", |sessions| sessions > 0.0).await;
        Some(restarted)
    };
    drill.run("a node was killed and started again", restart).await;
    drill.assert_all_stayed().await;
}

#[tokio::test]
async fn full_room_keeps_order_when_owner_and_backup_change() {
    const SEATS: usize = 4;
    let mesh = TestMesh::with_options(|options: &mut MeshOptions| {
        (options.nodes, options.balancers, options.removal_delay) = (4, 1, REMOVAL_DELAY);
        options.node_args = RoomTimes::SHORT.flags();
        options.node_args.push(format!("--room-capacity={SEATS}"));
    })
    .await;
    let mut room = FullRoom::gather(&mesh, SEATS).await;
    for number in 0..2 * SEATS {
        // The owner is killed, then a backup, then an owner again.
        if number % 3 == 1 {
            let lost = mesh.ranked(FullRoom::NAME).remove(usize::from(number == 4));
            mesh.kill(&lost).await.unwrap();
            eventually("the view to drop the node", async || !mesh.ranked(FullRoom::NAME).contains(&lost)).await;
            sleep(RoomDrill::REPAIR).await;
        }
        room.move_up().await;
    }
    room.assert_consistent();
}
