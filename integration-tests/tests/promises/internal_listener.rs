//! A node's internal listener answers only servers of the mesh. No public listener serves its
//! routes.

use std::time::Duration;

use signaling_integration_tests::raw_socket::{BINARY, frame};
use signaling_integration_tests::{
    Answer, Head, Peer, RawSocket, TestMesh, admin, admin_token, ask, ask_on, becomes, connect, connect_from, ends,
    eventually, get, metric, read_answer,
};
use signaling_wire::limits;
use signaling_wire::trunk::{SUBPROTOCOL, ToEdge};
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

const TRUNK: &str = "/internal/v1/trunk";
const FORWARD: &str = "/internal/v1/forward";
const REFUSED: &str = "signaling_refused_internal_total";
const MAX_BATCH_BYTES: usize = 32 * 1024 * 1024;

#[tokio::test]
async fn internal_request_needs_the_mesh_secret() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    let node = mesh.node(0);
    let secret = mesh.secret();
    let mut tried = 0.0;
    for head in [trunk(), Head::post(FORWARD, 0), Head::get(TRUNK), Head::get(FORWARD)] {
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
            head.clone().offer(&format!("bearer.{secret}")),
        ] {
            let answer = ask(&node, &head).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (401, "unauthorized"), "{head}");
            tried += 1.0;
        }
    }
    assert_eq!(metric(&node, REFUSED, "").await, tried);
    assert_eq!(warnings(&mesh), 1, "{tried} requests of one source");

    let elsewhere = connect_from([127, 0, 0, 2], &node).await;
    let (answer, _) = ask_on(elsewhere, trunk().to_string().as_bytes()).await;
    assert_eq!(answer.status, 401);
    assert_eq!(warnings(&mesh), 2, "another source");
    assert!(!mesh.log("node-0").contains(&secret) && !mesh.log("balancer-0").contains(&secret));
}

#[tokio::test]
async fn bad_request_with_the_mesh_secret_is_answered() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    let authorized = |head: Head| head.bearer(&mesh.secret());
    let batch = |body: &str| authorized(Head::post(FORWARD, body.len())).to_string() + body;
    let node = mesh.node(0);

    for (head, status, (header, value), code) in [
        (Head::get(FORWARD), 405, ("allow", Some("POST")), "method_not_allowed"),
        (trunk().method("POST"), 405, ("allow", Some("GET")), "method_not_allowed"),
        (Head::get(TRUNK), 426, ("upgrade", Some("websocket")), "upgrade_required"),
        (Head::upgrade(TRUNK), 400, ("allow", None), "unknown_trunk_version"),
    ] {
        let answer = ask(&node, authorized(head)).await;
        assert_eq!((answer.status, answer.header(header), &*answer.error_code()), (status, value, code));
    }
    for body in ["", "garbage", "\u{7f}", "\u{1}", "\u{1}\u{7f}\u{7f}\u{7f}\u{7f}", "\u{1}\u{6}node-0"] {
        let answer = ask(&node, batch(body)).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (400, "bad_batch"), "{body:.20?}");
    }
    let answer = too_large(&mesh).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (413, "too_large"));

    let mut junk = RawSocket::open(&mesh.node(0), &authorized(trunk())).await;
    junk.send(&frame(BINARY, b"\xff no trunk frames")).await;
    assert!(ends(&mut junk.stream, Duration::from_secs(5)).await);
    mesh.peer("alice").await.close().await;
}

#[tokio::test]
async fn node_without_view_refuses_trunks_batches_and_clients() {
    let mesh = TestMesh::with(|options| (options.nodes, options.notice) = (1, Duration::from_secs(600))).await;
    let state = mesh.state();
    let authorized = |head: Head| head.bearer(&mesh.secret()).to_string();
    let batch = Head::post(FORWARD, 0);
    let file = mesh.dir.path().join("nodes.json");
    let kept = file.with_extension("kept");
    std::fs::rename(&file, &kept).unwrap();
    mesh.kill_unnoticed("node-0").await;
    mesh.restart("node-0").await.unwrap();

    let clients = (state.nodes[0].public.clone(), Head::connect("alice").to_string());
    for (address, request) in [(mesh.node(0), authorized(trunk())), (mesh.node(0), authorized(batch)), clients] {
        let answer = ask(&address, &request).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (503, "no_view"), "{request}");
    }

    std::fs::rename(&kept, &file).unwrap();
    mesh.agrees().await;
    Peer::connect(&state.nodes[0].public, "alice").await.close().await;
    becomes(&mesh.balancer(), "signaling_usable_nodes", 1).await;
}

/// Sends a batch one byte too long. The node may answer and close before it has received all.
async fn too_large(mesh: &TestMesh) -> Answer {
    let head = Head::post(FORWARD, MAX_BATCH_BYTES + 1).bearer(&mesh.secret());
    let mut stream = connect(&mesh.node(0)).await;
    stream.write_all(head.to_string().as_bytes()).await.unwrap();
    let _ = stream.write_all(&vec![1; MAX_BATCH_BYTES + 1]).await;
    read_answer(&mut stream).await
}

