//! A node's internal listener answers only servers of the mesh. No public listener serves its
//! routes.

use std::time::Duration;

use signaling_integration_tests::raw_socket::{BINARY, frame};
use signaling_integration_tests::{
    Answer, Head, Peer, RawSocket, TestMesh, admin, ask, becomes, connect_from, eventually, metric, read_answer,
};
use signaling_wire::limits;
use signaling_wire::trunk::{SUBPROTOCOL, ToEdge};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::sleep;

const TRUNK: &str = "/internal/v1/trunk";
const FORWARD: &str = "/internal/v1/forward";
const REFUSED: &str = "signaling_refused_internal_total";
const MAX_BATCH_BYTES: usize = 32 * 1024 * 1024;

#[tokio::test]
async fn internal_request_needs_the_mesh_secret() {
    let mesh = TestMesh::with(|options| options.nodes = 1).await;
    let node = node(&mesh);
    let secret = mesh.secret();
    let mut tried = 0.0;
    for head in
        [trunk(), Head::get(FORWARD).method("POST").with("Content-Length", "0"), Head::get(TRUNK), Head::get(FORWARD)]
    {
        let with = |value: &str| head.clone().with("Authorization", value);
        let right = format!("Bearer {secret}");
        for head in [
            head.clone(),
            with("Bearer wrong-secret-of-some-length"),
            with(&format!("Bearer {}", secret.to_uppercase())),
            with(&format!("Bearer {secret}0")),
            with(&format!("Bearer {}", &secret[1..])),
            with(&format!("Basic {secret}")),
            with(&right).with("Authorization", &right),
            head.clone().with("Sec-WebSocket-Protocol", &format!("bearer.{secret}")),
        ] {
            let answer = ask(&node, head.text()).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (401, "unauthorized"), "{}", head.text());
            tried += 1.0;
        }
    }
    assert_eq!(metric(&format!("http://{node}"), REFUSED, "").await, tried);
    assert_eq!(warnings(&mesh), 1, "{tried} requests of one source");

    let mut elsewhere = connect_from([127, 0, 0, 2], &node).await.unwrap();
    elsewhere.write_all(trunk().text().as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut elsewhere).await.status, 401);
    assert_eq!(warnings(&mesh), 2, "another source");
    assert!(!mesh.log("node-0").contains(&secret) && !mesh.log("balancer-0").contains(&secret));
}

#[tokio::test]
async fn bad_request_with_the_mesh_secret_is_answered() {
    let mesh = TestMesh::with(|options| options.nodes = 1).await;
    let authorized = |head: Head| head.with("Authorization", &format!("Bearer {}", mesh.secret()));
    let batch = |body: &str| {
        let head = Head::get(FORWARD).method("POST").with("Content-Length", &body.len().to_string());
        authorized(head).text() + body
    };
    let ask_node = async |request: String| ask(&node(&mesh), request).await;

    let answer = ask_node(authorized(Head::get(FORWARD)).text()).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(answer.error_code(), "method_not_allowed");
    let answer = ask_node(authorized(trunk().method("POST")).text()).await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")));
    let answer = ask_node(authorized(Head::get(TRUNK)).text()).await;
    assert_eq!((answer.status, answer.header("upgrade")), (426, Some("websocket")));
    let answer = ask_node(authorized(Head::upgrade(TRUNK)).text()).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (400, "unknown_trunk_version"));

    for body in ["", "garbage", "\u{7f}", "\u{1}", "\u{1}\u{7f}\u{7f}\u{7f}\u{7f}", "\u{1}\u{6}node-0"] {
        let answer = ask_node(batch(body)).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (400, "bad_batch"), "{body:.20?}");
    }
    let answer = too_large(&mesh).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (413, "too_large"));

    let mut junk = RawSocket::open(&node(&mesh), &authorized(trunk())).await;
    junk.send(&frame(BINARY, b"\xff no trunk frames")).await;
    assert!(signaling_integration_tests::http::ends(&mut junk.stream, Duration::from_secs(5)).await);
    Peer::connect(&mesh.url(), "alice").await.close().await;
}

