//! Attacks on the public listener: odd paths, hidden requests, forged addresses. Each gets its
//! documented answer, increments its metric, and affects no other client.

use std::iter;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use signaling_integration_tests::raw_socket::{TEXT, frame};
use signaling_integration_tests::{
    Head, Peer, RawSocket, TestMesh, ask, ask_to_the_end, becomes, ends, metric, read_answer,
};
use signaling_wire::trunk::SUBPROTOCOL;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// What pages of any origin may load.
const SDK: [&str; 3] = ["client.js", "peer.js", "room.js"];

async fn refused(mesh: &TestMesh, reason: &str) -> f64 {
    metric(&mesh.balancer(), "signaling_refused_connects_total", reason).await
}

/// A request line, and the answer to it: a status and the code in the body, if it has one.
fn odd_targets() -> Vec<(String, u16, &'static str)> {
    let target = |target: &str| Head::upgrade(target).text();
    let line = |line: &str| format!("{line}\r\n{}", Head::upgrade("/").text().split_once("\r\n").unwrap().1);
    let absent = "//v1/connect? /v1//connect? /v1/../v1/connect? /./v1/connect? /v1/connect/? /v1/connect/..? \
        /v1/connect%2f? /v1%2fconnect? /%76%31/connect? /V1/CONNECT? /v1/connect;x? /v1/connect%00? /v1\\connect? \
        /internal/v1/trunk? /v1/connect/../../internal/v1/trunk? /..%2finternal%2fv1%2ftrunk? /../../../../etc/passwd?";
    let absent = absent.split(' ').map(|path| target(&format!("{path}client_id=a")));
    let mut odd: Vec<_> = absent.map(|request| (request, 404, "not_found")).collect();
    odd.extend([
        (line("OPTIONS * HTTP/1.1"), 404, "not_found"),
        (line("CONNECT 127.0.0.1:6379 HTTP/1.1"), 404, "not_found"),
        (line("GET http://127.0.0.1/internal/v1/trunk HTTP/1.1"), 404, "not_found"),
        (line("GET http://127.0.0.1/v1/connect/../../metrics HTTP/1.1"), 404, "not_found"),
        (line("OPTIONS /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        (line("TRACE /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        (line("get /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        (line("GET /v1/connect?client_id=a HTTP/9.9"), 400, ""),
        (line("GET /v1/connect?client_id=a b HTTP/1.1"), 400, ""),
        (line("GET v1/connect?client_id=a HTTP/1.1"), 400, ""),
        (line("GET  /v1/connect?client_id=a HTTP/1.1"), 400, ""),
        (target("/v1/connect?client_id=a%0d%0aSet-Cookie:x"), 400, "bad_client_id"),
        (target("/v1/connect?client_id=%c0%af"), 400, "bad_query"),
        (target(&format!("/v1/connect?client_id=a&x={}", "y".repeat(17_000))), 431, ""),
    ]);
    odd
}

#[tokio::test]
async fn odd_target_is_refused_and_counted() {
    let mesh = TestMesh::with_flags(2, &[]).await;
    let mut expected = 0;
    for (request, status, code) in odd_targets() {
        let answer = ask(&mesh.address(), &request).await;
        let shown = request.chars().take(80).collect::<String>();
        assert_eq!(answer.status, status, "{shown:?}: {answer:?}");
        if code.is_empty() {
            assert_eq!(answer.body, "", "{shown:?}");
        } else {
            assert_eq!(answer.error_code(), code, "{shown:?}: {answer:?}");
        }
        assert!(answer.header("set-cookie").is_none() && answer.header("access-control-allow-origin").is_none());
        expected += 1;
    }
    becomes(&mesh.balancer(), "signaling_refused_connects_total", expected).await;
    assert_eq!(metric(&mesh.balancer(), "signaling_client_sockets_opened_total", "").await, 0.0);
}

/// What an outsider may look for beside the root.
const NAMES: &str = "\
    admin admin/drain admin/rooms admin/undrain api app.js buttons camera.js client.js config \
    connect control debug debug/pprof demo demo/kill demo/mesh demo/scale env explain.js \
    favicon.ico graphql health healthz icon.svg identity.js index.html internal internal/v1 \
    internal/v1/forward internal/v1/trunk livez login mesh mesh.js mesh.json mesh.secret \
    metrics nodes pattern.js peer.js ping readyz robots.txt room.js rooms server-status state \
    static status style.css tiles.js trunk v1 v1/connect v1/rooms v2/connect version view.js \
    ws .env .git/config .well-known/security.txt";

/// What pages of the demo are made of, beside the root.
const DEMO: &str = "app.js camera.js explain.js icon.svg identity.js mesh.js pattern.js style.css tiles.js view.js";

/// Looks for each of them by each method: there are these files alone, and the address of buttons
/// where there are any. Returns how many requests were refused.
async fn look_round(address: &str, files: &[&str], has_buttons: bool) -> usize {
    let mut refused = 0;
    for name in iter::once("").chain(NAMES.split(' ')) {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            let request = Head::get(&format!("/{name}")).method(method).with("Content-Length", "0");
            let request = request.with("Connection", "close").text();
            let stream = TcpStream::connect(address).await.unwrap();
            let (answer, in_order) = ask_to_the_end(stream, request.as_bytes()).await;
            let status = &answer[9..12];
            assert!(in_order, "{answer}");
            let expected = match (name, method) {
                // It is a WebSocket address: one has to ask for that.
                ("v1/connect", "GET") => "400",
                ("v1/connect", _) => "405",
                // They are for the page alone.
                ("demo/mesh", "POST") if has_buttons => "403",
                ("demo/mesh", _) if has_buttons => "405",
                (name, "GET" | "HEAD") if files.contains(&name) => "200",
                (name, _) if files.contains(&name) => "405",
                _ => "404",
            };
            assert_eq!(status, expected, "{method} /{name} at {address}");
            refused += usize::from(expected != "200");
        }
    }
    refused
}

/// All that an outsider finds, on whichever listener is public.
#[tokio::test]
async fn public_listeners_serve_documented_paths_only() {
    let mesh = TestMesh::with_flags(2, &[]).await;
    let state = mesh.mesh.state();
    let (balancer, node) = (&state.balancers[0], &state.nodes[0]);
    for (url, internal, files) in [(&balancer.url, &balancer.internal, &SDK[..]), (&node.public, &node.internal, &[])] {
        let refused = look_round(url.trim_start_matches("ws://"), files, false).await;
        becomes(internal, "signaling_refused_connects_total", refused).await;
    }
}

#[tokio::test]
async fn demo_buttons_refuse_requests_of_other_origins() {
    let mesh = TestMesh::with_flags(1, &["--demo"]).await;
    let files: Vec<_> = iter::once("").chain(SDK).chain(DEMO.split(' ')).collect();
    let refused = look_round(&mesh.address(), &files, true).await;
    becomes(&mesh.balancer(), "signaling_refused_connects_total", refused).await;
    // A page of another origin would have to be allowed to ask, and is not believed.
    let foreign = |method: &str| Head::get("/demo/mesh").method(method).with("Origin", "https://evil.example");
    let asks = foreign("OPTIONS").with("Access-Control-Request-Method", "POST");
    let asks = asks.with("Access-Control-Request-Headers", "x-signaling-demo");
    let presses = foreign("POST").with("X-Signaling-Demo", "1").with("Content-Length", "0");
    for (head, status) in [(asks, 405), (presses, 403)] {
        let answer = ask(&mesh.address(), head.with("Connection", "close").text()).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.header("access-control-allow-origin").is_none(), "{answer:?}");
    }
}

/// The attacker has the mesh secret, and reaches only the public listeners.
#[tokio::test]
async fn public_listener_refuses_internal_requests_with_secrets() {
    let admin = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(admin.path(), "the-token-of-the-admin").unwrap();
    let mesh = TestMesh::with(|options| {
        options.nodes = 2;
        for flags in [&mut options.node_args, &mut options.balancer_args] {
            flags.push(format!("--admin-token-file={}", admin.path().display()));
        }
    })
    .await;
    let state = mesh.mesh.state();
    let at = |url: &str| url.split_once("://").unwrap().1.to_owned();
    let (balancer, node) = (&state.balancers[0], &state.nodes[0]);
    for bearer in [mesh.secret(), "the-token-of-the-admin".to_owned()] {
        let knows = |head: Head| head.with("Authorization", &format!("Bearer {bearer}"));
        let asks = |path: &str, method: &str| {
            knows(Head::get(path).method(method).with("Content-Length", "0").with("Connection", "close"))
        };
        let trunk = knows(Head::upgrade("/internal/v1/trunk").with("Sec-WebSocket-Protocol", SUBPROTOCOL));
        let mut heads = vec![trunk.clone(), knows(Head::upgrade("/v1/connect/../../internal/v1/trunk"))];
        heads.extend(
            [
                ("/internal/v1/forward", "POST"),
                ("/internal/v1/admin/clients?here=true", "GET"),
                ("/internal/v1/admin/clients/alice/kick?here=true", "POST"),
                ("/admin/clients/alice/kick", "POST"),
                ("/admin/clients", "GET"),
                ("/admin/drain", "POST"),
                ("/metrics", "GET"),
                ("/readyz", "GET"),
            ]
            .map(|(path, method)| asks(path, method)),
        );
        for address in [at(&balancer.url), at(&node.public)] {
            for head in &heads {
                let answer = ask(&address, head.text()).await;
                let refusal = (answer.status, answer.error_code());
                assert_eq!(refusal, (404, "not_found".to_owned()), "{}: {answer:?}", head.text());
            }
        }
        // The same opens what it is meant for: so it is the listener that refuses.
        let answer = if bearer == mesh.secret() {
            let mut stream = TcpStream::connect(at(&node.internal)).await.unwrap();
            stream.write_all(trunk.text().as_bytes()).await.unwrap();
            read_answer(&mut stream).await.status
        } else {
            ask(&at(&node.internal), asks("/admin/clients", "GET").text()).await.status
        };
        assert_eq!(answer, if bearer == mesh.secret() { 101 } else { 200 });
    }
}

#[tokio::test]
async fn bytes_behind_a_request_are_no_second_request() {
    let mesh = TestMesh::with_flags(2, &[]).await;
    let second = Head::get("/client.js").text();
    let hidden = format!("POST /internal/v1/forward HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n{second}");
    // Behind a refusal: the connection ends with it.
    for first in [
        Head::connect("a%20b"),
        Head::upgrade("/nothing"),
        Head::connect("a").replace("Upgrade", "h2c"),
        Head::connect("a").with("Content-Length", &hidden.len().to_string()),
        Head::connect("a").with("Transfer-Encoding", "chunked"),
    ] {
        let stream = TcpStream::connect(mesh.address()).await.unwrap();
        let (text, _) = ask_to_the_end(stream, (first.text() + &hidden).as_bytes()).await;
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    }
    // Behind an upgrade: it is no frame, and no node sees it.
    let mut socket = RawSocket::open(&mesh.address(), &Head::connect("eve")).await;
    socket.send(hidden.as_bytes()).await;
    assert_eq!(socket.closed().await.0, 1002);
    // Bare line feeds end the lines of a single request (RFC 9112 section 2.2).
    let lines = Head::connect("lines").text().replace("\r\n", "\n") + &hidden.replace("\r\n", "\n");
    for upgrade in [Head::connect("eve").text() + &hidden, lines] {
        let stream = TcpStream::connect(mesh.address()).await.unwrap();
        let (text, in_order) = ask_to_the_end(stream, upgrade.as_bytes()).await;
        assert!(in_order && text.starts_with("HTTP/1.1 101") && text.matches("HTTP/1.1").count() == 1, "{text}");
    }
    // What is sent before the answer, and is lawful, waits for it.
    let mut stream = TcpStream::connect(mesh.address()).await.unwrap();
    let early = [Head::connect("early").text().as_bytes(), &frame(TEXT, br#"{"type":"ping"}"#)].concat();
    stream.write_all(&early).await.unwrap();
    let mut socket = RawSocket { answer: read_answer(&mut stream).await, stream };
    assert_eq!(socket.message().await["type"], "welcome");
    assert_eq!(socket.message().await["type"], "pong");
}

/// As JSON and as a query may have it.
const BREAK: (&str, &str) = ("\\r\\nInjected: yes", "%0d%0aInjected:%20yes");

#[tokio::test]
async fn line_breaks_get_into_no_answer_and_no_log() {
    let mesh = TestMesh::with_flags(2, &["--log=debug"]).await;
    let (json, query) = BREAK;
    for target in [
        format!("/v1/connect?client_id=a{query}"),
        format!("/v1/connect?client_id=a%20&token=t{query}&resume=r{query}&x=y{query}"),
        format!("/v1/connect?client_id=a&reliable=1{query}"),
        format!("/v1/connect{query}?client_id=a"),
    ] {
        let answer = ask(&mesh.address(), Head::upgrade(&target).text()).await;
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

    for log in std::fs::read_dir(mesh.dir.path().join("logs")).unwrap() {
        let text = std::fs::read_to_string(log.unwrap().path()).unwrap();
        // Escapes are the log's own colours.
        let is_odd = |c: char| c.is_control() && c != '\u{1b}';
        let broken = text.split('\n').find(|line| line.starts_with("Injected") || line.contains(is_odd));
        assert_eq!(broken, None);
    }
}

#[tokio::test]
async fn deeply_nested_data_is_delivered_unchanged() {
    let mesh = TestMesh::with_flags(2, &[]).await;
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
    let mesh = TestMesh::with_flags(2, &["--max-handshakes=3"]).await;
    let before = refused(&mesh, "handshakes").await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(mesh.address()).await.unwrap());
    }
    for (n, stream) in silent.iter_mut().enumerate() {
        assert_eq!(ends(stream, Duration::from_millis(if n < 2 { 2_000 } else { 50 })).await, n < 2, "the oldest two");
    }
    assert_eq!(refused(&mesh, "handshakes").await, before + 2.0);
    // Who asks is none of them any more, however many there are.
    let peers = [Peer::connect(&mesh.url(), "alice").await, Peer::connect(&mesh.url(), "bob").await];
    for _ in 0..5 {
        silent.push(TcpStream::connect(mesh.address()).await.unwrap());
    }
    Peer::connect(&mesh.url(), "carol").await.close().await;
    for peer in peers {
        peer.close().await;
    }
}

/// One address has more connections than the balancer has descriptors, and keeps them.
#[tokio::test]
async fn idle_connections_leave_descriptors_for_the_mesh() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = TestMesh::with(|options| {
        options.nodes = 1;
        options.balancer_args = vec!["--handshake-ms=60000".to_owned()];
        let (real, limited) = (options.binaries.balancer.clone(), dir.path().join("balancer"));
        std::fs::write(&limited, format!("#!/bin/sh\nulimit -n 300\nexec '{}' \"$@\"\n", real.display())).unwrap();
        std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o755)).unwrap();
        options.binaries.balancer = limited;
    })
    .await;
    let preflight = Head::get("/v1/connect").method("OPTIONS").with("Origin", "https://a.example");
    let preflight = preflight.with("Access-Control-Request-Method", "GET").text();
    let mut kept = Vec::new();
    for n in 0..800 {
        let mut stream = TcpStream::connect(mesh.address()).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(preflight.as_bytes()).await.unwrap();
        }
        kept.push(stream);
    }
    let mut alice = Peer::connect(&mesh.url(), "alice").await;
    mesh.mesh.scale(2).await.unwrap();
    mesh.agrees().await;
    let internal = mesh.balancer();
    assert_eq!(metric(&internal, "signaling_accept_errors_total", "").await, 0.0);
    let mut bob = Peer::connect(&mesh.url(), "bob").await;
    alice.signal("bob", serde_json::json!("hello"), Some(1)).await;
    assert_eq!(bob.recv().await["data"], "hello");
}
