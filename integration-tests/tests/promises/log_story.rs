//! The logs of a rescale have its events in order. Lines about a client name it and its session,
//! and no line contains a message.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{TestMesh, admin, becomes, eventually, exchange};

const CLIENTS: usize = 60;

#[tokio::test]
async fn rescale_leaves_about_ten_log_lines_a_server() {
    let mesh = TestMesh::start().await;
    let _clients = mesh.connect((0..CLIENTS).map(|number| format!("client-{number}"))).await;

    let up = logged_by(&mesh, async || {
        mesh.scale(5).await.unwrap();
        settled(&mesh, 5).await;
    })
    .await;
    let balancer = &up["balancer-0"];
    has_line(balancer, &["the view has changed", "nodes=5", "left=none"]);
    assert_eq!(joined(balancer), ["node-3", "node-4"]);
    has_line(balancer, &["node=node-3", "trunk connected"]);
    has_line(balancer, &["handoffs planned", "clients=", "of=60"]);
    has_line(balancer, &["handoffs done", "clients=", "ms="]);
    assert_eq!(joined(&up["node-0"]), ["node-3", "node-4"]);
    has_line(&up["node-3"], &["node starts", "id=node-3"]);
    has_line(&up["node-3"], &["trunk of an edge connected", "edge=balancer-0"]);

    let down = logged_by(&mesh, async || {
        mesh.scale(3).await.unwrap();
        settled(&mesh, 3).await;
    })
    .await;
    let balancer = &down["balancer-0"];
    has_line(balancer, &["node drains, its clients move", "node=node-4"]);
    has_line(balancer, &["handoffs done", "clients="]);
    has_line(balancer, &["the view has changed", "nodes=3"]);
    has_line(&down["node-4"], &["drain started", "sessions="]);
    has_line(&down["node-4"], &["node stops, all sessions handed off"]);

    for (what, story) in [("up", &up), ("down", &down)] {
        for (server, lines) in story {
            // A starting node logs its settings. Two nodes join or leave, each with a trunk.
            assert!(lines.len() <= 12, "{server}, {what}: {} lines\n{}", lines.len(), lines.join("\n"));
            let alarm = lines.iter().find(|line| line.contains(" WARN ") && !line.contains("ANONYMOUS"));
            assert_eq!(alarm, None, "{server}, {what}: nothing is wrong when nodes come and go");
        }
    }
    let named: usize = up.values().chain(down.values()).flatten().filter(|line| line.contains("client=")).count();
    assert_eq!(named, 0, "clients that move are counted, not named");
}

#[tokio::test]
async fn killed_node_causes_one_warning_per_server() {
    let mesh = TestMesh::with_options(|options| options.removal_delay = Duration::from_secs(60)).await;
    let _clients = mesh.connect((0..CLIENTS).map(|number| format!("client-{number}"))).await;
    let internals = [mesh.balancer_internal(), mesh.node_internal(0), mesh.node_internal(2)];
    let logged = logged_by(&mesh, async || {
        mesh.kill_unnoticed("node-1").await;
        for internal in &internals {
            becomes(internal, "signaling_suspect_nodes", 1).await;
        }
        // Retries follow within 5 s.
        tokio::time::sleep(Duration::from_secs(6)).await;
    })
    .await;
    for (server, lines) in logged.iter().filter(|(server, _)| *server != "node-1") {
        let warnings: Vec<_> = lines.iter().filter(|line| line.contains(" WARN ")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains("node suspect"), "{server}: {warnings:#?}");
    }
}

#[tokio::test]
async fn debug_log_names_clients_but_no_messages() {
    let mesh = TestMesh::with_servers((3, 1), &["--log=debug"], &["--log=debug"]).await;
    let (mut ada, mut bob) = (mesh.peer_owned_by("node-0", "debug").await, mesh.peer_owned_by("node-1", "debug").await);
    let ids = [ada.id.clone(), bob.id.clone()];
    let mut exchanges = async |count: u64| {
        for id in 1..=count {
            exchange((&mut ada, &mut bob), &json!("hello"), id).await;
        }
    };
    exchanges(10).await;
    let quiet = logged_by(&mesh, async || exchanges(200).await).await;
    for (server, lines) in &quiet {
        assert!(lines.len() < 50, "{server}: lines for 200 messages, such as\n{}", lines[..20].join("\n"));
    }

    admin(&mesh.node_internal(0), "POST", &format!("clients/{}/kick", ids[1])).await;
    ada.close().await;
    let gone =
        async || all(&mesh).values().flatten().filter(|line| line.contains("closing the socket of a client")).count();
    eventually("both to be gone", async || gone().await >= 2).await;
    let lines = all(&mesh);
    let named = |line: &&String| line.contains("client=") || ids.iter().any(|id| line.contains(id));
    let about: Vec<_> = lines.values().flatten().filter(named).collect();
    assert!(about.len() >= 4, "{about:?}");
    assert!(about.iter().any(|line| line.contains("client kicked by operator")), "{about:?}");
    for line in about {
        assert!(line.contains("session="), "{line}");
        assert!(ids.iter().any(|id| line.contains(&format!("client={id}"))), "{line}");
    }
}

/// Waits until every server has this number of nodes, and every client is at its owner.
async fn settled(mesh: &TestMesh, nodes: usize) {
    mesh.until_views_agree().await;
    let state = mesh.state();
    assert_eq!(state.nodes.len(), nodes);
    let balancer = &state.balancers[0].internal;
    becomes(balancer, "signaling_misplaced_sessions", 0).await;
    becomes(balancer, "signaling_unattached_sessions", 0).await;
    let served = async || mesh.sum_over_nodes("signaling_sessions").await == CLIENTS as f64;
    eventually("all sessions to be served", served).await;
    let is_over = async || {
        let lines = all(mesh).remove("balancer-0").unwrap();
        let last = |what: &str| lines.iter().rposition(|line| line.contains(what));
        last("handoffs done") > last("handoffs planned")
    };
    eventually("the end of the story", is_over).await;
}

async fn logged_by(mesh: &TestMesh, act: impl AsyncFnOnce()) -> BTreeMap<String, Vec<String>> {
    let before = all(mesh);
    act().await;
    let mut logged = all(mesh);
    for (server, lines) in &mut logged {
        lines.drain(..before.get(server).map_or(0, Vec::len));
    }
    logged
}

fn all(mesh: &TestMesh) -> BTreeMap<String, Vec<String>> {
    let files = fs::read_dir(mesh.dir.path().join("logs")).unwrap().map(|file| file.unwrap().path());
    files
        .map(|file| {
            let server = file.file_stem().unwrap().to_str().unwrap().to_owned();
            (server, fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect())
        })
        .collect()
}

/// Returns the nodes that joined by the lines about the view: together, or one after the other.
fn joined(lines: &[String]) -> Vec<&str> {
    let views = lines.iter().filter(|line| line.contains("the view has changed"));
    let names = views.filter_map(|line| Some(line.split_once(" joined=")?.1.split_once(" left=")?.0));
    let mut joined: Vec<_> = names.flat_map(|names| names.split(", ")).filter(|name| *name != "none").collect();
    joined.sort_unstable();
    joined
}

fn has_line(lines: &[String], words: &[&str]) {
    let fits = |line: &&String| words.iter().all(|word| line.contains(word));
    assert!(lines.iter().any(|line| fits(&line)), "no line has {words:?}:\n{}", lines.join("\n"));
}
