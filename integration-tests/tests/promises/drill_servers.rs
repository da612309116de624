//! Plain clients notice nothing, or resume, when servers are killed, paused, partitioned or
//! restarted.

use std::fs;
use std::time::Duration;

use signaling_integration_tests::{Clients, Relay, TestMesh, drill, during, metric};
use tokio::time::sleep;

const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];
const PAUSED: Duration = Duration::from_secs(5);
/// Too short to be detected as a process pause.
const SHORT_PAUSE: Duration = Duration::from_millis(1_700);
/// Longer than it takes to suspect, shorter than the hold time.
const PARTITION: Duration = Duration::from_secs(8);
/// Time for which discovery is empty, and then gone.
const EMPTY: Duration = Duration::from_secs(4);
const GONE: Duration = Duration::from_secs(6);
/// A node whose clients are all there has nothing to wait for: less than the hold time.
const ONE_RESTART: Duration = Duration::from_secs(10);

#[tokio::test]
async fn kill_of_each_node_in_turn_loses_no_message() {
    let outcome = drill("kill -9 each node in turn", Clients::Staying, &mut TestMesh::start().await, async |mesh| {
        for node in NODES {
            mesh.kill(node).await.unwrap();
            mesh.restart(node).await.unwrap();
            mesh.until_views_agree().await;
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated();
}

#[tokio::test]
async fn pause_of_a_node_for_five_seconds_loses_no_message() {
    let outcome = drill("SIGSTOP a node for 5 s", Clients::Staying, &mut TestMesh::start().await, async |mesh| {
        mesh.pause("node-1").await.unwrap();
        sleep(PAUSED).await;
        mesh.resume("node-1").await.unwrap();
    })
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated().assert_no_message_waited(PAUSED);
}

#[tokio::test]
async fn node_stopped_for_a_short_time_suspects_no_server() {
    let mesh = TestMesh::start().await;
    let node = mesh.node_internal(1);
    for _ in 0..4 {
        mesh.pause("node-1").await.unwrap();
        sleep(SHORT_PAUSE).await;
        mesh.resume("node-1").await.unwrap();
        assert_eq!(metric(&node, "signaling_suspect_nodes", "").await, 0.0);
        // The others suspect it, and open connections anew.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(metric(&node, "signaling_suspect_nodes", "").await, 0.0);
    }
    assert_eq!(metric(&node, "signaling_trunks_ended_total", "reason=\"silent\"").await, 0.0);
}

#[tokio::test]
async fn cuts_of_lanes_lose_no_message_between_pause_and_kill() {
    let outcome = drill(
        "lanes cut beside a paused and a killed node",
        Clients::Staying,
        &mut TestMesh::start().await,
        async |mesh| {
            let cuts = async |count| {
                for _ in 0..count {
                    // The lanes of a node that has just come or gone may be absent.
                    let _ = mesh.cut_lane("any", "any");
                    sleep(Duration::from_millis(50)).await;
                }
            };
            mesh.cut_lane("node-0", "node-1").unwrap();
            cuts(20).await;
            mesh.pause("node-1").await.unwrap();
            cuts(60).await;
            mesh.resume("node-1").await.unwrap();
            cuts(60).await;
            during(mesh.kill("node-2"), cuts(60)).await;
            mesh.restart("node-2").await.unwrap();
            cuts(20).await;
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated();
}

#[tokio::test]
async fn messages_of_partitioned_nodes_detour_by_a_third_node() {
    let mut mesh = TestMesh::start().await;
    let (to_first, to_second) = (Relay::to_node(&mesh, "node-0").await, Relay::to_node(&mesh, "node-1").await);
    to_first.until_used(&mesh, "node-1", "node-0").await;
    to_second.until_used(&mesh, "node-0", "node-1").await;

    let outcome = drill("partition of two nodes", Clients::Staying, &mut mesh, async |_| {
        to_first.hold_lanes_of(&["node-1"]);
        to_second.hold_lanes_of(&["node-0"]);
        sleep(PARTITION).await;
        to_first.let_go();
        to_second.let_go();
    })
    .await;

    outcome.assert_nothing_lost().assert_repeated().assert_no_message_waited(PARTITION);
    let relayed = metric(&mesh.node_internal(2), "signaling_relayed_envelopes_total", "").await;
    println!("partition of two nodes: {relayed} messages took a detour by the third node");
    assert!(relayed > 0.0);
}

#[tokio::test]
async fn kill_of_a_node_without_discovery_loses_no_message() {
    // The removal of the killed node writes the discovery file again near the end.
    let mut mesh =
        TestMesh::with_options(|options| options.removal_delay = EMPTY + GONE - Duration::from_secs(2)).await;
    let file = mesh.dir.path().join("nodes.json");

    let outcome = drill(
        "discovery empty and then gone for 10 s, a node killed meanwhile",
        Clients::Staying,
        &mut mesh,
        async |mesh| {
            fs::write(&file, "").unwrap();
            sleep(Duration::from_secs(2)).await;
            let losing = async {
                sleep(EMPTY - Duration::from_secs(2)).await;
                fs::remove_file(&file).unwrap();
                sleep(GONE - Duration::from_secs(1)).await;
                assert!(!file.exists(), "discovery is back too early");
                assert_eq!(mesh.balancer_metric("signaling_view_nodes", "").await, 3.0, "the last view is kept");
                assert!(mesh.balancer_metric("signaling_discovery_failures_total", "").await > 0.0);
            };
            during(mesh.kill("node-1"), losing).await;
            mesh.until_views_agree().await;
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated().assert_no_message_waited(GONE);
}

#[tokio::test]
async fn resuming_clients_lose_nothing_in_a_rolling_restart() {
    let outcome = drill(
        "rolling restart of nodes and balancers",
        Clients::Reconnecting,
        &mut TestMesh::with_servers((3, 2), &[], &["--drain-ms=3000"]).await,
        async |mesh| {
            for (node, balancer) in NODES.into_iter().zip([Some("balancer-0"), Some("balancer-1"), None]) {
                let restart_balancer = async {
                    if let Some(balancer) = balancer {
                        mesh.restart(balancer).await.unwrap();
                    }
                };
                during(mesh.restart(node), restart_balancer).await;
                mesh.until_views_agree().await;
            }
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_resumed().assert_done_within(3 * ONE_RESTART);
}

#[tokio::test]
async fn drain_of_a_balancer_closes_all_its_clients_without_loss() {
    let outcome = drill(
        "drain of a balancer",
        Clients::Reconnecting,
        &mut TestMesh::with_servers((3, 2), &[], &["--drain-ms=4000"]).await,
        async |mesh| {
            mesh.drain("balancer-0").await.unwrap();
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_resumed();
    assert_eq!(outcome.figures.record.returns.drained, u64::from(outcome.figures.load.clients) / 2);
}
