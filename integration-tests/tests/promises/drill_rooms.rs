//! Rooms in a real Redis while servers are killed: a moved client never leaves, a lost client
//! leaves once, and the registry keeps no entry of a dead node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_integration_tests::room_times::printed_bound;
use signaling_integration_tests::{Crowd, RoomTimes, Store, TestMesh, eventually, go_on, setting};

/// What the registry had of the dead is gone by then.
const CLEAN_WITHIN: Duration = Duration::from_secs(60);
/// Beside what the settings imply: a machine that runs all servers and clients at once.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn members_leave_once_when_their_server_is_killed() {
    let Some(mesh) = TestMesh::with_redis(|options| {
        options.balancers = 2;
        options.notice = Duration::from_millis(300);
    })
    .await
    else {
        return;
    };
    let (clients, rooms) = (setting("DRILL_CLIENTS", 500), setting("DRILL_ROOMS", 50));
    let mut crowd = Crowd::gather(&mesh, "drill", rooms, clients).await;
    let mut store = Store::of(&mesh).await;
    registered(&mut store, clients).await;
    let of_node = store.left_of_node("node-1").await.len();
    assert!(of_node > 1, "some clients are at node-1");

    let (begin, times) = (Instant::now(), RoomTimes::SHORT);
    mesh.mesh.kill("node-1").await.unwrap();
    // Long enough for what was not refreshed to go.
    crowd.nobody_leaves_for(times.stale() + times.grace + SLACK, begin).await;
    crowd.assert_all_hear("a node was killed").await;
    println!("kill -9 of a node with {of_node} entries in the registry: nobody was shown leaving");

    let bound = printed_bound(&mesh, "node-0");
    let (lost, node_killed, begin) = (of_balancer(&crowd, rooms, 0), begin, Instant::now());
    mesh.mesh.kill("balancer-0").await.unwrap();
    let each_leaves = || async { (departures_by_pair(&crowd, &lost).len() == pairs(&lost, rooms)).then_some(()) };
    eventually("everybody who is gone to be shown leaving", bound + SLACK, each_leaves).await;
    let slowest = departures_by_pair(&crowd, &lost).values().flatten().max().copied().unwrap() - begin;
    assert!(slowest <= bound, "shown leaving after {slowest:?}, and the nodes said within {bound:?}");
    let forgotten = forgets_clients(&mut store, &lost, begin).await;
    // A second leave would be shown by the next refreshes.
    go_on(times.stale()).await;
    let doubled = departures_by_pair(&crowd, &lost).values().filter(|times| times.len() > 1).count();
    assert_eq!(doubled, 0, "shown as leaving more than once");
    let strangers = crowd.departures().filter(|(_, departure)| !lost.contains(&departure.who)).count();
    assert_eq!(strangers, 0, "shown as leaving though they are there");
    let cleaned = forgets_node(&mut store, "node-1", node_killed).await;
    println!("the registry had nothing of the dead node after {cleaned:.1?}");
    registered(&mut store, clients - lost.len()).await;
    survivors(&crowd, &lost).for_each(|guest| assert_eq!(guest.seen().faults().collect::<Vec<_>>(), [""; 0]));
    println!(
        "kill -9 of a balancer: {} clients lost, shown leaving once to each of their room, the last after {slowest:.1?} \
         (printed bound {bound:?}); none in the registry after {forgotten:.1?}",
        lost.len()
    );
}

async fn registered(store: &mut Store, clients: usize) {
    let begin = Instant::now();
    loop {
        let registered = store.registered().await.len();
        if registered == clients {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{registered} of {clients} clients in the registry");
        go_on(Duration::from_millis(50)).await;
    }
}

async fn forgets_node(store: &mut Store, node: &str, since: Instant) -> Duration {
    loop {
        let left = store.left_of_node(node).await;
        if left.is_empty() {
            return since.elapsed();
        }
        assert!(since.elapsed() < CLEAN_WITHIN, "{} entries of {node} are left, as {:?}", left.len(), left[0]);
        go_on(Duration::from_millis(100)).await;
    }
}

async fn forgets_clients(store: &mut Store, lost: &BTreeSet<String>, since: Instant) -> Duration {
    loop {
        let left = store.registered().await.into_iter().filter(|(client, _)| lost.contains(client)).count();
        if left == 0 {
            return since.elapsed();
        }
        assert!(since.elapsed() < CLEAN_WITHIN, "{left} clients that are gone are in the registry");
        go_on(Duration::from_millis(100)).await;
    }
}

/// The clients whose sockets a balancer holds, by name.
fn of_balancer(crowd: &Crowd, rooms: usize, balancer: usize) -> BTreeSet<String> {
    let guests = crowd.guests.iter().enumerate();
    guests.filter(|(number, _)| (number / rooms) % 2 == balancer).map(|(_, guest)| guest.id.clone()).collect()
}

fn survivors<'a>(
    crowd: &'a Crowd,
    lost: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'a signaling_integration_tests::Guest> {
    crowd.guests.iter().filter(|guest| !lost.contains(&guest.id))
}

/// When each survivor was shown each lost one as leaving.
fn departures_by_pair(crowd: &Crowd, lost: &BTreeSet<String>) -> BTreeMap<(String, String), Vec<Instant>> {
    let mut by_pair: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (to, departure) in crowd.departures() {
        if !lost.contains(to) && lost.contains(&departure.who) {
            by_pair.entry((to.to_owned(), departure.who)).or_default().push(departure.at);
        }
    }
    by_pair
}

/// How many pairs of a survivor and a lost one share a room.
fn pairs(lost: &BTreeSet<String>, rooms: usize) -> usize {
    let lost_of_room = lost.len() / rooms;
    lost_of_room * lost_of_room * rooms
}
