//! A refused client gets the reason by status, body and headers, or by a close code where a page
//! could not see them. Each refusal is counted.

use std::time::{Duration, Instant};

use serde_json::json;
use signaling_integration_tests::raw_socket::PING;
use signaling_integration_tests::{
    Answer, Head, Peer, RawSocket, Signer, TestMesh, ask, ask_on, becomes, claims, connect, connect_from, during,
    eventually, metric, refused, until, until_some, within,
};

struct Case {
    what: &'static str,
    request: String,
    status: u16,
    code: &'static str,
    header: Option<(&'static str, &'static str)>,
}

fn case(what: &'static str, request: &impl ToString, status: u16, code: &'static str) -> Case {
    Case { what, request: request.to_string(), status, code, header: None }
}

fn bad_queries() -> Vec<Case> {
    let id = |id: &str| Head::connect(id);
    let query = |query: &str| Head::upgrade(&format!("/v1/connect?{query}"));
    vec![
        case("no query", &Head::upgrade("/v1/connect"), 400, "bad_client_id"),
        case("no client_id", &query("reliable=1"), 400, "bad_client_id"),
        case("an empty client_id", &id(""), 400, "bad_client_id"),
        case("a space in client_id", &id("a%20b"), 400, "bad_client_id"),
        case("a line break in client_id", &id("a%0d%0aX:y"), 400, "bad_client_id"),
        case("a client_id of 129 characters", &id(&"a".repeat(129)), 400, "bad_client_id"),
        case("client_id twice", &query("client_id=a&client_id=b"), 400, "bad_query"),
        case("client_id not percent-encoded", &id("%zz"), 400, "bad_query"),
        case("client_id not UTF-8", &id("%ff"), 400, "bad_query"),
        case("an odd reliable", &query("client_id=a&reliable=yes"), 400, "bad_query"),
        case("a query of 9,000 bytes", &query(&format!("client_id=a&x={}", "x".repeat(9_000))), 400, "bad_query"),
    ]
}

fn bad_heads() -> Vec<Case> {
    let good = || Head::connect("alice");
    let with_header = |header, case| Case { header: Some(header), ..case };
    let no_upgrade = |what, head: &Head, header| with_header(header, case(what, head, 426, "upgrade_required"));
    let websocket = ("upgrade", "websocket");
    let bad = |what, head: &Head| case(what, head, 400, "bad_request");
    let key = |key| good().replace("Sec-WebSocket-Key", key);
    vec![
        with_header(("allow", "GET, HEAD"), case("POST", &good().method("POST"), 405, "method_not_allowed")),
        with_header(websocket, case("HEAD", &good().method("HEAD").without("Upgrade"), 426, "")),
        with_header(websocket, case("plain HEAD", &Head::get("/v1/connect?client_id=alice").method("HEAD"), 426, "")),
        no_upgrade("HTTP/1.0", &good().version("HTTP/1.0"), websocket),
        no_upgrade("no Upgrade", &good().without("Upgrade"), websocket),
        no_upgrade("no version", &good().without("Sec-WebSocket-Version"), ("sec-websocket-version", "13")),
        bad("no Host", &good().without("Host")),
        bad("Content-Length", &good().with("Content-Length", "5")),
        bad("a key of 15 bytes", &key("MTIzNDU2Nzg5MDEyMzQ1")),
        bad("an empty resume token", &good().offer("resume.")),
    ]
}

