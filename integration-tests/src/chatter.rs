//! A pair of well-behaved clients that exchange messages while others misbehave.

use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{Peer, TestMesh, exchange};

/// The pair, in the background. Sends one message at a time, which must arrive in order and be
/// acknowledged.
pub struct Chatter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<Duration>>,
}

/// Result of the exchange. Times are from sending to the ack.
#[derive(Debug)]
pub struct Talk {
    /// Number of timed messages: all but the first.
    pub messages: usize,
    /// Time that 99% of the messages do not exceed; 0 without messages.
    pub p99: Duration,
    /// Time of the slowest message; 0 without messages.
    pub slowest: Duration,
}

impl Chatter {
    /// Starts the pair, at node-0 and node-1, with at most one message per 10 ms.
    pub async fn start(mesh: &TestMesh) -> Self {
        Self::every(Duration::from_millis(10), mesh).await
    }

    /// Starts the pair with a minimum interval of messages.
    pub async fn every(pace: Duration, mesh: &TestMesh) -> Self {
        let (from, to) =
            (mesh.peer_owned_by("node-0", "chatter").await, mesh.peer_owned_by("node-1", "listener").await);
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(talk(from, to, pace, stopped)) }
    }

    /// Stops after the current message. Panics if a message was lost, duplicated or reordered, or
    /// took over 30 s.
    pub async fn stop(self) -> Talk {
        let _ = self.stop.send(());
        let mut times = self.task.await.unwrap();
        times.sort_unstable();
        let time = |place: usize| times.get(place).copied().unwrap_or_default();
        let messages = times.len();
        let talk = Talk { messages, p99: time(messages * 99 / 100), slowest: time(messages.saturating_sub(1)) };
        println!("{talk:?}");
        talk
    }
}

async fn talk(mut from: Peer, mut to: Peer, pace: Duration, mut stopped: oneshot::Receiver<()>) -> Vec<Duration> {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Vec::new();
    for id in 1_u64.. {
        ticks.tick().await;
        if stopped.try_recv() != Err(oneshot::error::TryRecvError::Empty) {
            break;
        }
        let sent = Instant::now();
        exchange((&mut from, &mut to), &json!(id), id).await;
        // The first message is not timed: nodes that have just started may not have a common view
        // yet.
        if id > 1 {
            times.push(sent.elapsed());
        }
    }
    times
}