#[tokio::test]
async fn node_without_view_refuses_trunks_batches_and_clients() {
    let mesh = TestMesh::with(|options| (options.nodes, options.notice) = (1, Duration::from_secs(600))).await;
    let state = mesh.mesh.state();
    let public = state.nodes[0].public.trim_start_matches("ws://").to_owned();
    let authorized = |head: Head| head.with("Authorization", &format!("Bearer {}", mesh.secret())).text();
    let batch = Head::get(FORWARD).method("POST").with("Content-Length", "0");
    let file = mesh.dir.path().join("nodes.json");
    let kept = file.with_extension("kept");
    std::fs::rename(&file, &kept).unwrap();
    mesh.kill_unnoticed("node-0").await;
    mesh.mesh.restart("node-0").await.unwrap();

    let clients = (public.clone(), Head::connect("alice").text());
    for (address, request) in [(node(&mesh), authorized(trunk())), (node(&mesh), authorized(batch)), clients] {
        let answer = ask(&address, &request).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (503, "no_view"), "{request}");
    }

    std::fs::rename(&kept, &file).unwrap();
    mesh.agrees().await;
    Peer::connect(&state.nodes[0].public, "alice").await.close().await;
    becomes(&mesh.balancer(), "signaling_usable_nodes", 1).await;
}

/// A batch one byte too long. The node may answer and close before it has it all.
async fn too_large(mesh: &TestMesh) -> Answer {
    let head = Head::get(FORWARD)
        .method("POST")
        .with("Authorization", &format!("Bearer {}", mesh.secret()))
        .with("Content-Length", &(MAX_BATCH_BYTES + 1).to_string());
    let mut stream = TcpStream::connect(node(mesh)).await.unwrap();
    stream.write_all(head.text().as_bytes()).await.unwrap();
    let _ = stream.write_all(&vec![1; MAX_BATCH_BYTES + 1]).await;
    read_answer(&mut stream).await
}

#[tokio::test]
async fn slow_batch_begun_before_a_pause_is_refused() {
    let mesh = TestMesh::with(|options| options.nodes = 1).await;
    let head = Head::get(FORWARD)
        .method("POST")
        .with("Authorization", &format!("Bearer {}", mesh.secret()))
        .with("Content-Length", "10");
    let mut stream = TcpStream::connect(node(&mesh)).await.unwrap();
    stream.write_all((head.text() + "begun").as_bytes()).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    mesh.mesh.pause("node-0").await.unwrap();
    sleep(limits::SUSPECT_AFTER + Duration::from_millis(500)).await;
    mesh.mesh.resume("node-0").await.unwrap();
    // Past the time in which the node refuses what it reads.
    sleep(Duration::from_millis(500)).await;
    stream.write_all(b"ended").await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (503, "paused"));
}

#[tokio::test]
async fn unknown_internal_path_is_refused() {
    let mesh = TestMesh::with(|options| options.nodes = 1).await;
    let state = mesh.mesh.state();
    let authorized = |head: Head| head.with("Authorization", &format!("Bearer {}", mesh.secret()));
    let public = [mesh.address(), state.nodes[0].public.trim_start_matches("ws://").to_owned()];
    for address in &public {
        let forward = Head::get(FORWARD).method("POST").with("Content-Length", "0");
        let plain = ["/livez", "/readyz", "/metrics", "/admin", "/admin/", "/internal"].map(Head::get);
        for head in plain.into_iter().chain([trunk(), forward]) {
            let answer = ask(address, authorized(head.clone()).text()).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (404, "not_found"), "{}", head.text());
        }
    }
    let internal = [node(&mesh), state.balancers[0].internal.trim_start_matches("http://").to_owned()];
    for address in &internal {
        for path in ["/", "/v1/connect?client_id=a", "/internal/v1/other", "/internal/v1/trunk/", "/metrics/x"] {
            let answer = ask(address, authorized(Head::upgrade(path)).text()).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (404, "not_found"), "{path}");
        }
    }
    assert_eq!(ask(&internal[1], authorized(trunk()).text()).await.status, 404, "a balancer takes no trunks");
}

