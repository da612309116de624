//! A client above its rate gets errors and is then closed. A client at its rate continues. Other
//! clients do not notice.

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::raw_socket::{PING, PONG, TEXT, frame};
use signaling_integration_tests::{Chatter, Peer, RawSocket, Signer, TestMesh, claims_with, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, interval, timeout};

const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
const LIMITED: &str = "signaling_rate_limited_total";

#[tokio::test]
async fn rate_class_limits_its_clients_only() {
    let signer = Signer::hs256();
    // Of the usual 1,000 messages and 4 MiB at once that is 25 messages and 256 KiB.
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &["--rate-classes=bots=5/65536"]).await;
    let connect = async |name: &str, others: Value| {
        Peer::connect_with(&mesh.url(), name, &signer.token(&claims_with(name, &others))).await
    };
    let small = json!({ "type": "ice_servers" });
    let large = json!({ "type": "ice_servers", "unknown": "x".repeat(60_000) });
    for (name, message, times, at_once, per_second, why) in [
        ("chatty", &small, 100, 25.0, 5.0, "too many messages"),
        ("verbose", &large, 10, 4.0, 65_536.0 / 60_000.0, "too many bytes"),
    ] {
        let mut bot = connect(name, json!({ "rate_class": "bots" })).await;
        let start = Instant::now();
        let passed = passed(&mut bot, message, times, why).await;
        let most = at_once + per_second * start.elapsed().as_secs_f64() + 1.0;
        assert!((at_once..=most).contains(&passed), "{name}: {passed}, not {at_once} to {most}");
    }
    for (name, others) in [("ada", json!({})), ("eve", json!({ "rate_class": "unheard-of" }))] {
        let mut peer = connect(name, others).await;
        assert_eq!(passed(&mut peer, &small, 100, "").await, 100.0, "{name}");
        assert_eq!(passed(&mut peer, &large, 10, "").await, 10.0, "{name}");
    }
}

#[tokio::test]
async fn flood_is_refused_then_closed_beside_other_clients() {
    let mesh = TestMesh::with_servers((2, 1), &[], &["--message-rate=30/20000"]).await;
    let talk = Chatter::every(Duration::from_millis(100), &mesh).await;
    let messages = async {
        let text = r#"{"type":"signal","to":"flood-1","data":1,"id":7}"#;
        flood(&mesh, "flood-1", text.as_bytes(), Duration::from_millis(2), "too many messages").await
    };
    let bytes = async {
        let text = format!(r#"{{"type":"broadcast","room":"r","data":"{}","id":8}}"#, "x".repeat(5_000));
        flood(&mesh, "flood-2", text.as_bytes(), Duration::from_millis(60), "too many bytes").await
    };
    let pings = async {
        for kind in [PING, PONG, TEXT] {
            let mut socket = RawSocket::connect(&mesh.address(), &format!("flood-{kind}")).await;
            socket.send(&frame(kind, br#"{"type":"ping"}"#).repeat(110)).await;
            let (code, reason) = socket.closed().await;
            assert_eq!((code, reason.as_str()), (1008, "you send pings or pongs too often"));
        }
    };
    let (error, of_bytes, ()) = tokio::join!(messages, bytes, pings);
    assert_eq!((&error["id"], &error["to"]), (&json!(7), &json!("flood-1")), "{error}");
    assert_eq!((&of_bytes["id"], &of_bytes["room"]), (&json!(8), &json!("r")), "{of_bytes}");
    until(&mesh.balancer_internal(), LIMITED, "sockets", |closed| closed == 5.0).await;
    assert!(mesh.balancer_metric(LIMITED, "messages").await > 100.0);
    assert!(mesh.balancer_metric(LIMITED, "bytes").await > 10.0);
    let talk = talk.stop().await;
    assert!(talk.p99 < Duration::from_millis(250), "{talk:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_behind_a_broken_frame_delay_no_other_client() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
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
    assert!(talk.messages > 20, "{talk:?}");
    assert!(talk.slowest < Duration::from_millis(1_500), "{talk:?}");
}

/// Sends a message `times` times, each after the answer to the one before. Returns the number that
/// passed. All others are refused with the text `why`.
async fn passed(peer: &mut Peer, message: &Value, times: usize, why: &str) -> f64 {
    let mut passed = 0.0;
    for _ in 0..times {
        peer.send(message).await;
        let answer = peer.recv().await;
        if answer["type"] == message["type"] {
            passed += 1.0;
        } else {
            assert_eq!((&answer["code"], &answer["message"]), (&json!("rate_limited"), &json!(why)), "{answer}");
        }
    }
    passed
}

/// Sends a message again and again until the socket is closed with 4029, after about 5 s of
/// refusals. Returns the first refusal.
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
    let _ = timeout(CLOSE_TIMEOUT, reader.read_to_end(&mut all)).await.expect("the flood is not closed");
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
