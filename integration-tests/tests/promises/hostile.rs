//! What strangers try at the public listener: odd paths, requests hidden behind others, forged addresses, floods. Each gets the
//! answer that is written down for it, moves its metric, and harms nobody.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::http::{Head, ask, ends, read_answer};
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::raw_socket::{PING, TEXT, connect_from, frame};
use signaling_integration_tests::{Chatter, Peer, RawSocket, TestMesh, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout};

const REFUSED: &str = "signaling_refused_connects_total";
const RATE_LIMITED: &str = "signaling_rate_limited_total";
const PATIENCE: Duration = Duration::from_secs(10);

async fn with_flags(flags: &[&str]) -> TestMesh {
    let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    TestMesh::with(|options| (options.nodes, options.balancer_args) = (2, flags)).await
}

async fn counted(mesh: &TestMesh, name: &str, label: &str) -> f64 {
    metric(&mesh.mesh.state().balancers[0].internal, name, label).await
}

/// A request line, and the answer to it: a status and the code in the body, if it has one.
fn odd_targets() -> Vec<(String, u16, &'static str)> {
    let target = |target: &str| Head::upgrade(target).text();
    let line = |line: &str| format!("{line}\r\n{}", Head::upgrade("/").text().split_once("\r\n").unwrap().1);
    let absent = [
        "//v1/connect?client_id=a",
        "/v1//connect?client_id=a",
        "/v1/../v1/connect?client_id=a",
        "/./v1/connect?client_id=a",
        "/v1/connect/?client_id=a",
        "/v1/connect/..?client_id=a",
        "/v1/connect%2f?client_id=a",
        "/v1%2fconnect?client_id=a",
        "/%76%31/connect?client_id=a",
        "/V1/CONNECT?client_id=a",
        "/v1/connect;x?client_id=a",
        "/v1/connect%00?client_id=a",
        "/v1\\connect?client_id=a",
        "/internal/v1/trunk",
        "/v1/connect/../../internal/v1/trunk",
        "/..%2finternal%2fv1%2ftrunk",
        "/../../../../etc/passwd",
    ];
    let mut odd: Vec<_> = absent.iter().map(|path| (target(path), 404, "not_found")).collect();
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
async fn odd_targets_lead_nowhere_and_are_counted() {
    let mesh = with_flags(&[]).await;
    let mut expected = 0.0;
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
        expected += 1.0;
    }
    let all = || async { (counted(&mesh, REFUSED, "").await == expected).then_some(()) };
    eventually("all to be counted", PATIENCE, all).await;
    assert_eq!(counted(&mesh, "signaling_client_sockets_opened_total", "").await, 0.0);
}

/// All that an outsider finds, on whichever listener is public.
#[tokio::test]
async fn an_outsider_finds_the_documented_endpoints_alone() {
    let mesh = with_flags(&[]).await;
    let node = mesh.mesh.state().nodes[0].public.trim_start_matches("ws://").to_owned();
    let names = [
        "",
        "admin",
        "admin/drain",
        "admin/undrain",
        "admin/rooms",
        "api",
        "app.js",
        "buttons",
        "client.js",
        "config",
        "connect",
        "control",
        "debug",
        "debug/pprof",
        "demo",
        "demo/kill",
        "env",
        "favicon.ico",
        "graphql",
        "health",
        "healthz",
        "index.html",
        "internal",
        "internal/v1",
        "internal/v1/forward",
        "internal/v1/trunk",
        "livez",
        "login",
        "mesh",
        "mesh.json",
        "mesh.secret",
        "metrics",
        "nodes",
        "peer.js",
        "ping",
        "readyz",
        "robots.txt",
        "room.js",
        "rooms",
        "server-status",
        "state",
        "static",
        "status",
        "trunk",
        "v1",
        "v1/connect",
        "v1/rooms",
        "v2/connect",
        "version",
        "ws",
        ".env",
        ".git/config",
        ".well-known/security.txt",
    ];
    for (address, files) in [(mesh.address(), &["client.js", "peer.js", "room.js"][..]), (node, &[])] {
        for name in names {
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
                let request = Head::get(&format!("/{name}")).method(method).with("Content-Length", "0");
                let request = request.with("Connection", "close").text();
                let mut stream = TcpStream::connect(&address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
                let status = String::from_utf8_lossy(&answer)[9..12].to_owned();
                let expected = match (name, method) {
                    // It is a WebSocket address: one has to ask for that.
                    ("v1/connect", "GET") => "400",
                    ("v1/connect", _) => "405",
                    (name, "GET" | "HEAD") if files.contains(&name) => "200",
                    (name, _) if files.contains(&name) => "405",
                    _ => "404",
                };
                assert_eq!(status, expected, "{method} /{name} at {address}");
            }
        }
    }
}