fn odd_targets() -> Vec<Case> {
    let case = |request: String, status, code| case("odd target", &request, status, code);
    let target = |target: &str| Head::upgrade(target).to_string();
    let line = |line: &str| format!("{line}\r\n{}", target("/").split_once("\r\n").unwrap().1);
    let plain = "/v1/other /v1/connect/ /metrics /readyz /admin/ /internal/v1/trunk /internal/v1/lane";
    let absent = "//v1/connect? /v1//connect? /v1/../v1/connect? /./v1/connect? /v1/connect/? /v1/connect/..? \
        /v1/connect%2f? /v1%2fconnect? /%76%31/connect? /V1/CONNECT? /v1/connect;x? /v1/connect%00? /v1\\connect? \
        /internal/v1/trunk? /v1/connect/../../internal/v1/trunk? /..%2finternal%2fv1%2ftrunk? /../../../../etc/passwd?";
    let absent = absent.split(' ').map(|path| target(&format!("{path}client_id=a")));
    let absent = absent.chain(plain.split(' ').map(|path| Head::get(path).to_string()));
    let mut odd: Vec<_> = absent.map(|request| case(request, 404, "not_found")).collect();
    odd.extend([
        case(line("OPTIONS * HTTP/1.1"), 404, "not_found"),
        case(line("CONNECT 127.0.0.1:6379 HTTP/1.1"), 404, "not_found"),
        case(line("GET http://127.0.0.1/internal/v1/trunk HTTP/1.1"), 404, "not_found"),
        case(line("GET http://127.0.0.1/v1/connect/../../metrics HTTP/1.1"), 404, "not_found"),
        case(line("OPTIONS /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        case(line("TRACE /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        case(line("get /v1/connect?client_id=a HTTP/1.1"), 405, "method_not_allowed"),
        case(line("GET /v1/connect?client_id=a HTTP/9.9"), 400, ""),
        case(line("GET /v1/connect?client_id=a b HTTP/1.1"), 400, ""),
        case(line("GET v1/connect?client_id=a HTTP/1.1"), 400, ""),
        case(line("GET  /v1/connect?client_id=a HTTP/1.1"), 400, ""),
        case(target("/v1/connect?client_id=a%0d%0aSet-Cookie:x"), 400, "bad_client_id"),
        case(target("/v1/connect?client_id=%c0%af"), 400, "bad_query"),
        case(target(&format!("/v1/connect?client_id=a&x={}", "y".repeat(17_000))), 431, ""),
    ]);
    odd
}

/// Refusals of the HTTP parser have no body, because the sender may not speak HTTP at all.
fn no_http() -> Vec<Case> {
    let head = || Head::connect("alice");
    vec![
        case("a header of 20 KB", &head().with("X", &"x".repeat(20_000)), 431, ""),
        case("75 header lines", &with_lines(70), 431, ""),
        case("an HTTP/2 preface", &"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, ""),
        case("garbage", &"\x01\x02\x03 nonsense\r\n\r\n", 400, ""),
        case("a TLS hello", &"\x16\x03\x01\x02\0\x01\0\x01\u{7c}\x03\x03\r\n\r\n", 400, ""),
        case("a NUL in a header", &head().with("X", "a\0b"), 400, ""),
        case("a folded header", &head().with("X", "a\r\n b"), 400, ""),
        case("a space before a colon", &head().with("X ", "a"), 400, ""),
        case("two lengths that differ", &head().with("Content-Length", "1").with("Content-Length", "2"), 400, ""),
    ]
}

/// Returns a valid head with this number of further lines.
fn with_lines(count: usize) -> Head {
    (0..count).fold(Head::connect("lines"), |head, n| head.with(&format!("X-{n}"), "x"))
}

#[tokio::test]
async fn bad_request_is_answered_by_its_error_and_counted() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    for case in [bad_queries(), bad_heads(), odd_targets(), no_http()].into_iter().flatten() {
        let what = format!("{}: {:.80?}", case.what, case.request);
        let reason = case.status.to_string();
        let before = mesh.refused_connects(&reason).await;
        let answer = ask(&mesh.url(), &case.request).await;
        assert_eq!(answer.status, case.status, "{what}: {answer:?}");
        if case.code.is_empty() {
            assert_eq!(answer.body, "", "{what}");
        } else {
            assert_eq!(answer.error_code(), case.code, "{what}: {answer:?}");
        }
        if let Some((name, value)) = case.header {
            assert_eq!(answer.header(name), Some(value), "{what}: {answer:?}");
        }
        assert_eq!(answer.header("connection"), Some("close"), "{what}: {answer:?}");
        assert!(answer.header("set-cookie").is_none() && answer.header("access-control-allow-origin").is_none());
        counted(&mesh, &reason, before + 1.0).await;
    }
    assert_eq!(mesh.balancer_metric("signaling_client_sockets_opened_total", "").await, 0.0);
    mesh.peer("alice").await.close().await;
}

#[tokio::test]
async fn connect_with_a_content_length_of_0_is_accepted() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let head = Head::connect("alice").with("Content-Length", "0");
    assert_eq!(RawSocket::open(&mesh.url(), &head).await.message().await["type"], "welcome");
}

#[tokio::test]
async fn refused_connects_leave_a_line_per_reason_and_address() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &["--dialects=peerjs"]).await;
    let ask_from = async |last: u8, head: &Head| {
        let stream = connect_from([127, 0, 0, last], &mesh.url()).await;
        ask_on(stream, head.to_string().as_bytes()).await.0.status
    };
    let peerjs = Head::upgrade("/peerjs/peerjs?key=peerjs&id=bob&token=no.jwt");
    for _ in 0..20 {
        assert_eq!(ask_from(1, &Head::connect("alice")).await, 401);
        assert_eq!(ask_from(1, &peerjs).await, 401);
        assert_eq!(ask_from(2, &Head::connect("carol")).await, 401);
    }
    let log = mesh.log("balancer-0");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("connect refused")).collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for (line, address, client, reason) in [
        (lines[0], "127.0.0.1", "alice", "a token is required"),
        (lines[1], "127.0.0.1", "~pj:peerjs:bob", "not a JWT"),
        (lines[2], "127.0.0.2", "carol", "a token is required"),
    ] {
        for part in [format!("address={address}"), format!("client={client}"), reason.to_owned()] {
            assert!(line.contains(&part), "{part}: {line}");
        }
    }
}

