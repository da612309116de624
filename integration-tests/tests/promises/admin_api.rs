//! Answers of the admin API and of `mesh-ctl` are true: lists are complete, explanations match
//! the placement, and answers have the described shape and name silent servers.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use signaling_integration_tests::description::Description;
use signaling_integration_tests::{
    Peer, RoomClient, TestMesh, admin, binaries, eventually, get, operator, until, until_some,
};
use signaling_server::MeshSecret;
use tokio::process::Command;
use tokio::task::JoinSet;

const CLIENTS: usize = 300;
/// Clients that connect at the same time.
const MAX_CONCURRENT: usize = 32;
/// Explanations that are requested at the same time: for each a node asks all others.
const MAX_EXPLANATIONS: usize = 4;
const PAGE: usize = 137;

#[tokio::test]
async fn lists_and_explanations_of_300_clients_are_true() {
    let mesh = TestMesh::with_servers((3, 1), &[], &["--max-per-address=0"]).await;
    let url = &mesh.url();
    let connect = |n| async move { Peer::connect(url, &name(n)).await };
    let mut peers = JoinSet::new();
    let mut connected = stream::iter(0..CLIENTS).map(connect).buffered(MAX_CONCURRENT);
    while let Some(mut peer) = connected.next().await {
        peers.spawn(async move { peer.discard_input().await });
    }
    let before = all_clients(&mesh).await;
    assert_eq!(before.len(), CLIENTS);
    assert_eq!(mesh.balancer_metric("signaling_client_sockets", "").await, CLIENTS as f64);
    assert!((0..CLIENTS).all(|n| before[&name(n)] == mesh.owner(&name(n))), "each is at its owner");
    assert_eq!(explained(&mesh).await, before);

    // One more node.
    mesh.scale(4).await.unwrap();
    mesh.until_views_agree().await;
    let joined = settled(&mesh).await;
    let moved = differences(&before, &joined);
    assert!(moved.values().all(|to| to == "node-3"));
    mesh.until_handed_off(moved.len()).await;
    assert_eq!(explained(&mesh).await, joined);

    // One less.
    mesh.drain("node-1").await.unwrap();
    mesh.until_views_agree().await;
    let left = settled(&mesh).await;
    assert!(differences(&joined, &left).keys().all(|id| joined[id] == "node-1"));
    assert_eq!(explained(&mesh).await, left);

    peers.shutdown().await;
    let sockets = async || mesh.balancer_metric("signaling_client_sockets", "").await;
    let are_gone = async || mesh.sum_over_nodes("signaling_sessions").await + sockets().await == 0.0;
    eventually("all sessions and sockets to go", are_gone).await;
}

#[tokio::test]
async fn answers_fit_the_openapi_document() {
    // A drained balancer closes no client during the test.
    let mesh = TestMesh::with_servers((3, 1), &[], &["--drain-ms=3600000"]).await;
    let mut clients = Vec::new();
    for id in ["alice", "bob", "carol"] {
        clients.push(RoomClient::connect(&mesh.url(), id).await);
        clients.last_mut().unwrap().join("standup").await;
    }
    // A client in the waiting queue, and held messages.
    let state = mesh.state();
    let (node, balancer) = (&state.nodes[0].internal, &state.balancers[0].internal);
    let mut dave = mesh.peer("dave").await;
    assert_eq!(operator(node, "PUT", "rooms/standup/capacity", Some(json!({ "capacity": 3 }))).await.0, 200);
    dave.send(&json!({ "type": "join", "room": "standup", "id": 1 })).await;
    dave.recv_type("waiting").await;
    dave.signal("nobody-yet", json!("wait for me"), Some(2)).await;

    let description = Description::new(admin(node, "GET", "openapi.json").await);
    for (path, field, count) in [
        ("clients?after=&prefix=", "clients", 4),
        ("rooms?after=&prefix=", "rooms", 1),
        ("rooms/standup?after=", "members", 3),
    ] {
        assert_eq!(admin(node, "GET", path).await[field].as_array().unwrap().len(), count, "{path}");
    }
    for (server, kind) in [(node, "node"), (balancer, "balancer")] {
        for operation in description.operations(kind) {
            let path = operation.path.strip_prefix("/admin/").unwrap();
            // The last operation kicks Bob.
            let client = match path {
                path if path.ends_with("kick") => "bob",
                path if path.contains("/members/") || path.contains("/blocks/") => "carol",
                _ => "dave",
            };
            let filled = |path: &str, client: &str, node: &str| {
                let room = if path.ends_with("closed") { "closed-hall" } else { "standup" };
                path.replace("{client}", client).replace("{node}", node).replace("{room}", room)
            };
            let body = (operation.method == "PUT").then(|| match path.ends_with("capacity") {
                true => json!({ "capacity": 3 }),
                false => json!({ "for_ms": 1_000 }),
            });
            let good = filled(path, client, "node-1");
            let (status, answer) = operator(server, &operation.method, &good, body.clone()).await;
            assert_eq!(status, 200, "{kind}: {} {good}: {answer}", operation.method);
            description.fits(&operation, status, &answer).unwrap_or_else(|why| panic!("{kind}: {good} {why}"));

            // Names that are none, and parameters that do not exist.
            let bad = if path.contains('{') {
                filled(path, "a%20b", "a%20b").replace("standup", "a%20b").replace("closed-hall", "a%20b")
            } else {
                good
            };
            let bad = format!("{bad}?limit=0");
            let (status, answer) = operator(server, &operation.method, &bad, body).await;
            if status != 200 {
                description.fits(&operation, status, &answer).unwrap_or_else(|why| panic!("{kind}: {bad} {why}"));
            }
        }
    }
    for (path, status, code) in [
        ("clients/nobody", 404, "no_such_client"),
        ("clients?limit=1001", 400, "bad_request"),
        ("rooms?limit=201", 400, "bad_request"),
        ("clients?perfix=a", 400, "bad_request"),
    ] {
        let (answered, answer) = operator(node, "GET", path, None).await;
        assert_eq!((answered, &answer["error"]["code"]), (status, &json!(code)), "{path}");
    }
    for body in [json!({ "capacity": 3, "members": 3 }), json!({ "capacity": -1 }), json!({})] {
        let (status, answer) = operator(node, "PUT", "rooms/standup/capacity", Some(body.clone())).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_request")), "{body}");
    }
    for name in description.parameters(&["node", "client", "room", "after", "prefix"]) {
        let expected = match name["in"] == "query" {
            true => Some("^[A-Za-z0-9._~:@-]*$"),
            // A subject, which a kick names, has any characters.
            false if name["description"].as_str().unwrap().contains("sub of tokens") => None,
            false => Some("^[A-Za-z0-9._~:@-]+$"),
        };
        assert_eq!(name["schema"]["pattern"].as_str(), expected, "{name}");
    }
    // Handoffs are over.
    let is_reported = async || {
        let held = admin(node, "GET", "explain/nobody-yet").await;
        let holds = |node: &Value| node["held"]["messages"] == 1 && node["session"].is_null();
        let (_, dave) = operator(node, "GET", "clients/dave", None).await;
        let waits = dave["at"]["rooms"][0]["room"] == "standup" && dave["at"]["session"]["without_outcome"] == 1;
        held["nodes"].as_array().unwrap().iter().any(holds) && waits
    };
    eventually("the waiting client and the held message to be reported", is_reported).await;
}

