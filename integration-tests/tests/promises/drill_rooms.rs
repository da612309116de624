//! Rooms while servers are killed: a moved client never leaves, a lost client leaves once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_integration_tests::{Crowd, RoomTimes, TestMesh, setting, within};
use tokio::time::sleep;

/// Time after the resume time until others receive that a client left (LIMITS.md).
const CHECKS: Duration = Duration::from_secs(2);
/// Added to times by settings, for a machine that runs all servers and clients.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn members_leave_once_when_their_server_is_killed() {
    let mesh = TestMesh::with_options(|options| {
        options.balancers = 2;
        options.removal_delay = Duration::from_millis(300);
        options.node_args = RoomTimes::SHORT.flags();
    })
    .await;
    let (clients, rooms) = (setting("DRILL_CLIENTS", 500), setting("DRILL_ROOMS", 50));
    let mut crowd = Crowd::gather(&mesh, "drill", rooms, clients).await;
    let of_node: f64 = mesh.metrics("node-1", "signaling_sessions", "").await.iter().sum();
    assert!(of_node > 0.0, "some clients are at node-1");

    let times = RoomTimes::SHORT;
    mesh.kill("node-1").await.unwrap();
    // Long enough for seats without a claim to expire.
    crowd.all_stay_for(times.max_unclaimed() + times.seat_grace + SLACK).await;
    crowd.assert_broadcasts_arrive("a node was killed").await;
    println!("kill -9 of a node with {of_node} clients: no client was shown leaving");

    let bound = times.resume + CHECKS;
    let of_balancer_0 = crowd.clients.iter().enumerate().filter(|(number, _)| (number / rooms) % 2 == 0);
    let lost: BTreeSet<_> = of_balancer_0.map(|(_, client)| client.id.clone()).collect();
    let pairs = (lost.len() / rooms).pow(2) * rooms;
    let begin = Instant::now();
    mesh.kill("balancer-0").await.unwrap();
    let each_leaves = async || (departures_by_pair(&crowd, &lost).len() == pairs).then_some(());
    within(bound + SLACK, "all lost clients to be shown leaving", each_leaves).await;
    let slowest = departures_by_pair(&crowd, &lost).values().flatten().max().copied().unwrap() - begin;
    assert!(slowest <= bound, "shown leaving after {slowest:?}, and LIMITS.md says within {bound:?}");
    // A second leave would be shown once unclaimed seats expire.
    sleep(times.max_unclaimed()).await;
    let doubled = departures_by_pair(&crowd, &lost).values().filter(|times| times.len() > 1).count();
    assert_eq!(doubled, 0, "shown as leaving more than once");
    let strangers = crowd.departures().filter(|(_, departure)| !lost.contains(&departure.client_id)).count();
    assert_eq!(strangers, 0, "shown as leaving though they are there");
    for survivor in crowd.clients.iter().filter(|client| !lost.contains(&client.id)) {
        survivor.assert_no_faults();
    }
    println!(
        "kill -9 of a balancer: {} clients lost, shown leaving once to each of their room, the last after {slowest:.1?} \
         (bound {bound:?})",
        lost.len()
    );
}

/// Returns the times of departures, by a survivor and the lost client that left.
fn departures_by_pair(crowd: &Crowd, lost: &BTreeSet<String>) -> BTreeMap<(String, String), Vec<Instant>> {
    let mut by_pair: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (to, departure) in crowd.departures() {
        if !lost.contains(to) && lost.contains(&departure.client_id) {
            by_pair.entry((to.to_owned(), departure.client_id)).or_default().push(departure.at);
        }
    }
    by_pair
}
