//! While two nodes cannot reach each other, though both are up, plain clients notice nothing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::cut::Forwards;
use signaling_integration_tests::drill::{Outcome, go_on};
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::namespace::{Parting, Place, enter, parted_by_group};
use signaling_integration_tests::{Drill, TestMesh};

/// Longer than it takes to suspect, shorter than the hold time.
const PARTED: Duration = Duration::from_secs(8);

#[tokio::test]
async fn two_nodes_are_parted_and_no_message_is_lost_and_no_socket_closed() {
    match enter("drill_partition::two_nodes_are_parted_and_no_message_is_lost_and_no_socket_closed") {
        Place::Ran(passed) => assert!(passed, "see above"),
        Place::Inside => {
            println!("partition: by a packet filter in a network namespace");
            parted_by_packet_filter().await;
        }
        Place::Impossible(why) => {
            println!("partition: by relays between the nodes, since a network namespace cannot be had here: {why}");
            parted_by_relays().await;
        }
    }
}

async fn parted_by_packet_filter() {
    let mut mesh = TestMesh::with(parted_by_group).await;
    let outcome = Drill::new("partition of two nodes")
        .run(&mut mesh, async |mesh| {
            let nodes = mesh.mesh.state().nodes;
            let parting = Parting::of(&nodes[0], &nodes[1]);
            go_on(PARTED).await;
            assert!(parting.dropped() > 0, "no packet was dropped");
        })
        .await;
    assert_detour(&mesh, &outcome).await;
}

async fn parted_by_relays() {
    let mut mesh = TestMesh::start().await;
    let (to_first, to_second) = (Forwards::to(&mesh, "node-0").await, Forwards::to(&mesh, "node-1").await);
    to_first.until_used(&mesh, "node-1").await;
    to_second.until_used(&mesh, "node-0").await;
    let outcome = Drill::new("partition of two nodes")
        .run(&mut mesh, async |mesh| {
            let nodes = mesh.mesh.state().nodes;
            to_first.cut_from(nodes[1].pid);
            to_second.cut_from(nodes[0].pid);
            go_on(PARTED).await;
            to_first.heal();
            to_second.heal();
        })
        .await;
    assert_detour(&mesh, &outcome).await;
}

/// All arrived, and did not wait for the two to hear each other again: the third node carried it.
async fn assert_detour(mesh: &TestMesh, outcome: &Outcome) {
    let third = &mesh.mesh.state().nodes[2].internal;
    let passed_on = metric(third, "signaling_relayed_envelopes_total", "").await;
    println!("partition of two nodes: {passed_on} messages took the way through the third node");
    outcome.assert_nothing_lost().assert_repeated().assert_no_message_waited(PARTED);
    assert!(passed_on > 0.0, "no message took the way through the third node");
}