#[tokio::test]
async fn limit_of_a_proxy_that_hides_addresses_names_the_flag() {
    let mesh = TestMesh::with_servers((1, 1), &[], &["--max-per-address=1"]).await;
    let _alice = mesh.peer("alice").await;
    for (head, is_hinted) in
        [(Head::connect("bob"), false), (Head::connect("bob").with("X-Forwarded-For", "192.0.2.1"), true)]
    {
        assert_eq!(ask(&mesh.url(), head).await.status, 429);
        assert_eq!(mesh.log("balancer-0").contains("--client-address is set"), is_hinted);
    }
}

#[tokio::test]
async fn request_head_is_refused_past_16_kib_or_64_lines() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    // The head has five other lines.
    let bytes = |count: usize| Head::connect("bytes").with("X", &"x".repeat(count));
    for (head, status) in [(with_lines(59), 101), (with_lines(60), 431), (bytes(15_000), 101), (bytes(17_000), 431)] {
        let answer = ask(&mesh.url(), &head).await;
        assert_eq!(answer.status, status, "{head:.80}: {answer:?}");
    }
    counted(&mesh, "431", 2.0).await;
}

#[tokio::test]
async fn bad_query_has_a_close_code_with_the_subprotocol() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    for query in ["", "client_id=a%20b", "client_id=a&client_id=b"] {
        let head = Head::upgrade(&format!("/v1/connect?{query}")).offer("signaling.v1");
        let mut socket = RawSocket::open(&mesh.url(), &head).await;
        assert_eq!(socket.answer.header("sec-websocket-protocol"), Some("signaling.v1"));
        let (code, reason) = socket.closed().await;
        assert!(code == 4400 && reason.contains("client_id"), "{query}: {code} {reason}");
    }
    assert_eq!(mesh.refused_connects("400").await, 3.0);
}

#[tokio::test]
async fn id_in_use_is_refused_when_its_holder_answers() {
    let mesh = TestMesh::start().await;
    let mut holder = mesh.peer("alice").await;
    // Reads, and so answers pings.
    let holder = tokio::spawn(async move { holder.recv_type("signal").await });

    let start = Instant::now();
    refused(&mesh.url(), Head::connect("alice"), (409, "client_id_in_use")).await;
    assert!(start.elapsed() < Duration::from_millis(2_500), "after {:?}", start.elapsed());

    let head = Head::connect("alice").offer("signaling.v1");
    assert_eq!(RawSocket::open(&mesh.url(), &head).await.closed().await.0, 4409);

    let forged = Head::upgrade(&format!("/v1/connect?client_id=alice&resume={}", "A".repeat(75)));
    assert_eq!(ask(&mesh.url(), forged).await.status, 409);

    assert_eq!(mesh.refused_connects("409").await, 3.0);
    let mut bob = mesh.peer("bob").await;
    bob.signal("alice", json!("still there?"), Some(1)).await;
    assert_eq!(bob.recv().await, json!({ "type": "ack", "id": 1 }));
    assert_eq!(holder.await.unwrap()["data"], "still there?");
}

