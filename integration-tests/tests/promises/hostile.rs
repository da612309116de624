//! Attacks on the public listener: odd paths, hidden requests, forged addresses. Each gets its
//! documented answer, increments its metric, and affects no other client.

use std::iter;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use signaling_integration_tests::raw_socket::{TEXT, frame};
use signaling_integration_tests::{
    Head, OtherServer, RawSocket, TestMesh, admin_token, ask, ask_to_the_end, becomes, connect, ends, exchange, metric,
    refused,
};
use signaling_server::proofs::Purpose;
use signaling_wire::trunk::SUBPROTOCOL;
use tokio::io::AsyncWriteExt as _;

/// Files that pages of any origin may load.
const SDK: [&str; 2] = ["signaling-mesh.js", "signaling-mesh.mjs"];

/// Paths that an attacker may try beside the root.
const NAMES: &str = "\
    admin admin/drain admin/rooms admin/undrain api app.js buttons camera.js client.js config \
    connect control debug debug/pprof demo demo/kill demo/mesh demo/scale env explain.js \
    favicon.ico graphql health healthz icon.svg identity.js index.html internal internal/v1 \
    internal/v1/lane internal/v1/trunk livez login mesh mesh.js mesh.json mesh.secret \
    metrics nodes pattern.js peer.js ping readyz robots.txt room.js rooms server-status signaling-mesh.js signaling-mesh.mjs state \
    static status style.css tiles.js trunk v1 v1/connect v1/rooms v2/connect version view.js \
    ws .env .git/config .well-known/security.txt";

/// Files of the demo page beside the root.
const DEMO: &str = "app.js camera.js explain.js icon.svg identity.js mesh.js pattern.js style.css tiles.js view.js";

/// Requests each path by each method. Only these files exist, and with buttons their address.
/// Returns the number of refused requests.
async fn probe(address: &str, files: &[&str], has_buttons: bool) -> usize {
    let mut refusals = 0;
    for name in iter::once("").chain(NAMES.split(' ')) {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            let request = Head::post(&format!("/{name}")).method(method).with("Connection", "close").to_string();
            let (answer, is_clean) = ask_to_the_end(connect(address).await, request.as_bytes()).await;
            let status = str::from_utf8(&answer[9..12]).unwrap();
            assert!(is_clean, "{method} /{name} at {address}");
            let expected = match (name, method) {
                // A WebSocket address requires an upgrade.
                ("v1/connect", "GET" | "HEAD") => "426",
                ("v1/connect", _) => "405",
                // Only the page may use the buttons.
                ("demo/mesh", "POST") if has_buttons => "403",
                ("demo/mesh", _) if has_buttons => "405",
                (name, "GET" | "HEAD") if files.contains(&name) => "200",
                (name, _) if files.contains(&name) => "405",
                _ => "404",
            };
            assert_eq!(status, expected, "{method} /{name} at {address}");
            refusals += usize::from(expected != "200");
        }
    }
    refusals
}

#[tokio::test]
async fn public_listeners_serve_documented_paths_only() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    let state = mesh.state();
    let (balancer, node) = (&state.balancers[0], &state.nodes[0]);
    for (url, internal, files) in [(&balancer.url, &balancer.internal, &SDK[..]), (&node.url, &node.internal, &[])] {
        let refusals = probe(url, files, false).await;
        becomes(internal, "signaling_refused_connects_total", refusals).await;
    }
}

#[tokio::test]
async fn demo_buttons_refuse_requests_of_other_origins() {
    let mesh = TestMesh::with_servers((1, 1), &[], &["--demo"]).await;
    let files: Vec<_> = iter::once("").chain(SDK).chain(DEMO.split(' ')).collect();
    let refusals = probe(&mesh.address(), &files, true).await;
    becomes(&mesh.balancer_internal(), "signaling_refused_connects_total", refusals).await;
    // A page of another origin gets no permission, and a forged request is refused.
    let foreign = |method: &str| Head::get("/demo/mesh").method(method).with("Origin", "https://evil.example");
    let asks = foreign("OPTIONS").with("Access-Control-Request-Method", "POST");
    let asks = asks.with("Access-Control-Request-Headers", "x-signaling-demo");
    let presses = foreign("POST").with("X-Signaling-Demo", "1").with("Content-Length", "0");
    for (head, status) in [(asks, 405), (presses, 403)] {
        let answer = ask(&mesh.address(), head.with("Connection", "close")).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.header("access-control-allow-origin").is_none(), "{answer:?}");
    }
}

