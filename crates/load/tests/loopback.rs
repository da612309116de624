//! The harness against a correct relay, and against relays with deliberate faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use clap::Parser as _;
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_load::report::Report;
use signaling_load::scenarios::Cli;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

#[test]
fn lost_duplicated_and_swapped_messages_are_counted() {
    let arguments = ["--clients=2", "--rate=500", "--settle-ms=100", "--warmup=0"];
    let failures = |relay| steady(relay, &arguments).unwrap().failures;

    // Each of two directions has 250 messages, and each tenth fails; a lost tenth counts as lost
    // only.
    assert_eq!(failures(Relay::LosesTenths), ["50 messages lost"]);
    assert_eq!(failures(Relay::DoublesTenths), ["50 messages duplicated"]);
    assert_eq!(failures(Relay::DelaysTenths), ["2 messages lost", "48 messages reordered"]);
}

#[test]
fn failures_are_explained() {
    let short = ["--clients=4", "--rate=100", "--settle-ms=10", "--warmup=0"];
    let large = ["--clients=2", "--rate=1000", "--size=60000", "--settle-ms=10", "--warmup=0"];
    let resumed = [&short[..], &["--resume"]].concat();
    let limited = [&short[..], &["--max-p99-ms=0.000001"]].concat();
    let cases: [(Relay, &[&str], &[&str]); 5] = [
        (Relay::Refuses, &short, &["100 messages lost"]),
        (Relay::ClosesFirst, &short, &["1 sockets closed: 1013"]),
        (Relay::ClosesFirst, &resumed, &["sockets closed: 1013", "came back and got a new session"]),
        (Relay::NeverReads, &large, &["of the schedule was sent"]),
        (Relay::Faithful, &limited, &["p99 of the latency is "]),
    ];
    for (relay, arguments, expected) in cases {
        let outcome = steady(relay, arguments).unwrap();

        let failures = &outcome.failures;
        for expected in expected {
            assert!(failures.iter().any(|failure| failure.contains(expected)), "no {expected}: {failures:?}");
        }
        if relay == Relay::Refuses {
            assert_eq!(json(&outcome)["received"]["recipient_unavailable"], 100);
        }
    }
}

#[test]
fn refused_client_ends_the_run_with_the_status() {
    let error = format!("{:#}", steady(Relay::Full, &["--clients=2"]).unwrap_err());

    assert!(error.contains("refused with 503"), "{error}");
}

#[test]
fn idle_clients_are_held_and_named_processes_are_measured() {
    let own = format!("--also=relay={}", std::process::id());
    let outcome = run(Relay::Faithful, &["idle", "--clients=10", "--seconds=1", &own]).unwrap();

    assert_eq!(outcome.failures, Vec::<String>::new());
    assert_eq!(json(&outcome)["costs"]["processes"][0]["name"], "relay");
    assert!(json(&outcome)["bytes_per_client"].is_number());
    assert!(outcome.text().contains("bytes_per_client"), "{}", outcome.text());
}

#[test]
fn calls_are_set_up_unless_the_relay_loses_parts() {
    let calls = |relay: Relay| {
        let arguments = ["calls", "--clients=10", "--rate=10", "--seconds=1", "--warmup=0", "--settle-ms=100"];
        run(relay, &[&arguments[..], &["--gather-ms=20"]].concat()).unwrap()
    };

    let (whole, lossy) = (calls(Relay::Faithful), calls(Relay::LosesTenths));

    assert_eq!(whole.failures, Vec::<String>::new());
    assert_eq!(json(&whole)["calls"]["set_up"], 10);
    assert!(lossy.failures[0].contains("messages lost"), "{:?}", lossy.failures);
    assert_eq!(json(&lossy)["set_up_us"]["count"], json(&lossy)["calls"]["set_up"]);
    assert!(lossy.failures[1].contains("calls never set up"), "{:?}", lossy.failures);
}