#[tokio::test]
async fn id_in_use_is_taken_over_when_its_holder_is_silent() {
    let mesh = TestMesh::start().await;
    let mut holder = RawSocket::connect(&mesh.url(), "alice").await;

    let start = Instant::now();
    let mut newcomer = mesh.peer("alice").await;
    let waited = start.elapsed();
    assert!((1_900..3_500).contains(&waited.as_millis()), "after {waited:?}");

    assert_eq!(holder.frame().await.0, PING, "the holder was asked");
    assert_eq!(holder.closed().await.0, 4004);
    newcomer.signal("alice", json!("mine"), Some(1)).await;
    assert_eq!(newcomer.recv_type("signal").await["data"], "mine");
}

#[tokio::test]
async fn resume_token_takes_its_session_over_at_once() {
    let mesh = TestMesh::start().await;
    for in_query in [true, false] {
        let id = format!("alice-{in_query}");
        let mut old = RawSocket::open(&mesh.url(), &Head::connect(&id)).await;
        let welcome = old.message().await;
        let token = welcome["resume"].as_str().unwrap();
        let head = match in_query {
            true => Head::upgrade(&format!("/v1/connect?client_id={id}&resume={token}")),
            false => Head::connect(&id).offer(&format!("resume.{token}")),
        };

        let start = Instant::now();
        let mut new = RawSocket::open(&mesh.url(), &head).await;
        assert_eq!(new.message().await["type"], "welcome");
        assert!(start.elapsed() < Duration::from_millis(1_000), "after {:?}", start.elapsed());
        assert_eq!(new.answer.header("sec-websocket-protocol"), None, "a token is never echoed");
        assert_eq!(old.closed().await.0, 4410);
    }
    until(&mesh.balancer_internal(), "signaling_client_closes_total", "code=\"4410\"", |closes| closes == 2.0).await;
}

#[tokio::test]
async fn client_is_refused_until_there_is_a_node() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    mesh.kill("node-0").await.unwrap();

    let answer = refused(&mesh.url(), Head::connect("alice"), (503, "no_node")).await;
    assert!(retry_after(&answer) >= 1);

    let head = Head::connect("alice").offer("signaling.v1");
    let mut socket = RawSocket::open(&mesh.url(), &head).await;
    let goodbye = socket.message().await;
    assert_eq!(goodbye["type"], "goodbye");
    assert!(goodbye["retry_after_ms"].as_u64().unwrap() >= 500, "{goodbye}");
    assert_eq!(socket.closed().await.0, 1013);
    assert_eq!(mesh.refused_connects("503").await, 2.0);

    mesh.restart("node-0").await.unwrap();
    eventually("a client to be admitted", async || Peer::open(&mesh.url(), "alice", "").await.is_ok()).await;
}

#[tokio::test]
async fn stopping_balancer_refuses_new_clients() {
    let mesh = TestMesh::with_servers((3, 1), &[], &["--drain-ms=3000"]).await;
    let mut alice = mesh.peer("alice").await;
    let refusal = async {
        let answer = async || Some(ask(&mesh.url(), Head::connect("bob")).await).filter(|answer| answer.status == 503);
        let answer = until_some("a refusal", answer).await;
        assert_eq!(answer.error_code(), "draining");
        assert!(retry_after(&answer) >= 1);
        assert!(mesh.refused_connects("503").await >= 1.0);
        alice.until_sent_away(1001).await;
    };
    during(mesh.drain("balancer-0"), refusal).await;
}

#[tokio::test]
async fn client_over_a_limit_is_refused_until_there_is_room() {
    // A flag, the counted reason, and `true` if another address is admitted.
    for (flag, reason, is_per_address) in [
        ("--max-sockets=1", "sockets", false),
        ("--max-per-address=1", "address", true),
        ("--accept-rate=1", "rate", false),
        ("--accept-rate-per-address=1", "address_rate", true),
    ] {
        let mesh = TestMesh::with_servers((1, 1), &[], &[flag]).await;
        let alice = mesh.peer("alice").await;
        let before = mesh.refused_connects(reason).await;
        for head in [Head::connect("late"), Head::connect("late").offer("signaling.v1")] {
            let answer = refused(&mesh.url(), head, (429, "too_many")).await;
            assert!(retry_after(&answer) >= 1);
        }
        assert_eq!(mesh.refused_connects(reason).await, before + 2.0);
        if is_per_address {
            let stream = connect_from([127, 0, 0, 2], &mesh.url()).await;
            let (answer, _) = ask_on(stream, Head::connect("bob").to_string().as_bytes()).await;
            assert_eq!(answer.status, 101, "{flag}");
        }
        // Rates allow one more after a second, the others after a socket has ended.
        if flag.starts_with("--max") {
            alice.close().await;
        }
        let enter = async || Peer::open(&mesh.url(), "carol", "").await.ok();
        within(Duration::from_secs(5), &format!("a client to be admitted with {flag}"), enter).await;
    }
}

