//! With the SDK on both sides, messages go from application to application exactly once and in
//! order during every fault.

use std::time::Duration;

use signaling_client::{Client, Event, Options, SavedSession};
use signaling_integration_tests::{Relay, TestMesh, eventually};
use signaling_server::process::raise_open_files;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

const PAIRS: usize = 200;
/// Interval of each pair's messages: 1,000 messages/s of all.
const SEND_INTERVAL: Duration = Duration::from_millis(200);
const CUT: Duration = Duration::from_secs(5);
/// Time between two faults.
const CALM: Duration = Duration::from_secs(2);
/// Time limit until the last message has arrived and is acknowledged.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn messages_of_sdk_clients_arrive_once_in_order_whatever_dies() {
    raise_open_files().unwrap();
    let mesh = TestMesh::with_servers((3, 2), &[], &[]).await;
    let mut relays = Vec::new();
    for balancer in mesh.state().balancers {
        relays.push(Relay::to(&[&balancer.url]).await);
    }
    let urls: Vec<_> = relays.iter().map(|relay| format!("ws://{}", relay.address)).collect();
    let (step, steps) = watch::channel(Step::Talk);
    let mut pairs = JoinSet::new();
    for pair in 0..PAIRS {
        let urls = if pair % 2 == 0 { urls.clone() } else { urls.iter().rev().cloned().collect() };
        pairs.spawn(talk(pair, urls, steps.clone()));
    }
    all_are_connected(&mesh).await;
    sleep(CALM).await;

    mesh.kill("balancer-0").await.unwrap();
    all_are_connected(&mesh).await;
    mesh.restart("balancer-0").await.unwrap();
    sleep(CALM).await;

    mesh.kill("node-1").await.unwrap();
    sleep(CALM).await;
    all_are_connected(&mesh).await;

    relays.iter().for_each(Relay::hold);
    sleep(CUT / 2).await;
    let before = uplink_frames(&mesh).await;
    sleep(CUT / 2).await;
    assert_eq!(uplink_frames(&mesh).await, before, "clients are cut off");
    relays.iter().for_each(Relay::let_go);
    sleep(CALM).await;
    all_are_connected(&mesh).await;

    step.send_replace(Step::Reload);
    sleep(CALM).await;
    all_are_connected(&mesh).await;
    sleep(CALM).await;

    step.send_replace(Step::End);
    let mut messages = 0;
    while let Some(sent) = timeout(SETTLE_TIMEOUT, pairs.join_next()).await.expect("some pair is not done") {
        messages += sent.unwrap();
    }
    println!("{messages} messages of {PAIRS} pairs, each delivered once and in order");
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Talk,
    /// Each side continues like another process, with the saved session.
    Reload,
    End,
}

/// Runs one pair. All its messages must arrive, once and in order. Returns their number.
async fn talk(pair: usize, urls: Vec<String>, steps: watch::Receiver<Step>) -> u64 {
    let (from, to) = (format!("from-{pair}"), format!("to-{pair}"));
    let (count, counts) = watch::channel(None);
    let listening = tokio::spawn(listen(Options::new(&to, &urls).unwrap(), steps.clone(), counts));
    let sent = send(Options::new(&from, &urls).unwrap(), &to, steps).await;
    count.send_replace(Some(sent));
    listening.await.unwrap();
    sent
}

async fn send(options: Options, to: &str, mut steps: watch::Receiver<Step>) -> u64 {
    let (mut client, mut events) = Client::connect(options.clone());
    let mut ticks = interval(SEND_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut receipts = JoinSet::new();
    let mut sent = 0_u64;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                sent += 1;
                let receipt = client.signal(to, &sent).unwrap();
                receipts.spawn(async move { (sent, receipt.await) });
            }
            Some(outcome) = receipts.join_next() => {
                let (number, outcome) = outcome.unwrap();
                assert!(outcome.is_ok(), "{number} to {to}: {outcome:?}");
            }
            event = events.next() => assert!(event.is_some(), "the client of {to} has closed"),
            Ok(()) = steps.changed() => match *steps.borrow_and_update() {
                Step::Reload => {
                    // The next client has the unacknowledged messages.
                    receipts.detach_all();
                    (client, events) = Client::connect(options.clone().session(saved_session(&client)));
                }
                _ => break,
            },
        }
    }
    while let Some(outcome) = receipts.join_next().await {
        let (number, outcome) = outcome.unwrap();
        assert!(outcome.is_ok(), "{number} to {to}: {outcome:?}");
    }
    sent
}

/// Receives the numbers in order, up to the last one.
async fn listen(options: Options, mut steps: watch::Receiver<Step>, mut last: watch::Receiver<Option<u64>>) {
    let (mut client, mut events) = Client::connect(options.clone());
    let mut received = 0;
    loop {
        if *last.borrow_and_update() == Some(received) {
            return;
        }
        tokio::select! {
            event = events.next() => receive(&mut received, event.unwrap_or_else(|| panic!("{options:?} has closed"))),
            Ok(()) = last.changed() => {}
            Ok(()) = steps.changed() => {
                if *steps.borrow_and_update() == Step::Reload {
                    let session = saved_session(&client);
                    while let Some(event) = events.next().await {
                        receive(&mut received, event);
                    }
                    (client, events) = Client::connect(options.clone().session(session));
                }
            }
        }
    }
}

fn receive(received: &mut u64, event: Event) {
    if let Event::Signal(signal) = event {
        let number: u64 = signal.parse().unwrap();
        assert_eq!(number, *received + 1, "from {}", signal.from);
        *received = number;
    }
}

/// Saves the session as text, as for another process.
fn saved_session(client: &Client) -> SavedSession {
    let session = client.detach().expect("the client is open");
    serde_json::from_str(&serde_json::to_string(&session).unwrap()).unwrap()
}

async fn all_are_connected(mesh: &TestMesh) {
    let sockets = async || mesh.metrics("balancer-", "signaling_client_sockets", "").await.iter().sum::<f64>();
    eventually("all clients to be connected", async || sockets().await >= (2 * PAIRS) as f64).await;
}

async fn uplink_frames(mesh: &TestMesh) -> f64 {
    mesh.metrics("balancer-", "signaling_uplink_frames_total", "").await.iter().sum::<f64>()
}