#[test]
fn cut_clients_come_back_and_failed_acts_are_failures() {
    let arguments = ["drill", "--clients=20", "--rate=100", "--warmup=0", "--seconds=6", "--settle-ms=5000"];

    let outcome =
        run(Relay::Faithful, &[&arguments[..], &["--act=1 cut 50%", "--act=2 kill node-1"]].concat()).unwrap();

    let report = json(&outcome);
    // The relay also closes clients that send to a client that is gone.
    assert!(report["acts"][0]["sockets_lost"].as_u64() >= Some(10), "{report}");
    assert!(report["returns"]["returned"].as_u64() >= Some(10), "{report}");
    assert_eq!(report["returns"]["away"], 0);
    let has = |what: &str| outcome.failures.iter().any(|failure| failure.contains(what));
    assert!(has("kill node-1: only `cut` works without --dir"), "{:?}", outcome.failures);
}

fn steady(relay: Relay, arguments: &[&str]) -> anyhow::Result<Report> {
    run(relay, &[&["steady", "--seconds=1"], arguments].concat())
}

fn run(relay: Relay, arguments: &[&str]) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = LocalSet::new().block_on(&runtime, async {
        let url = relay.start().await;
        Cli::parse_from([&["mesh-load"], arguments, &["--url", &url]].concat()).scenario.run().await
    })?;
    Ok(report.expect("the first process reports"))
}

fn json(outcome: &Report) -> serde_json::Value {
    serde_json::from_str(&outcome.json().unwrap()).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relay {
    Faithful,
    LosesTenths,
    DoublesTenths,
    /// Each tenth message waits for the next tenth one.
    DelaysTenths,
    Refuses,
    ClosesFirst,
    NeverReads,
    Full,
}

#[derive(Deserialize)]
struct Signal<'a> {
    to: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

type Peers = Rc<RefCell<HashMap<String, mpsc::Sender<String>>>>;

impl Relay {
    /// Serves for the duration of the test. Returns its URL.
    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        spawn_local(async move {
            let peers = Peers::default();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                spawn_local(self.serve(stream, Rc::clone(&peers)));
            }
        });
        url
    }

    async fn serve(self, stream: TcpStream, peers: Peers) -> Option<()> {
        let mut id = String::new();
        #[allow(clippy::result_large_err)]
        let greet = |request: &Request, response: Response| {
            if self == Self::Full {
                return Err(http::Response::builder().status(503).body(None).unwrap());
            }
            assert_eq!(request.uri().path(), "/v1/connect");
            let query = request.uri().query().unwrap().strip_prefix("client_id=").unwrap();
            id = query.split('&').next().unwrap().to_owned();
            Ok(response)
        };
        let mut socket = accept_hdr_async(stream, greet).await.ok()?;
        let (outbox, mut inbox) = mpsc::channel(10_000);
        peers.borrow_mut().insert(id.clone(), outbox);
        socket.send(Message::text(r#"{"type":"welcome","resume":"token","resumed":false}"#)).await.ok()?;
        match self {
            Self::NeverReads => std::future::pending::<()>().await,
            Self::ClosesFirst if id == "load-0" => {
                let frame = CloseFrame { code: 1013.into(), reason: "".into() };
                socket.next().await;
                return socket.close(Some(frame)).await.ok();
            }
            _ => {}
        }
        let (mut count, mut delayed) = (0, None);
        loop {
            tokio::select! {
                text = inbox.recv() => socket.send(Message::text(text?)).await.ok()?,
                frame = socket.next() => {
                    let Message::Text(text) = frame?.ok()? else { continue };
                    let signal: Signal<'_> = serde_json::from_str(&text).unwrap();
                    let passed = format!("{{\"type\":\"signal\",\"from\":\"{id}\",\"data\":{}}}", signal.data);
                    let peer = peers.borrow_mut().get(signal.to).cloned()?;
                    count += 1;
                    let copies = match self {
                        Self::LosesTenths if count % 10 == 0 => vec![],
                        Self::DoublesTenths if count % 10 == 0 => vec![passed.clone(), passed],
                        Self::DelaysTenths if count % 10 == 0 => delayed.replace(passed).into_iter().collect(),
                        Self::Refuses => {
                            let error = "{\"type\":\"error\",\"code\":\"recipient_unavailable\",\"message\":\"no\"}";
                            socket.send(Message::text(error)).await.ok()?;
                            vec![]
                        }
                        _ => vec![passed],
                    };
                    for copy in copies {
                        peer.send(copy).await.ok()?;
                    }
                }
            }
        }
    }
}