#[tokio::test]
async fn what_comes_behind_a_request_is_never_taken_for_another() {
    let mesh = with_flags(&[]).await;
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
        let mut stream = TcpStream::connect(mesh.address()).await.unwrap();
        stream.write_all((first.text() + &hidden).as_bytes()).await.unwrap();
        let mut all = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut all)).await.unwrap();
        let text = String::from_utf8_lossy(&all);
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    }
    // Behind an upgrade: it is no frame, and no node sees it.
    let mut socket = RawSocket::open(&mesh.address(), &Head::connect("eve")).await;
    socket.send(hidden.as_bytes()).await;
    assert_eq!(socket.closed().await.0, 1002);
    let mut stream = TcpStream::connect(mesh.address()).await.unwrap();
    stream.write_all((Head::connect("eve").text() + &hidden).as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut stream).await.status, 101);
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1"));
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
async fn line_breaks_in_names_tokens_and_requests_get_into_no_answer_and_no_log() {
    let mesh = with_flags(&["--log=debug"]).await;
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
async fn the_sustained_rate_holds_within_two_percent_for_who_sends_as_fast_as_allowed() {
    const PER_SECOND: f64 = 40.0;
    const SECONDS: f64 = 5.0;
    let mesh = with_flags(&["--message-rate=40", "--message-burst=40"]).await;
    let mut eager = Peer::connect(&mesh.url(), "eager").await;
    // How many passed, from the first that did not: until then it was the burst.
    let (mut start, mut passed, mut took) = (None, 0.0, 0.0);
    while took < SECONDS {
        eager.send(&json!({ "type": "ice_servers" })).await;
        let answer = eager.recv().await;
        if answer["type"] == "ice_servers" {
            if let Some(start) = start {
                passed += 1.0;
                took = Instant::elapsed(&start).as_secs_f64();
            }
            continue;
        }
        assert_eq!(answer["code"], "rate_limited", "{answer}");
        start.get_or_insert_with(Instant::now);
        tokio::time::sleep(Duration::from_millis(answer["retry_after_ms"].as_u64().unwrap())).await;
    }
    let rate = passed / took;
    println!("{passed} in {took:.2} s are {rate:.2} a second");
    assert!((rate / PER_SECOND - 1.0).abs() <= 0.02, "{rate:.2} a second, not {PER_SECOND}");
    eager.close().await;
}

#[tokio::test]
async fn data_that_is_nested_deeply_is_carried_as_it_stands_and_harms_nobody() {
    let mesh = with_flags(&[]).await;
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
async fn floods_are_refused_by_name_then_closed_and_others_do_not_notice() {
    let mesh = with_flags(&[
        "--message-rate=20",
        "--message-burst=150",
        "--byte-rate=20000",
        "--byte-burst=70000",
        "--ping-rate=5",
    ])
    .await;
    let talk = Chatter::slow(&mesh).await;
    let messages = async {
        let text = r#"{"type":"signal","to":"flood-1","data":1,"id":7}"#;
        flood(&mesh, "flood-1", text.as_bytes(), Duration::from_millis(2), "too many messages").await
    };
    let bytes = async {
        let text = format!(r#"{{"type":"broadcast","room":"r","data":"{}","id":8}}"#, "x".repeat(5_000));
        flood(&mesh, "flood-2", text.as_bytes(), Duration::from_millis(60), "too many bytes").await
    };
    let pings = async {
        for kind in [PING, TEXT] {
            let mut socket = RawSocket::connect(&mesh.address(), &format!("flood-{kind}")).await;
            socket.send(&frame(kind, br#"{"type":"ping"}"#).repeat(51)).await;
            let (code, reason) = socket.closed().await;
            assert_eq!((code, reason.as_str()), (1008, "you ping too often"));
        }
    };
    let (error, of_bytes, ()) = tokio::join!(messages, bytes, pings);
    assert_eq!((&error["id"], &error["to"]), (&json!(7), &json!("flood-1")), "{error}");
    assert_eq!((&of_bytes["id"], &of_bytes["room"]), (&json!(8), &json!("r")), "{of_bytes}");
    let all = || async { (counted(&mesh, RATE_LIMITED, "sockets").await == 4.0).then_some(()) };
    eventually("four closed sockets to be counted", PATIENCE, all).await;
    assert!(counted(&mesh, RATE_LIMITED, "messages").await > 100.0);
    assert!(counted(&mesh, RATE_LIMITED, "bytes").await > 10.0);
    let talk = talk.stop().await;
    assert!(talk.p99() < Duration::from_millis(250), "{:?}", talk.p99());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_on_writing_behind_a_broken_frame_holds_up_nobody() {
    let mesh = with_flags(&[]).await;
    let talk = Chatter::start(&mesh).await;
    let end = Instant::now() + Duration::from_secs(3);
    let nonsense = [frame(0x83, b""), vec![0; 256 * 1024]].concat();
    let mut eves = tokio::task::JoinSet::new();
    for number in 0..4 {
        let (address, nonsense) = (mesh.address(), nonsense.clone());
        eves.spawn(async move {
            while Instant::now() < end {
                let mut eve = RawSocket::connect(&address, &format!("eve-{number}")).await;
                while Instant::now() < end && eve.stream.write_all(&nonsense).await.is_ok() {}
            }
        });
    }
    eves.join_all().await;
    let talk = talk.stop().await;
    println!("{} messages meanwhile, p99 {:?}, slowest {:?}", talk.times.len(), talk.p99(), talk.slowest());
    assert!(talk.times.len() > 20, "{}", talk.times.len());
    assert!(talk.slowest() < Duration::from_millis(1_500), "{:?}", talk.slowest());
}

/// Sends a message again and again until the socket is closed with 4029, after about 5 s of refusals. Gives back the first of these.
async fn flood(mesh: &TestMesh, name: &str, text: &[u8], pace: Duration, why: &str) -> Value {
    let socket = RawSocket::connect(&mesh.address(), name).await;
    let (mut reader, mut writer) = socket.stream.into_split();
    let start = Instant::now();
    let flood = tokio::spawn({
        let text = frame(TEXT, text);
        async move {
            let mut ticks = interval(pace);
            while writer.write_all(&text).await.is_ok() {
                ticks.tick().await;
            }
        }
    });
    let mut all = Vec::new();
    let _ = timeout(PATIENCE, reader.read_to_end(&mut all)).await.expect("the flood goes on and on");
    flood.abort();
    assert!(start.elapsed() > Duration::from_secs(5), "after {:?}", start.elapsed());
    let code = 4029_u16.to_be_bytes();
    assert!(all.windows(2).any(|bytes| bytes == code), "{name}: no close with 4029");
    let text = String::from_utf8_lossy(&all);
    let at = text.find(&format!(r#"{{"type":"error","code":"rate_limited","message":"{why}""#)).expect(why);
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
    let error = values.next().unwrap().unwrap();
    assert!(error["retry_after_ms"].as_u64().unwrap() >= 1, "{error}");
    error
}

#[tokio::test]
async fn a_connection_that_asks_for_nothing_makes_room_for_a_newer_one() {
    let mesh = with_flags(&["--max-handshakes=3"]).await;
    let before = counted(&mesh, REFUSED, "handshakes").await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(mesh.address()).await.unwrap());
    }
    for (n, stream) in silent.iter_mut().enumerate() {
        assert_eq!(ends(stream, Duration::from_millis(if n < 2 { 2_000 } else { 50 })).await, n < 2, "the oldest two");
    }
    assert_eq!(counted(&mesh, REFUSED, "handshakes").await, before + 2.0);
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

#[tokio::test]
async fn an_address_is_taken_from_a_proxy_that_is_trusted_and_from_nobody_else() {
    let flags = ["--max-per-address=1", "--trusted-proxies=127.0.0.2/32,10.0.0.0/8"];
    let forwarded = with_flags(&[&flags[..], &["--client-address=x-forwarded-for"]].concat()).await;
    let status = async |mesh: &TestMesh, from: [u8; 4], front: &[u8], id: &str, client: &str| {
        let mut stream = connect_from(from, &mesh.address()).await.unwrap();
        let head = Head::connect(id).with("X-Forwarded-For", client);
        stream.write_all(&[front, head.text().as_bytes()].concat()).await.unwrap();
        (read_answer(&mut stream).await.status, stream)
    };
    let proxy = [127, 0, 0, 2];
    let (first, _one) = status(&forwarded, proxy, b"", "a", "192.0.2.1").await;
    let (other, _two) = status(&forwarded, proxy, b"", "b", "198.51.100.1, 192.0.2.2, 10.1.1.1").await;
    let (again, _) = status(&forwarded, proxy, b"", "c", "203.0.113.7, 192.0.2.2").await;
    assert_eq!((first, other, again), (101, 101, 429), "the nearest that is no proxy counts");
    let (stranger, _three) = status(&forwarded, [127, 0, 0, 3], b"", "d", "192.0.2.9").await;
    let (forger, _) = status(&forwarded, [127, 0, 0, 3], b"", "e", "192.0.2.10").await;
    assert_eq!((stranger, forger), (101, 429), "a stranger is who he is");

    let proxied = with_flags(&[&flags[..], &["--client-address=proxy-v2"]].concat()).await;
    let front = |last: u8| {
        let ends = [192, 0, 2, last, 10, 0, 0, 1, 0x12, 0x34, 0, 80];
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &ends].concat()
    };
    let (first, _one) = status(&proxied, proxy, &front(1), "a", "").await;
    let (other, _two) = status(&proxied, proxy, &front(2), "b", "").await;
    let (again, _) = status(&proxied, proxy, &front(2), "c", "").await;
    assert_eq!((first, other, again), (101, 101, 429));
    let (forger, _) = status(&proxied, [127, 0, 0, 3], &front(9), "d", "").await;
    assert_eq!(forger, 400, "from a stranger it is no HTTP");
    let mut bare = connect_from(proxy, &proxied.address()).await.unwrap();
    bare.write_all(Head::connect("e").text().as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, bare.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.is_empty(), "a trusted proxy that does not say whose connection it is");
    assert_eq!(counted(&proxied, REFUSED, "proxy_header").await, 1.0);
}
