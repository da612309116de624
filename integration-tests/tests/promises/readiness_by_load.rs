//! A server with far more clients than its peers reports unready while other servers are ready. Its
//! clients notice nothing.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh, becomes, eventually, get, host, metric, stays};

/// More than the difference of two servers by chance.
const CLIENTS: usize = 40;
const SEVERAL_POLLS: Duration = Duration::from_secs(4);
const FLAGS: [&str; 2] = ["--unready-above-percent=20", "--unready-min-clients=5"];

const READY: (u16, &str) = (200, "ready\n");

#[tokio::test]
async fn balancer_with_all_clients_is_unready_until_they_leave() {
    let mesh = balancers().await;
    let internal = balancer_internals(&mesh);
    set_peers(&mesh, &["balancer-0", "balancer-1", "balancer-2"]);
    let mut peers = connect(&mesh.url()).await;

    let unready = (503, "unready: 40 clients are 200% above the mean of 3 servers\n");
    answers(&internal[0], "/readyz", unready).await;
    let is_one = async || {
        let mut statuses = Vec::new();
        for one in &internal {
            statuses.push(get(one, "/readyz").await.status);
        }
        statuses == [503, 200, 200]
    };
    stays("one is unready and the others are ready", SEVERAL_POLLS, is_one).await;
    assert_eq!(metric(&internal[0], "signaling_load_unready", "").await, 1.0);

    // Open sockets stay, and a client that connects nevertheless is admitted.
    peers.push(mesh.peer("one-more").await);
    for peer in &mut peers {
        assert!(peer.has_nothing().await);
    }

    for peer in peers {
        peer.close().await;
    }
    answers(&internal[0], "/readyz", READY).await;
    becomes(&internal[0], "signaling_load_unready", 0).await;
    assert_eq!(metric(&internal[0], "signaling_load_unready_total", "").await, 1.0);
    let log = mesh.log("balancer-0");
    for line in ["unready because of its load", "ready again, load is near the mean"] {
        assert_eq!(log.matches(line).count(), 1, "{line}");
    }
}

#[tokio::test]
async fn balancer_is_ready_when_it_has_no_peers() {
    let mesh = balancers().await;
    let internal = balancer_internals(&mesh);
    set_peers(&mesh, &["balancer-0"]);
    let _peers = connect(&mesh.url()).await;
    let is_ready = async || get(&internal[0], "/readyz").await.status == 200;
    stays("alone it is ready", SEVERAL_POLLS, is_ready).await;

    set_peers(&mesh, &["balancer-0", "balancer-1", "balancer-2"]);
    answers(&internal[0], "/readyz", (503, "unready: 40 clients are 200% above the mean of 3 servers\n")).await;
    mesh.kill("balancer-1").await.unwrap();
    answers(&internal[0], "/readyz", READY).await;
    mesh.kill("balancer-2").await.unwrap();
    stays("without peers it is ready", SEVERAL_POLLS, is_ready).await;
}

#[tokio::test]
async fn loaded_node_is_unready_for_clients_only() {
    let mesh = TestMesh::with_servers((2, 0), &FLAGS, &[]).await;
    let nodes = mesh.state().nodes;
    let _peers = connect(&nodes[0].url).await;

    let unready = (503, "unready: 40 clients are 100% above the mean of 2 servers\n");
    answers(&nodes[0].internal, "/readyz/clients", unready).await;
    assert_eq!(get(&nodes[0].internal, "/readyz").await.status, 200);
    assert_eq!(get(&nodes[1].internal, "/readyz/clients").await.status, 200);
}

/// Starts a node, and three balancers that read their peers from a file.
async fn balancers() -> TestMesh {
    TestMesh::with_options(|options| {
        (options.nodes, options.balancers) = (1, 3);
        options.balancer_args = FLAGS.map(str::to_owned).to_vec();
        options.balancer_args.push(format!("--balancer-discovery=file:{}", options.dir.join("peers.json").display()));
    })
    .await
}

fn set_peers(mesh: &TestMesh, ids: &[&str]) {
    let state = mesh.state();
    let named = state.balancers.iter().filter(|balancer| ids.contains(&balancer.id.as_str()));
    let members: Vec<_> =
        named.map(|balancer| json!({ "id": balancer.id, "address": host(&balancer.internal) })).collect();
    mesh.replace_file("peers.json", &json!(members).to_string());
}

fn balancer_internals(mesh: &TestMesh) -> Vec<String> {
    mesh.state().balancers.iter().map(|balancer| balancer.internal.clone()).collect()
}

async fn connect(url: &str) -> Vec<Peer> {
    Peer::connect_all(url, (0..CLIENTS).map(|n| format!("client-{n}"))).await
}

async fn answers(internal: &str, path: &str, expected: (u16, &str)) {
    let is_expected = async || {
        let answer = get(internal, path).await;
        (answer.status, answer.body.as_str()) == expected
    };
    eventually(&format!("{internal}{path} to answer {expected:?}"), is_expected).await;
}