#[tokio::test]
async fn mesh_ctl_reports_its_result_by_exit_code() {
    let mesh = TestMesh::with_options(|options| {
        let token = options.dir.join("admin.token");
        std::fs::write(&token, "a-token-of-the-operators").unwrap();
        options.removal_delay = Duration::from_secs(60);
        options.node_args = vec![format!("--admin-token-file={}", token.display())];
    })
    .await;
    let mut alice = mesh.peer_owned_by("node-1", "victim").await;
    let bob = mesh.peer_owned_by("node-2", "bob").await;
    let victim = alice.id.clone();
    let node = mesh.node_internal(0);
    let token = mesh.dir.path().join("admin.token");
    let ctl = async |words: &[&str]| mesh_ctl(&node, token.to_str(), words).await;

    let (code, _, complaint) = mesh_ctl(&node, None, &["nodes"]).await;
    assert!(code == 3 && complaint.contains("--secret-file"), "{complaint}");
    let (code, nodes, _) = ctl(&["status"]).await;
    assert!(code == 0 && nodes.starts_with("NODE"), "{nodes}");
    assert!(nodes.contains("node-1") && nodes.contains("balancer-0"), "{nodes}");

    let (code, clients, _) = ctl(&["clients", "--prefix", "victim"]).await;
    assert!(code == 0 && clients.lines().count() == 2 && clients.contains(&victim), "{clients}");
    let (code, json, _) = ctl(&["--json", "client", &victim]).await;
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &shown["at"]["node"], &shown["state"]), (0, &json!("node-1"), &json!("connected")));
    assert_eq!(ctl(&["client", "nobody"]).await.0, 1);
    assert_eq!(ctl(&["client", "no body"]).await.0, 2, "the server refuses it as no name");
    let (code, why, _) = ctl(&["explain", &victim]).await;
    assert!(code == 0 && why.contains("node-1 owns it") && why.contains("RANK"), "{why}");
    let (code, script, _) = ctl(&["completions", "bash"]).await;
    assert!(code == 0 && script.contains("mesh-ctl"));
    let (code, secret, _) = mesh_ctl("http://127.0.0.1:1", None, &["secret"]).await;
    assert!(code == 0 && secret.len() == 65 && MeshSecret::new(&secret).is_ok(), "{secret}");
    let nowhere = mesh_ctl("http://127.0.0.1:1", None, &["nodes"]).await;
    assert!(nowhere.0 == 3 && nowhere.2.contains("cannot reach http://127.0.0.1:1"), "{}", nowhere.2);

    // The clients of a node that is drained move, and come back.
    let (code, _, progress) = ctl(&["drain", "node-1", "--wait"]).await;
    assert!(code == 0 && progress.contains("no clients any more"), "{progress}");
    let (_, drained, _) = ctl(&["explain", &victim]).await;
    assert!(!drained.contains("node-1 serves it") && !drained.contains("and it serves it"), "{drained}");
    assert!(ctl(&["nodes"]).await.1.lines().any(|line| line.starts_with("node-1") && line.contains("draining")));
    assert_eq!(ctl(&["undrain", "node-1"]).await.0, 0);
    let home = async || ctl(&["explain", &victim]).await.1.contains("and it serves it");
    eventually("the client to be back at its owner", home).await;

    // A kick, through a node that does not serve the client.
    assert_eq!(ctl(&["kick", &victim]).await.0, 0);
    assert_eq!(alice.closed().await, Some(4411));
    until(&mesh.balancer_internal(), "signaling_client_closes_total", "code=\"4411\"", |closes| closes == 1.0).await;
    eventually("its session to be gone", async || ctl(&["client", &victim]).await.0 == 1).await;
    assert_eq!(ctl(&["kick", &victim]).await.0, 1, "it was not there");

    // A node that is dead, and still in the view: it is named, and the rest comes.
    mesh.kill_unnoticed("node-1").await;
    let named = async || {
        let (code, clients, complaint) = ctl(&["clients"]).await;
        code == 3 && complaint.contains("without node-1: it does not accept connections") && clients.contains(&bob.id)
    };
    eventually("the dead node to be named", named).await;
    let (code, nodes, _) = ctl(&["nodes"]).await;
    assert!(code == 3 && nodes.lines().any(|line| line.starts_with("node-1") && line.contains("silent")), "{nodes}");

    // A balancer is drained by its name through any node.
    for (word, answer, status) in [("drain", "out of service", 503), ("undrain", "in service", 200)] {
        let (code, said, _) = ctl(&[word, "balancer-0"]).await;
        assert_eq!((code, said), (0, format!("balancer-0 is {answer}\n")));
        assert_eq!(get(&mesh.balancer_internal(), "/readyz").await.status, status);
    }
    assert_eq!(ctl(&["drain", "balancer-9"]).await.0, 1);
}

