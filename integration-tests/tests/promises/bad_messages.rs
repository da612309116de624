//! A bad message gets an `error` and the connection stays open. A broken frame closes it with the
//! matching code. Other clients do not notice.

use std::time::{Duration, Instant};

use serde_json::json;
use signaling_integration_tests::raw_socket::{BINARY, CLOSE, PING, PONG, TEXT, frame, header};
use signaling_integration_tests::{
    Chatter, Head, RawSocket, TestMesh, becomes, connect, eventually, exchange, metric, until, within,
};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

const MAX_MESSAGE_BYTES: usize = 2048;
/// First bytes of a text that continuations follow, of a continuation, and of the last one.
const OPENING: u8 = 0x01;
const CONTINUATION: u8 = 0x00;
const LAST_CONTINUATION: u8 = 0x80;

#[tokio::test]
async fn bad_message_is_answered_by_an_error() {
    let mesh = TestMesh::start().await;
    let mut alice = mesh.peer("alice").await;
    let mut bob = mesh.peer("bob").await;
    for (text, id, part) in bad_messages() {
        alice.send_text(&text).await;
        let answer = alice.recv().await;
        let shown = text.chars().take(80).collect::<String>();
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("bad_message")), "{shown}: {answer}");
        assert_eq!(answer.get("id"), id.map(|id| json!(id)).as_ref(), "{shown}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{shown}: {answer}");
        assert!(answer.to_string().len() < 600, "an answer quotes little: {answer}");
    }
    exchange((&mut alice, &mut bob), &json!("all well"), 99).await;
    let all = bad_messages().len() as f64;
    let counted = async || mesh.sum_over_nodes("signaling_requests_refused_total").await == all;
    eventually("all to be counted", counted).await;
}

