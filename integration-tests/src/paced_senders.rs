//! Background clients: senders at a steady pace, listeners, and clients that connect again and
//! again.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::Message;

use crate::Peer;

/// Clients that run until they are closed, or this is dropped.
#[derive(Default)]
pub struct PacedSenders(JoinSet<()>);

impl PacedSenders {
    /// Connects a client that sends `rate` messages/s, each with `bytes` bytes of data, to another
    /// client, without ids. `ttl_ms` limits their hold time in milliseconds; `None` leaves it to
    /// the node. Panics if the server refuses it. A lost socket ends the client.
    pub async fn writes(&mut self, url: &str, id: &str, to: &str, (rate, bytes): (u32, usize), ttl_ms: Option<u64>) {
        let (mut sink, mut stream) = Peer::connect(url, id).await.socket.split();
        let mut message = json!({ "type": "signal", "to": to, "data": "x".repeat(bytes) });
        if let Some(ttl_ms) = ttl_ms {
            message["ttl_ms"] = Value::from(ttl_ms);
        }
        let text = message.to_string();
        self.0.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let writing = async {
                loop {
                    ticks.tick().await;
                    if sink.send(Message::text(text.clone())).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = writing => {}
                () = async { while let Some(Ok(_)) = stream.next().await {} } => {}
            }
        });
    }

    /// Connects a client that reads and discards its input. Panics if the server refuses it.
    pub async fn listens(&mut self, url: &str, id: &str) {
        let mut peer = Peer::connect(url, id).await;
        self.0.spawn(async move { peer.discard_input().await });
    }

    /// Starts a client that connects and closes at each interval, also after refusals.
    pub fn reconnects(&mut self, url: &str, id: &str, every: Duration) {
        let (url, id) = (url.to_owned(), id.to_owned());
        self.0.spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Ok(peer) = Peer::open(&url, &id, "").await {
                    peer.close().await;
                }
            }
        });
    }
}