fn name(n: usize) -> String {
    format!("client-{n}")
}

/// Reads the list of clients page by page. Returns the node of each client.
async fn all_clients(mesh: &TestMesh) -> BTreeMap<String, String> {
    let (mut rows, mut next, mut pages) = (Vec::new(), Some(String::new()), 0);
    while let Some(after) = next {
        let path = format!("clients?limit={PAGE}&after={after}");
        let page = admin(&mesh.node_internal(0), "GET", &path).await;
        assert_eq!(page["missing"], json!([]));
        let word = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        rows.extend(page["clients"].as_array().unwrap().iter().map(|row| (word(row, "client_id"), word(row, "node"))));
        pages += 1;
        next = page["next"].as_str().map(str::to_owned);
    }
    assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted, each once");
    assert_eq!(pages, rows.len().div_ceil(PAGE).max(1));
    rows.into_iter().collect()
}

/// Returns the clients that moved, and their new nodes.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let differs = |(id, node): &(&String, &String)| before[*id] != **node;
    after.iter().filter(differs).map(|(id, node)| (id.clone(), node.clone())).collect()
}

/// Waits until each client is at its owner. Returns the nodes of all clients.
async fn settled(mesh: &TestMesh) -> BTreeMap<String, String> {
    let at_home = async || {
        let clients = all_clients(mesh).await;
        let is_home = |(id, node): (&String, &String)| mesh.owner(id) == **node;
        (clients.len() == CLIENTS && clients.iter().all(is_home)).then_some(clients)
    };
    until_some("each client to be at its owner", at_home).await
}

/// Returns the node of each client by its explanation, which reports its owner as serving it.
async fn explained(mesh: &TestMesh) -> BTreeMap<String, String> {
    let explain = |n| {
        let name = name(n);
        async move {
            let answer = admin(&mesh.node_internal(0), "GET", &format!("explain/{name}")).await;
            assert_eq!(answer["missing"], json!([]), "{answer}");
            assert_eq!(answer["ranking"][0]["node"], answer["owner"], "all are eligible: the highest score owns it");
            let nodes = answer["nodes"].as_array().unwrap();
            let serving = nodes.iter().find(|node| !node["session"].is_null()).expect("a node that serves it");
            assert_eq!((&serving["session"]["edge"], &serving["node"]), (&json!("balancer-0"), &answer["owner"]));
            (name, serving["node"].as_str().unwrap().to_owned())
        }
    };
    stream::iter(0..CLIENTS).map(explain).buffer_unordered(MAX_EXPLANATIONS).collect().await
}

/// Runs `mesh-ctl` for a server. Returns its exit code, stdout and stderr.
async fn mesh_ctl(server: &str, secret_file: Option<&str>, words: &[&str]) -> (i32, String, String) {
    let mut ctl = Command::new(binaries().join("mesh-ctl"));
    ctl.args(["--server", server]).args(secret_file.map(|path| format!("--secret-file={path}")));
    ctl.args(words).kill_on_drop(true);
    let Output { status, stdout, stderr } = ctl.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