/// The attacker has the mesh secret, and reaches only the public listeners.
#[tokio::test]
async fn public_listener_refuses_internal_requests_with_secrets() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    let state = mesh.state();
    let (balancer, node) = (&state.balancers[0], &state.nodes[0]);
    let trunk = Head::upgrade("/internal/v1/trunk").offer(SUBPROTOCOL);
    let trunk = OtherServer::of(&mesh, "balancer-9").prove_to_node(&mesh, Purpose::Trunk, &trunk).await;
    for bearer in [mesh.secret(), admin_token(&node.internal).unwrap()] {
        let asks =
            |path: &str, method: &str| Head::post(path).method(method).with("Connection", "close").bearer(&bearer);
        let mut heads = vec![trunk.clone(), Head::upgrade("/v1/connect/../../internal/v1/trunk").bearer(&bearer)];
        let paths =
            "/internal/v1/admin/clients?here=true /admin/clients /metrics /readyz /livez /admin /admin/ /internal";
        heads.extend(paths.split(' ').map(|path| asks(path, "GET")));
        let paths = "/internal/v1/lane /internal/v1/admin/clients/alice/kick?here=true /admin/clients/alice/kick \
            /admin/drain";
        heads.extend(paths.split(' ').map(|path| asks(path, "POST")));
        for address in [&balancer.url, &node.url] {
            for head in &heads {
                refused(address, head, (404, "not_found")).await;
            }
        }
        // The internal listener accepts the same request.
        let (head, status) =
            if bearer == mesh.secret() { (trunk.clone(), 101) } else { (asks("/admin/clients", "GET"), 200) };
        assert_eq!(ask(&node.internal, head).await.status, status);
    }
}

#[tokio::test]
async fn bytes_behind_a_request_are_no_second_request() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    let second = Head::get("/signaling-mesh.mjs").to_string();
    let hidden = format!("POST /internal/v1/lane HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n{second}");
    let sent = async |text: String| ask_to_the_end(connect(&mesh.url()).await, text.as_bytes()).await;
    let answers = |received: &[u8]| String::from_utf8_lossy(received).matches("HTTP/1.1").count();
    // A refusal ends its connection.
    for first in [
        Head::connect("a%20b"),
        Head::upgrade("/nothing"),
        Head::connect("a").replace("Upgrade", "h2c"),
        Head::connect("a").with("Content-Length", &hidden.len().to_string()),
        Head::connect("a").with("Transfer-Encoding", "chunked"),
    ] {
        assert_eq!(answers(&sent(format!("{first}{hidden}")).await.0), 1, "{first}");
    }
    // After an upgrade it is no frame, and reaches no node.
    let mut socket = RawSocket::open(&mesh.url(), &Head::connect("eve")).await;
    socket.send(hidden.as_bytes()).await;
    assert_eq!(socket.closed().await.0, 1002);
    // Bare line feeds end the lines of a single request (RFC 9112 section 2.2).
    let upgrade = Head::connect("eve").to_string() + &hidden;
    for request in [upgrade.replace("\r\n", "\n"), upgrade] {
        let (received, is_clean) = sent(request).await;
        assert!(is_clean && received.starts_with(b"HTTP/1.1 101") && answers(&received) == 1, "{received:?}");
    }
}

/// A line break in JSON and in a query.
const BREAK: (&str, &str) = ("\\r\\nInjected: yes", "%0d%0aInjected:%20yes");

