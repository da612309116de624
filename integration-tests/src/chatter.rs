//! A pair of well-behaved clients that exchange messages while others misbehave.

use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{Peer, TestMesh};

/// Minimum interval of messages.
const PACE: Duration = Duration::from_millis(10);
/// Minimum interval of messages for clients with a low rate limit.
const SLOW_PACE: Duration = Duration::from_millis(100);

/// The pair, in the background. Sends one message at a time, which must arrive in order and be
/// acknowledged.
pub struct Chatter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Talk>,
}

/// Result of the exchange.
#[derive(Debug)]
pub struct Talk {
    /// Time of each message from sending to its ack, in order.
    pub times: Vec<Duration>,
}

impl Talk {
    pub fn slowest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    pub fn p99(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).copied().unwrap_or_default()
    }
}

impl Chatter {
    pub async fn start(mesh: &TestMesh) -> Self {
        Self::with(mesh, PACE).await
    }

    pub async fn slow(mesh: &TestMesh) -> Self {
        Self::with(mesh, SLOW_PACE).await
    }

    async fn with(mesh: &TestMesh, pace: Duration) -> Self {
        let (from, to) = (mesh.connect_at("node-0", "chatter").await, mesh.connect_at("node-1", "listener").await);
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(talk(from, to, pace, stopped)) }
    }

    pub async fn stop(self) -> Talk {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

async fn talk(mut from: Peer, mut to: Peer, pace: Duration, mut stopped: oneshot::Receiver<()>) -> Talk {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Vec::new();
    for id in 1_u64.. {
        ticks.tick().await;
        if stopped.try_recv() != Err(oneshot::error::TryRecvError::Empty) {
            break;
        }
        let sent = Instant::now();
        from.signal(&to.id, json!(id), Some(id)).await;
        assert_eq!(to.recv().await["data"], id);
        assert_eq!(from.recv().await, json!({ "type": "ack", "id": id }));
        // The first message is not timed: nodes that have just started may not have a common view
        // yet.
        if id > 1 {
            times.push(sent.elapsed());
        }
    }
    Talk { times }
}