#[tokio::test]
async fn admin_needs_its_token_and_health_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admin.token");
    std::fs::write(&file, "an-admin-token-of-ours\n").unwrap();
    let flag = format!("--admin-token-file={}", file.display());
    let mesh = TestMesh::with_flags_of_all(1, &[&flag]).await;
    let balancer = mesh.balancer().trim_start_matches("http://").to_owned();
    for (address, metric) in [(node(&mesh), "signaling_sessions"), (balancer.clone(), "signaling_client_sockets")] {
        let get = async |path: &str| ask(&address, Head::get(path).with("Connection", "close").text()).await;
        let (livez, readyz, page) = (get("/livez").await, get("/readyz").await, get("/metrics").await);
        assert_eq!((livez.status, livez.body.as_str()), (200, "ok\n"));
        assert_eq!((readyz.status, readyz.body.as_str()), (200, "ready\n"));
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
        for name in [metric, "process_open_fds", "process_resident_memory_bytes", REFUSED] {
            assert!(page.body.contains(&format!("\n# TYPE {name} ")), "{name} is not in {}", page.body);
        }
        for token in [None, Some("another-token-of-nobody"), Some(mesh.secret().as_str())] {
            let head = Head::get("/admin/anything");
            let head = token.map_or(head.clone(), |token| head.with("Authorization", &format!("Bearer {token}")));
            let answer = ask(&address, head.text()).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (401, "unauthorized"), "{token:?}");
        }
        let right = Head::get("/admin/anything").with("Authorization", "Bearer an-admin-token-of-ours");
        assert_eq!(ask(&address, right.text()).await.status, 404);
    }
    mesh.mesh.kill("node-0").await.unwrap();
    let unready = || async {
        let answer = ask(&balancer, Head::get("/readyz").with("Connection", "close").text()).await;
        (answer.status == 503).then_some(answer.body)
    };
    let why = eventually("a balancer without nodes to be unready", Duration::from_secs(5), unready).await;
    assert!(why.contains("node"), "{why}");
}

#[tokio::test]
async fn trunk_receives_kicks_and_earlier_ones_when_it_opens() {
    let mesh = TestMesh::with(|options| options.nodes = 1).await;
    let internal = mesh.node(0);
    let open = async || {
        let head = trunk().with("Authorization", &format!("Bearer {}", mesh.secret()));
        RawSocket::open(&node(&mesh), &head).await
    };
    let mut first = open().await;
    admin(&internal, "clients/mallory/kick").await;
    let told = first_frame(&mut first).await;
    assert!(told.starts_with("Kicked { client_id: \"mallory\", at: ") && told.ends_with("at_once: true }"), "{told}");

    let mut later = open().await;
    let told = first_frame(&mut later).await;
    assert!(told.starts_with("Kicked { client_id: \"mallory\", at: ") && told.ends_with("at_once: false }"), "{told}");
}

/// The first frame that a node sends on a trunk.
async fn first_frame(trunk: &mut RawSocket) -> String {
    loop {
        if let (BINARY, frames) = trunk.frame().await {
            return format!("{:?}", ToEdge::take(&mut &frames[..]).unwrap());
        }
    }
}

fn trunk() -> Head {
    Head::upgrade(TRUNK).with("Sec-WebSocket-Protocol", SUBPROTOCOL)
}

/// `HOST:PORT` of the first node's internal listener.
fn node(mesh: &TestMesh) -> String {
    mesh.node(0).trim_start_matches("http://").to_owned()
}

fn warnings(mesh: &TestMesh) -> usize {
    mesh.log("node-0").lines().filter(|line| line.contains("without the mesh secret")).count()
}
