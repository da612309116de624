//! Tests with scripted, misbehaving servers in memory, on paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http::Uri;
use signaling_client::{Client, Dial, Ending, Event, Events, Fault, Options, State};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

struct Memory(mpsc::Sender<DuplexStream>);

impl Dial for Memory {
    type Stream = DuplexStream;

    async fn dial(&self, _: &Uri) -> io::Result<DuplexStream> {
        let (client, server) = tokio::io::duplex(64 * 1024);
        self.0.send(server).await.map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(client)
    }
}

fn client() -> (Client, Events, mpsc::Receiver<DuplexStream>) {
    let (dials, server) = mpsc::channel(1);
    let options = Options::new("me", ["ws://bad.example"]).unwrap();
    let (client, events) = Client::connect_by(options, Memory(dials));
    (client, events, server)
}

/// Accepts the client's next WebSocket and sends `welcome`.
async fn welcome(server: &mut mpsc::Receiver<DuplexStream>) -> WebSocketStream<DuplexStream> {
    #[allow(clippy::result_large_err, clippy::unnecessary_wraps)]
    let echo = |_: &Request, mut response: Response| {
        response.headers_mut().insert("sec-websocket-protocol", "signaling.v1".parse().unwrap());
        Ok(response)
    };
    let stream = server.recv().await.unwrap();
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, echo).await.unwrap();
    let text = r#"{"type":"welcome","client_id":"me","resume":"r","resumed":true,"heartbeat_ms":25000,"max_message_bytes":65536,"ice_servers":[]}"#;
    socket.send(Message::text(text)).await.unwrap();
    socket
}

/// Waits for the loss of the connection. Returns the wait before the next attempt, and the reason.
async fn loss(events: &mut Events) -> (Duration, Ending) {
    loop {
        match events.next().await.unwrap() {
            Event::State(State::Waiting { retry_in, why }) => return (retry_in, why),
            Event::State(State::Closed { why }) => panic!("closed: {why:?}"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_fails_after_4_s_without_an_upgrade() {
    let (_client, mut events, mut server) = client();
    let start = Instant::now();
    let _silent = server.recv().await.unwrap();
    assert_eq!(loss(&mut events).await.1, Ending::Fault(Fault::Unreachable));
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn client_waits_for_the_retry_after_of_a_refusal() {
    let (_client, mut events, mut server) = client();
    let mut stream = server.recv().await.unwrap();
    let _ = stream.read(&mut [0; 4096]).await.unwrap();
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    let (wait, why) = loss(&mut events).await;
    assert!(matches!(why, Ending::Refused { status: 503, .. }), "{why:?}");
    assert_eq!(wait, Duration::from_secs(7));
    let start = Instant::now();
    server.recv().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn client_closes_after_a_final_close_code() {
    for code in [1002, 1009, 4400, 4401, 4403, 4409, 4410, 4411] {
        let (client, mut events, mut server) = client();
        let receipt = client.signal("bob", &1).unwrap();
        let mut socket = welcome(&mut server).await;
        socket.close(Some(CloseFrame { code: CloseCode::from(code), reason: "why".into() })).await.unwrap();
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(event);
        }
        let Some(Event::State(State::Closed { why: Some(why) })) = last else { panic!("{code}: {last:?}") };
        assert_eq!(why, Ending::Closed { code, reason: "why".to_owned() });
        assert!(receipt.await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn client_reconnects_after_a_cut_or_invalid_frame() {
    for (bytes, cut) in [(&b"\x81\x7e\x01"[..], true), (&[0xff; 32], false), (b"\x81\x03{]{", false)] {
        let (_client, mut events, mut server) = client();
        let mut socket = welcome(&mut server).await;
        socket.get_mut().write_all(bytes).await.unwrap();
        let why = if cut {
            drop(socket);
            Ending::Closed { code: 1006, reason: String::new() }
        } else {
            Ending::Fault(Fault::ProtocolError)
        };
        assert_eq!(loss(&mut events).await.1, why, "{bytes:?}");
        welcome(&mut server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn application_that_reads_late_loses_no_events() {
    const MESSAGES: u64 = 3_000;
    let (_client, mut events, mut server) = client();
    let socket = welcome(&mut server).await;
    events.connected().await.unwrap();
    let (mut sink, mut stream) = socket.split();
    let serving = tokio::spawn(async move {
        for n in 1..=MESSAGES {
            let text = format!(r#"{{"type":"signal","from":"bob","data":{n},"n":{n},"m":"b-{n}"}}"#);
            sink.send(Message::text(text)).await.unwrap();
        }
        let too_slow = CloseFrame { code: CloseCode::from(4002), reason: "too slow".into() };
        sink.send(Message::Close(Some(too_slow))).await.unwrap();
    });
    let until_it_ends = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::time::timeout(Duration::from_secs(60), until_it_ends).await.expect_err("the client gave up");
    assert!(!serving.is_finished(), "the client read more than its queue takes");

    for n in 1..=MESSAGES {
        let event = events.next().await.unwrap();
        let Event::Signal(signal) = event else { panic!("instead of {n}: {event:?}") };
        assert_eq!(signal.parse::<u64>().unwrap(), n);
    }
    assert_eq!(loss(&mut events).await.1, Ending::Closed { code: 4002, reason: "too slow".to_owned() });
    welcome(&mut server).await;
}

/// The bounds are six standard deviations of a binomial distribution.
#[tokio::test(start_paused = true)]
async fn clients_reconnect_evenly_over_the_first_second() {
    let mut count_by_tenth = [0; 10];
    for _ in 0..1_000 {
        let (_client, mut events, mut server) = client();
        drop(server.recv().await.unwrap());
        let wait = loss(&mut events).await.0;
        count_by_tenth[(wait.as_millis() / 100) as usize] += 1;
    }
    assert!(count_by_tenth.iter().all(|count| (43..=157).contains(count)), "{count_by_tenth:?}");
}
