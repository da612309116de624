//! A plain WebSocket client of the mesh, without any SDK.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected client.
pub struct Peer {
    pub socket: WebSocketStream<TcpStream>,
    pub welcome: Value,
}

impl Peer {
    pub async fn connect(url: &str, client_id: &str) -> Self {
        Self::try_connect(url, client_id).await.unwrap()
    }

    pub async fn connect_reliable(url: &str, client_id: &str) -> Self {
        Self::open(url, &format!("client_id={client_id}&reliable=1")).await.unwrap()
    }

    pub async fn resume(url: &str, client_id: &str, token: &str) -> Self {
        Self::open(url, &format!("client_id={client_id}&resume={token}")).await.unwrap()
    }

    pub async fn resume_reliable(url: &str, client_id: &str, token: &str) -> Self {
        Self::open(url, &format!("client_id={client_id}&resume={token}&reliable=1")).await.unwrap()
    }

    pub async fn connect_with(url: &str, client_id: &str, token: &str) -> Self {
        Self::open(url, &format!("client_id={client_id}&token={token}")).await.unwrap()
    }

    pub async fn try_connect(url: &str, client_id: &str) -> Result<Self, tungstenite::Error> {
        Self::open(url, &format!("client_id={client_id}")).await
    }

    async fn open(url: &str, query: &str) -> Result<Self, tungstenite::Error> {
        let stream = TcpStream::connect(url.trim_start_matches("ws://")).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(format!("{url}/v1/connect?{query}"), stream).await?;
        let mut peer = Self { socket, welcome: Value::Null };
        peer.welcome = peer.recv().await;
        assert_eq!(peer.welcome["type"], "welcome");
        Ok(peer)
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub async fn signal(&mut self, to: &str, data: Value, id: Option<u64>) {
        let mut message = json!({ "type": "signal", "to": to, "data": data });
        if let Some(id) = id {
            message["id"] = id.into();
        }
        self.send(&message).await;
    }

    pub async fn received(&mut self, n: u64) {
        self.send(&json!({ "type": "received", "n": n })).await;
    }

    /// Returns `true` if no message arrived before the answer to a `ping`.
    pub async fn has_nothing(&mut self) -> bool {
        self.send(&json!({ "type": "ping" })).await;
        self.recv().await["type"] == "pong"
    }

    pub async fn recv(&mut self) -> Value {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.expect("no message in time") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("instead of a message: {other:?}"),
            }
        }
    }

    /// Returns the next message of this type and discards others.
    pub async fn recv_type(&mut self, kind: &str) -> Value {
        loop {
            let message = self.recv().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Waits until the server closes and returns its close frame. Discards earlier messages.
    pub async fn closed(&mut self) -> Option<CloseFrame> {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.expect("not closed in time") {
                Some(Ok(Message::Close(frame))) => return frame,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Discards input until the socket closes, which answers pings meanwhile.
    pub async fn stay(&mut self) {
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    pub async fn close(self) {
        self.close_with(Some(1000)).await;
    }

    /// Sends a close frame with this code, or without one, and waits until the socket ends.
    pub async fn close_with(mut self, code: Option<u16>) {
        let frame = code.map(|code| CloseFrame { code: code.into(), reason: "".into() });
        let _ = self.socket.close(frame).await;
        while let Ok(Some(Ok(_))) = timeout(PATIENCE, self.socket.next()).await {}
    }
}

/// Sends a message from each client to the next one, over their existing sockets.
pub async fn talk(peers: &mut [(Peer, String)], what: &str) {
    for from in 0..peers.len() {
        let to = (from + 1) % peers.len();
        let recipient = peers[to].1.clone();
        peers[from].0.signal(&recipient, json!(what), Some(1)).await;
        assert_eq!(peers[to].0.recv_type("signal").await["data"], what);
        peers[from].0.recv_type("ack").await;
    }
}