#[tokio::test]
async fn line_breaks_get_into_no_answer_and_no_log() {
    let mesh = TestMesh::with_servers((2, 1), &[], &["--log=debug"]).await;
    let (json, query) = BREAK;
    for target in [
        format!("/v1/connect?client_id=a{query}"),
        format!("/v1/connect?client_id=a%20&token=t{query}&resume=r{query}&x=y{query}"),
        format!("/v1/connect?client_id=a&reliable=1{query}"),
        format!("/v1/connect{query}?client_id=a"),
    ] {
        let answer = ask(&mesh.address(), Head::upgrade(&target)).await;
        assert!([400, 404].contains(&answer.status) && answer.header("injected").is_none(), "{target}: {answer:?}");
        assert!(!answer.body.contains(char::is_control), "{target}: {answer:?}");
    }
    let mut alice = RawSocket::connect(&mesh.address(), "alice").await;
    for text in [
        format!(r#"{{"type":"signal{json}","id":1}}"#),
        format!(r#"{{"type":"signal","to":"bob{json}","data":1,"id":1}}"#),
        format!(r#"{{"type":"join","room":"den{json}","id":1}}"#),
        format!(r#"{{"type":"leave","room":"den{json}","id":1}}"#),
        format!(r#"{{"type":"broadcast","room":"den{json}","data":1,"id":1}}"#),
        format!(r#"{{"type":"members","room":"den{json}"}}"#),
        format!(r#"{{"type":"members","room":"den","after":"bob{json}"}}"#),
        r#"{"type":"join","room":"den","room":"other","id":1}"#.to_owned(),
        r#"{"type":"leave","room":"den","id":1,"id":2}"#.to_owned(),
        r#"{"type":"signal","to":"bob","data":1,"ttl_ms":1,"ttl_ms":2}"#.to_owned(),
        "{\"type\":\"join\",\"room\":\"den\r\n\",\"id\":1}".to_owned(),
    ] {
        alice.send(&frame(TEXT, text.as_bytes())).await;
        let (_, answer) = alice.frame().await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(r#"{"type":"error","code":"bad_message""#), "{text}: {answer}");
        assert!(!answer.contains(char::is_control), "{text}: {answer:?}");
    }
    let large = format!(r#"{{"type":"join","room":"den","data":"{}","id":1}}"#, "x".repeat(5_000));
    alice.send(&frame(TEXT, large.as_bytes())).await;
    assert_eq!(alice.message().await["code"], "too_large");

    // Escapes are the log's own colours.
    let is_odd = |c: char| c.is_control() && c != '\u{1b}';
    let logs = mesh.logs();
    let broken = logs.split('\n').find(|line| line.starts_with("Injected") || line.contains(is_odd));
    assert_eq!(broken, None);
}

#[tokio::test]
async fn deeply_nested_data_is_delivered_unchanged() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    let mut alice = RawSocket::connect(&mesh.address(), "alice").await;
    let mut bob = RawSocket::connect(&mesh.address(), "bob").await;
    for depth in [100, 1_000, 30_000] {
        let data = "[".repeat(depth) + &"]".repeat(depth);
        let text = format!(r#"{{"type":"signal","to":"bob","data":{data},"id":1}}"#);
        alice.send(&frame(TEXT, text.as_bytes())).await;
        let (_, payload) = bob.frame().await;
        assert!(String::from_utf8(payload).unwrap().contains(&data), "{depth} deep");
        assert_eq!(alice.message().await["type"], "ack");
    }
}

#[tokio::test]
async fn oldest_silent_connection_is_closed_for_a_new_one() {
    let mesh = TestMesh::with_servers((2, 1), &[], &["--max-handshakes=3"]).await;
    let before = mesh.refused_connects("handshakes").await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(connect(&mesh.url()).await);
    }
    for (n, stream) in silent.iter_mut().enumerate() {
        assert_eq!(ends(stream, Duration::from_millis(if n < 2 { 2_000 } else { 50 })).await, n < 2, "the oldest two");
    }
    assert_eq!(mesh.refused_connects("handshakes").await, before + 2.0);
    // Connections with a request do not count.
    let peers = [mesh.peer("alice").await, mesh.peer("bob").await];
    for _ in 0..5 {
        silent.push(connect(&mesh.url()).await);
    }
    mesh.peer("carol").await.close().await;
    for peer in peers {
        peer.close().await;
    }
}

/// One address keeps more connections open than the balancer has descriptors.
#[tokio::test]
async fn idle_connections_leave_descriptors_for_the_mesh() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = TestMesh::with_options(|options| {
        options.nodes = 1;
        options.balancer_args = vec!["--handshake-ms=60000".to_owned()];
        let (real, limited) = (options.binaries.balancer.clone(), dir.path().join("balancer"));
        std::fs::write(&limited, format!("#!/bin/sh\nulimit -n 300\nexec '{}' \"$@\"\n", real.display())).unwrap();
        std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o755)).unwrap();
        options.binaries.balancer = limited;
    })
    .await;
    let preflight = Head::get("/v1/connect").method("OPTIONS").with("Origin", "https://a.example");
    let preflight = preflight.with("Access-Control-Request-Method", "GET").to_string();
    let mut kept = Vec::new();
    for n in 0..800 {
        let mut stream = connect(&mesh.url()).await;
        if n % 2 == 0 {
            stream.write_all(preflight.as_bytes()).await.unwrap();
        }
        kept.push(stream);
    }
    let mut alice = mesh.peer("alice").await;
    mesh.scale(2).await.unwrap();
    mesh.until_views_agree().await;
    let internal = mesh.balancer_internal();
    assert_eq!(metric(&internal, "signaling_accept_errors_total", "").await, 0.0);
    let mut bob = mesh.peer("bob").await;
    exchange((&mut alice, &mut bob), &serde_json::json!("hello"), 1).await;
}