#[tokio::test]
async fn slow_batch_begun_before_a_pause_is_refused() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    let head = Head::post(FORWARD, 10).bearer(&mesh.secret());
    let mut stream = connect(&mesh.node(0)).await;
    stream.write_all((head.to_string() + "begun").as_bytes()).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    mesh.pause("node-0").await.unwrap();
    sleep(limits::SUSPECT_AFTER + Duration::from_millis(500)).await;
    mesh.resume("node-0").await.unwrap();
    // Longer than the node refuses input after a pause.
    sleep(Duration::from_millis(500)).await;
    stream.write_all(b"ended").await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert_eq!((answer.status, answer.error_code().as_str()), (503, "paused"));
}

#[tokio::test]
async fn unknown_internal_path_is_refused() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    for address in [mesh.node(0), mesh.balancer()] {
        for path in ["/", "/v1/connect?client_id=a", "/internal/v1/other", "/internal/v1/trunk/", "/metrics/x"] {
            let answer = ask(&address, Head::upgrade(path).bearer(&mesh.secret())).await;
            assert_eq!((answer.status, answer.error_code().as_str()), (404, "not_found"), "{path}");
        }
    }
    for head in [trunk(), Head::get("/internal/v1/admin/drain")] {
        let answer = ask(&mesh.balancer(), head.bearer(&mesh.secret())).await;
        assert_eq!(answer.status, 404, "only nodes serve it");
    }
}

#[tokio::test]
async fn admin_needs_its_token_and_health_does_not() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    let (balancer, secret) = (mesh.balancer(), mesh.secret());
    for (address, metric) in [(mesh.node(0), "signaling_sessions"), (balancer.clone(), "signaling_client_sockets")] {
        let (livez, readyz) = (get(&address, "/livez").await, get(&address, "/readyz").await);
        assert_eq!((livez.status, livez.body.as_str()), (200, "ok\n"));
        assert_eq!((readyz.status, readyz.body.as_str()), (200, "ready\n"));
        let page = get(&address, "/metrics").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
        for name in [metric, "process_open_fds", "process_resident_memory_bytes", REFUSED] {
            assert!(page.body.contains(&format!("\n# TYPE {name} ")), "{name} is not in {}", page.body);
        }
        let token = admin_token(&address).unwrap();
        let (admin, mesh) = (Some(&*token), Some(&*secret));
        for (path, shown, status) in [
            ("/dashboard", None, 200),
            ("/admin/nodes", None, 401),
            ("/admin/nodes", Some("another-token-of-no-server"), 401),
            ("/admin/nodes", mesh, 401),
            ("/admin/nodes", admin, 200),
            ("/admin/anything", None, 401),
            ("/admin/anything", mesh, 401),
            ("/admin/anything", admin, 404),
            ("/internal/v1/admin/server", None, 401),
            ("/internal/v1/admin/server", admin, 401),
            ("/internal/v1/admin/server", mesh, 200),
        ] {
            let head = Head::get(path).with("Connection", "close");
            let head = shown.map_or(head.clone(), |token| head.bearer(token));
            let answer = ask(&address, head).await;
            assert_eq!(answer.status, status, "{path} {shown:?} at {address}");
            assert!(status != 401 || answer.error_code() == "unauthorized", "{path} {shown:?}: {answer:?}");
        }
    }
    mesh.kill("node-0").await.unwrap();
    let unready = async || {
        let answer = get(&balancer, "/readyz").await;
        (answer.status == 503).then_some(answer.body)
    };
    let why = eventually("a balancer without nodes to be unready", unready).await;
    assert!(why.contains("node"), "{why}");
}

#[tokio::test]
async fn trunk_receives_kicks_and_earlier_ones_when_it_opens() {
    let mesh = TestMesh::with_flags(1, &[]).await;
    let internal = mesh.node(0);
    let open = async || RawSocket::open(&internal, &trunk().bearer(&mesh.secret())).await;
    let mut first = open().await;
    admin(&internal, "clients/mallory/kick").await;
    let told = first_frame(&mut first).await;
    assert!(told.starts_with("Kicked { client_id: \"mallory\", at: ") && told.ends_with("at_once: true }"), "{told}");

    let mut later = open().await;
    let told = first_frame(&mut later).await;
    assert!(told.starts_with("Kicked { client_id: \"mallory\", at: ") && told.ends_with("at_once: false }"), "{told}");
}

async fn first_frame(trunk: &mut RawSocket) -> String {
    loop {
        if let (BINARY, frames) = trunk.frame().await {
            return format!("{:?}", ToEdge::take(&mut &frames[..]).unwrap());
        }
    }
}

fn trunk() -> Head {
    Head::upgrade(TRUNK).offer(SUBPROTOCOL)
}

fn warnings(mesh: &TestMesh) -> usize {
    mesh.log("node-0").lines().filter(|line| line.contains("without the mesh secret")).count()
}
