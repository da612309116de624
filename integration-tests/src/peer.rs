//! A plain WebSocket client of the mesh, without any SDK.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::http::host;

const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connected client, over TCP or another stream.
pub struct Peer<S = TcpStream> {
    /// The `client_id`.
    pub id: String,
    pub socket: WebSocketStream<S>,
    /// The `welcome` message.
    pub welcome: Value,
}

impl Peer {
    /// Connects a plain client. Panics if the server refuses it.
    pub async fn connect(url: &str, client_id: &str) -> Self {
        Self::open(url, client_id, "").await.unwrap()
    }

    /// Connects with an access token (JWT). Panics if the server refuses it.
    pub async fn connect_with(url: &str, client_id: &str, token: &str) -> Self {
        Self::open(url, client_id, &format!("&token={token}")).await.unwrap()
    }

    /// Connects a client with `more` query parameters, `&NAME=VALUE`.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn open(url: &str, client_id: &str, more: &str) -> Result<Self, Error> {
        let stream = TcpStream::connect(host(url)).await?;
        stream.set_nodelay(true)?;
        Self::over(stream, client_id, more).await
    }

    /// Connects plain clients, one after the other. Panics if the server refuses one.
    pub async fn connect_all(url: &str, ids: impl IntoIterator<Item = String>) -> Vec<Self> {
        let mut peers = Vec::new();
        for id in ids {
            peers.push(Self::connect(url, &id).await);
        }
        peers
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Connects a client over an open stream, with `more` query parameters, `&NAME=VALUE`. Panics
    /// if the first message is no `welcome`.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn over(stream: S, client_id: &str, more: &str) -> Result<Self, Error> {
        let (socket, _) =
            client_async(format!("ws://localhost/v1/connect?client_id={client_id}{more}"), stream).await?;
        let mut peer = Self { id: client_id.to_owned(), socket, welcome: Value::Null };
        peer.welcome = peer.recv().await;
        assert_eq!(peer.welcome["type"], "welcome");
        Ok(peer)
    }

    /// Returns the token that resumes the session.
    pub fn resume_token(&self) -> String {
        self.welcome["resume"].as_str().unwrap().to_owned()
    }

    /// Sends a JSON message. Panics if the socket has ended.
    pub async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    /// Sends a text message. Panics if the socket has ended.
    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Sends a signal. With an `id` the server answers with an `ack` or `error`. Panics if the
    /// socket has ended.
    pub async fn signal(&mut self, to: &str, data: Value, id: Option<u64>) {
        let mut message = json!({ "type": "signal", "to": to, "data": data });
        if let Some(id) = id {
            message["id"] = id.into();
        }
        self.send(&message).await;
    }

    /// Sends `received` for all messages up to number `n`, as reliable clients do.
    pub async fn received(&mut self, n: u64) {
        self.send(&json!({ "type": "received", "n": n })).await;
    }

    /// Returns `true` if no message arrived before the answer to a `ping`. Else discards the first.
    pub async fn has_nothing(&mut self) -> bool {
        self.send(&json!({ "type": "ping" })).await;
        self.recv().await["type"] == "pong"
    }

    /// Returns the next message. Panics if none arrives within 30 s.
    pub async fn recv(&mut self) -> Value {
        let message = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => panic!("instead of a message: {other:?}"),
                }
            }
        };
        timeout(MESSAGE_TIMEOUT, message).await.expect("no message in time")
    }

    /// Returns the next message of this type and discards others. Panics after 30 s without any.
    pub async fn recv_type(&mut self, kind: &str) -> Value {
        self.recv_any(&[kind]).await
    }

    /// Returns the next message whose type is in `kinds` and discards others. Panics after 30 s
    /// without any.
    pub async fn recv_any(&mut self, kinds: &[&str]) -> Value {
        loop {
            let message = self.recv().await;
            if kinds.iter().any(|kind| message["type"] == *kind) {
                return message;
            }
        }
    }

    /// Waits until the server closes and returns the code of its close frame; `None` without one.
    /// Discards earlier messages. Panics after 30 s without any.
    pub async fn closed(&mut self) -> Option<u16> {
        loop {
            match timeout(MESSAGE_TIMEOUT, self.socket.next()).await.expect("not closed in time") {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Waits until the server sends `goodbye`, with a retry after at most 1 s, and closes the
    /// socket with this code. Discards earlier messages. Panics after 30 s without any.
    pub async fn until_sent_away(&mut self, code: u16) {
        let goodbye = self.recv_type("goodbye").await;
        assert!(goodbye["retry_after_ms"].as_u64().unwrap() <= 1_000, "{goodbye}");
        assert_eq!(self.closed().await, Some(code), "{}", self.id);
    }

    /// Discards input until the socket closes, which answers pings meanwhile.
    pub async fn discard_input(&mut self) {
        while let Some(Ok(_)) = self.socket.next().await {}
    }

    /// Sends a close frame with code 1000 and waits until the socket ends, or is silent for 30 s.
    pub async fn close(self) {
        self.close_with(Some(1000)).await;
    }

    /// As [`Self::close`] with this code; `None`: a close frame without a code.
    pub async fn close_with(mut self, code: Option<u16>) {
        let frame = code.map(|code| CloseFrame { code: code.into(), reason: "".into() });
        let _ = self.socket.close(frame).await;
        while let Ok(Some(Ok(_))) = timeout(MESSAGE_TIMEOUT, self.socket.next()).await {}
    }
}

/// Sends a message from one client to another. Panics unless it and its ack are the next messages,
/// within 30 s each.
pub async fn exchange<S: AsyncRead + AsyncWrite + Unpin, T: AsyncRead + AsyncWrite + Unpin>(
    (from, to): (&mut Peer<S>, &mut Peer<T>),
    data: &Value,
    id: u64,
) {
    from.signal(&to.id, data.clone(), Some(id)).await;
    assert_eq!(to.recv().await, json!({ "type": "signal", "from": from.id, "data": data, "id": id }));
    assert_eq!(from.recv().await, json!({ "type": "ack", "id": id }));
}

/// Sends a message from each client to the next one, over their existing sockets. Panics if one
/// does not arrive, or has no ack, within 30 s.
pub async fn talk(peers: &mut [Peer], what: &str) {
    for from in 0..peers.len() {
        let to = (from + 1) % peers.len();
        let recipient = peers[to].id.clone();
        peers[from].signal(&recipient, json!(what), Some(1)).await;
        assert_eq!(peers[to].recv_type("signal").await["data"], what);
        peers[from].recv_type("ack").await;
    }
}