#[tokio::test]
async fn subject_at_its_limit_is_refused_at_each_edge() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &["--max-per-subject=2", "--dialects=y-webrtc"]).await;
    let target = format!("/y-webrtc?token={}", signer.token(&claims("mallory")));
    let open = async || ask_on(connect(&mesh.url()).await, Head::upgrade(&target).to_string().as_bytes()).await;
    let ((one, _open), (two, _too), (three, _)) = (open().await, open().await, open().await);
    assert_eq!([one.status, two.status, three.status], [101, 101, 429]);
    assert_eq!(mesh.refused_connects("subject").await, 1.0);
}

#[tokio::test]
async fn bad_tokens_do_not_use_the_accept_rate() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &["--accept-rate=1"]).await;
    for _ in 0..20 {
        assert_eq!(ask(&mesh.url(), Head::connect("alice")).await.status, 401);
    }
    let _alice = Peer::connect_with(&mesh.url(), "alice", &signer.token(&claims("alice"))).await;
    assert_eq!(mesh.refused_connects("rate").await, 0.0);
}

#[tokio::test]
async fn join_of_more_than_256_rooms_is_refused_and_counted() {
    const REFUSED_JOINS: &str = "signaling_refused_joins_total";
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let node = mesh.node_internal(0);
    let mut alice = mesh.peer("alice").await;
    for id in 1..=257 {
        alice.send(&json!({ "type": "join", "room": format!("room-{id}"), "id": id })).await;
        let answer = alice.recv_type(if id <= 256 { "ack" } else { "error" }).await;
        assert!(id <= 256 || answer["code"] == "overloaded", "{id}: {answer}");
    }
    becomes(&node, REFUSED_JOINS, 1).await;
    assert_eq!(metric(&node, REFUSED_JOINS, "limit=\"rooms\"").await, 1.0);
}

#[tokio::test]
async fn broadcast_over_its_rate_is_refused_and_counted() {
    let mesh = TestMesh::with_servers((1, 1), &["--broadcast-rate=10"], &[]).await;
    let node = mesh.node_internal(0);
    let peers = mesh.connect(["alice", "bob", "carol"].map(str::to_owned)).await;
    let [mut alice, mut bob, mut carol]: [_; 3] = peers.try_into().ok().unwrap();
    for peer in [&mut alice, &mut bob, &mut carol] {
        peer.send(&json!({ "type": "join", "room": "hall", "id": 1 })).await;
        peer.recv_type("ack").await;
    }
    let broadcast = |id: u64| json!({ "type": "broadcast", "room": "hall", "data": id, "id": id });
    // Each costs 2 of the 20 members that she may reach at once, of which her join cost some.
    let mut sent = 0;
    let refusal = loop {
        alice.send(&broadcast(10 + sent)).await;
        match alice.recv_any(&["ack", "error"]).await {
            reply if reply["type"] == "error" => break reply,
            _ => sent += 1,
        }
    };
    assert!((5..30).contains(&sent), "{sent}");
    assert!(refusal["code"] == "rate_limited" && refusal["room"] == "hall", "{refusal}");
    assert!((1..=2_000).contains(&refusal["retry_after_ms"].as_u64().unwrap()), "{refusal}");
    bob.send(&broadcast(2)).await;
    assert_eq!(bob.recv_type("ack").await["delivered"], 2);
    for _ in 0..sent {
        assert_eq!(carol.recv_type("broadcast").await["from"], "alice");
    }
    assert_eq!(carol.recv_type("broadcast").await["from"], "bob");
    becomes(&node, "signaling_requests_refused_total", 1).await;
    assert_eq!(metric(&node, "signaling_requests_refused_total", "code=\"rate_limited\"").await, 1.0);
}

fn retry_after(answer: &Answer) -> u64 {
    answer.header("retry-after").unwrap().parse().unwrap()
}

/// Waits until clients are counted as refused, which follows the end of their connection.
async fn counted(mesh: &TestMesh, reason: &str, count: f64) {
    let label = format!("reason=\"{reason}\"");
    until(&mesh.balancer_internal(), "signaling_refused_connects_total", &label, |refused| refused == count).await;
}