/// Messages with the `id` in the answer and a part of its text.
fn bad_messages() -> Vec<(String, Option<u64>, &'static str)> {
    let signal = |fields: &str| format!(r#"{{"type":"signal",{fields}}}"#);
    vec![
        (String::new(), None, "no JSON object"),
        ("{".into(), None, "EOF"),
        (r#"{"type":"ping"} {}"#.into(), None, "trailing"),
        (r#"{"type":"nonsense","id":7}"#.into(), Some(7), "nonsense"),
        (format!(r#"{{"type":"{}"}}"#, "x".repeat(10_000)), None, "unknown"),
        (signal(r#""to":"bob","id":8"#), Some(8), "`data`"),
        (signal(r#""to":"bob","to":"eve","data":1"#), None, "duplicate"),
        (signal(r#""to":"bob","data":1,"id":9007199254740992"#), None, "`id`"),
        (signal(r#""to":"böb","data":1,"id":11"#), Some(11), "`to`"),
        (signal(&format!(r#""to":"bob","data":{}"#, "[".repeat(20_000))), None, "not a message"),
        (r#"{"type":"join","id":3}"#.into(), Some(3), "`room`"),
    ]
}

#[tokio::test]
async fn forbidden_request_is_refused_and_counted_by_its_code() {
    const REFUSED: &str = "signaling_requests_refused_total";
    let mesh = TestMesh::with_servers((1, 1), &["--signal-scope=room"], &[]).await;
    let node = mesh.node_internal(0);
    let mut alice = mesh.peer("alice").await;
    // With its quotes as much as may be shown in one room.
    let most = "x".repeat(4_094);
    for (request, code) in [
        (json!({ "type": "broadcast", "room": "den", "data": 1, "id": 1 }), "not_in_room"),
        (json!({ "type": "signal", "to": "bob", "data": 1, "id": 1 }), "forbidden"),
        (json!({ "type": "join", "room": "den", "data": format!("{most}x"), "id": 1 }), "too_large"),
    ] {
        alice.send(&request).await;
        let answer = alice.recv().await;
        let fields = (&answer["type"], &answer["code"], &answer["id"]);
        assert_eq!(fields, (&json!("error"), &json!(code), &json!(1)), "{answer}");
    }
    for id in 2..18 {
        alice.send(&json!({ "type": "join", "room": format!("room-{id}"), "data": most, "id": id })).await;
        assert_eq!(alice.recv_type("ack").await["id"], id);
    }
    alice.send(&json!({ "type": "join", "room": "one-more", "data": 1, "id": 18 })).await;
    assert_eq!(alice.recv_type("error").await["code"], "too_large", "64 KiB in all rooms together");

    becomes(&node, REFUSED, 4).await;
    for (code, count) in [("not_in_room", 1.0), ("forbidden", 1.0), ("too_large", 2.0)] {
        assert_eq!(metric(&node, REFUSED, &format!("code=\"{code}\"")).await, count, "{code}");
    }
}

#[tokio::test]
async fn message_without_ttl_fails_at_once_when_recipient_is_absent() {
    let mesh = TestMesh::start().await;
    let mut alice = mesh.peer_owned_by("node-0", "alice").await;
    for node in ["node-0", "node-1", "node-2"] {
        let ghost = mesh.id_owned_by(node, "ghost");
        let start = Instant::now();
        alice.send(&json!({ "type": "signal", "to": ghost, "data": 1, "id": 5, "ttl_ms": 0 })).await;
        let answer = alice.recv().await;
        let fields = (&answer["code"], &answer["id"], &answer["to"]);
        assert_eq!(fields, (&json!("recipient_unavailable"), &json!(5), &json!(ghost)), "{answer}");
        assert!(start.elapsed() < Duration::from_secs(1), "owned by {node}: after {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn broken_frame_closes_its_socket_only() {
    let mesh = small_messages().await;
    let talk = Chatter::start(&mesh).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        for (what, bytes, code) in broken_frames() {
            let label = format!("code=\"{code}\"");
            let before = violations(&mesh, &label).await;
            let mut eve = RawSocket::connect(&mesh.address(), "eve").await;
            eve.send(&bytes).await;
            let (closed_with, reason) = eve.closed().await;
            assert_eq!(closed_with, code, "{what}: {reason}");
            assert!(!reason.is_empty(), "{what} needs a reason");
            assert_eq!(violations(&mesh, &label).await, before + 1.0, "{what}");
        }
    }
    let talk = talk.stop().await;
    assert!(talk.messages > 20, "{talk:?}");
    assert!(talk.p99 < Duration::from_millis(500), "{talk:?}");
}

fn broken_frames() -> Vec<(&'static str, Vec<u8>, u16)> {
    let unmasked = |first: u8, payload: &[u8]| [&[first, u8::try_from(payload.len()).unwrap()], payload].concat();
    let close = |code: u16| frame(CLOSE, &code.to_be_bytes());
    let too_big = u64::try_from(MAX_MESSAGE_BYTES).unwrap() + 1;
    let mut fragments = vec![frame(OPENING, b"x")];
    fragments.extend((1..=64).map(|_| frame(CONTINUATION, b"x")));
    vec![
        ("a binary message", frame(BINARY, b"{}"), 1003),
        ("the header alone of a message one byte too long", header(TEXT, too_big), 1009),
        ("the header alone of a message of 2^64 - 1 bytes", header(TEXT, u64::MAX), 1009),
        ("a text that is not UTF-8", frame(TEXT, b"{\"\xff\"}"), 1007),
        ("a close reason that is not UTF-8", frame(CLOSE, b"\x03\xe8\xff"), 1007),
        ("an unmasked text", unmasked(TEXT, b"{}"), 1002),
        ("a compressed text", frame(TEXT | 0x40, b"{}"), 1002),
        ("a fragmented ping", frame(PING & 0x0f, b"x"), 1002),
        ("a continuation of nothing", frame(LAST_CONTINUATION, b"x"), 1002),
        ("close code 1005", close(1005), 1002),
        ("65 fragments", fragments.concat(), 1008),
    ]
}

#[tokio::test]
async fn unfinished_message_closes_its_socket_after_ten_seconds() {
    let mesh = small_messages().await;
    let talk = Chatter::start(&mesh).await;
    let starts = [frame(OPENING, b"{\"type\":"), header(TEXT, 100), vec![TEXT]];
    let start = Instant::now();
    let mut sockets = Vec::new();
    for (n, bytes) in starts.iter().enumerate() {
        let mut socket = RawSocket::connect(&mesh.address(), &format!("slow-{n}")).await;
        socket.send(bytes).await;
        sockets.push(socket);
    }
    for socket in &mut sockets {
        let (code, reason) = socket.closed().await;
        assert_eq!(code, 1008, "{reason}");
        let after = start.elapsed();
        assert!((9_900..12_000).contains(&after.as_millis()), "after {after:?}");
    }
    assert_eq!(violations(&mesh, "code=\"1008\"").await, 3.0);
    talk.stop().await;
}

#[tokio::test]
async fn unfinished_message_over_the_limit_closes_its_sender() {
    const MEBIBYTE: usize = 1024 * 1024;
    let (longest, buffer) =
        (format!("--max-message-bytes={MEBIBYTE}"), format!("--max-client-buffer-bytes={MEBIBYTE}"));
    let mesh = TestMesh::with_servers((1, 1), &[&longest], &[&longest, &buffer]).await;
    let balancer = mesh.balancer_internal();
    let begun =
        async |bytes: f64| until(&balancer, "signaling_partial_message_bytes", "", |begun| begun >= bytes).await;
    let message = frame(TEXT, " ".repeat(900_000).as_bytes());
    let (front, end) = message.split_at(message.len() - 1);

    let mut early = RawSocket::connect(&mesh.address(), "early").await;
    early.send(front).await;
    begun(899_999.0).await;
    let mut late = RawSocket::connect(&mesh.address(), "late").await;
    late.send(&message[..50_000]).await;
    begun(940_000.0).await;
    late.send(&message[50_000..250_000]).await;
    let (code, reason) = late.closed().await;
    assert_eq!(code, 1013, "{reason}");
    becomes(&balancer, "signaling_evicted_clients_total", 1).await;
    assert_eq!(metric(&balancer, "signaling_evicted_clients_total", "cause=\"unfinished\"").await, 1.0);
    assert_eq!(metric(&balancer, "signaling_client_closes_total", "code=\"1013\"").await, 1.0);

    early.send(end).await;
    assert_eq!(early.message().await["code"], "bad_message", "it is read, and it is no message");
    becomes(&balancer, "signaling_partial_message_bytes", 0).await;
}

#[tokio::test]
async fn messages_in_two_reads_are_not_closed_as_unfinished() {
    let mesh = small_messages().await;
    let mut alice = RawSocket::connect(&mesh.address(), "alice").await;
    let message = frame(TEXT, br#"{"type":"ping"}"#);
    let (front, back) = message.split_at(9);
    alice.send(front).await;
    let mut pace = interval(Duration::from_millis(250));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(12) {
        pace.tick().await;
        alice.send(&[back, front].concat()).await;
        assert_eq!(alice.message().await["type"], "pong");
    }
}

#[tokio::test]
async fn early_frames_of_many_clients_are_read_in_order() {
    let mesh = small_messages().await;
    let message = frame(TEXT, br#"{"type":"ping"}"#);
    let (front, back) = message.split_at(9);
    // Of a client that is not reliable it has no effect.
    let ignored = format!(r#"{{"type":"received","n":0,"pad":"{}"}}"#, "x".repeat(90));
    let pongs = frame(PONG, &[b'x'; 125]).repeat(50);
    let early = [&pongs, &frame(TEXT, ignored.as_bytes()).repeat(400), &message, front].concat();
    let mut alices = JoinSet::new();
    for number in 0..100 {
        let (address, early, back) = (mesh.address(), early.clone(), back.to_vec());
        alices.spawn(async move {
            let head = Head::connect(&format!("alice-{number}")).to_string();
            let mut alice = RawSocket::over(connect(&address).await, &[head.as_bytes(), &early].concat()).await;
            alice.send(&back).await;
            for expected in ["welcome", "pong", "pong"] {
                assert_eq!(alice.message().await["type"], expected);
            }
        });
    }
    alices.join_all().await;
}

#[tokio::test]
async fn flood_of_an_unreading_client_takes_little_memory() {
    const MAX_GROWTH: f64 = 16e6;
    let mesh = small_messages().await;
    let flood = [frame(PING, &[b'x'; 125]).repeat(400), frame(TEXT, br#"{"type":"ping"}"#).repeat(400)];
    let resident = async || mesh.balancer_metric("process_resident_memory_bytes", "").await;
    let before = resident().await;
    for (n, bytes) in flood.iter().enumerate() {
        let mut eve = RawSocket::connect(&mesh.address(), &format!("eve-{n}")).await;
        let until_refused = async { while eve.stream.write_all(bytes).await.is_ok() {} };
        let _ = timeout(Duration::from_secs(3), until_refused).await;
        let growth = resident().await - before;
        assert!(growth < MAX_GROWTH, "flood {n} made the balancer grow by {growth} bytes");
    }
    let closed = async || (mesh.balancer_metric("signaling_client_sockets", "").await == 0.0).then_some(());
    within(Duration::from_secs(15), "the floods to be closed", closed).await;
}

async fn small_messages() -> TestMesh {
    let limit = format!("--max-message-bytes={MAX_MESSAGE_BYTES}");
    TestMesh::with_servers((2, 1), &[&limit], &[&limit]).await
}

async fn violations(mesh: &TestMesh, label: &str) -> f64 {
    mesh.balancer_metric("signaling_client_violations_total", label).await
}
