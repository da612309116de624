//! Server parts that tests play themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use futures_util::SinkExt as _;
use signaling_client::{Ending, Event, Events, State};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

/// Accepts a client's WebSocket and sends `welcome`; `None` if the client gives up.
pub(crate) async fn welcomed<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Option<WebSocketStream<S>> {
    #[allow(clippy::result_large_err, clippy::unnecessary_wraps)]
    let echo = |_: &Request, mut response: Response| {
        response.headers_mut().insert("sec-websocket-protocol", "signaling.v1".parse().unwrap());
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, echo).await.ok()?;
    let text = r#"{"type":"welcome","client_id":"me","resume":"r","resumed":true,"heartbeat_ms":25000,"max_message_bytes":65536,"ice_servers":[]}"#;
    socket.send(Message::text(text)).await.unwrap();
    Some(socket)
}

/// Waits for the loss of the connection. Returns the wait before the next attempt, and the reason.
pub(crate) async fn loss(events: &mut Events) -> (Duration, Ending) {
    loop {
        match events.next().await.unwrap() {
            Event::State(State::Waiting { retry_in, why }) => return (retry_in, why),
            Event::State(State::Closed { why }) => panic!("closed: {why:?}"),
            _ => {}
        }
    }
}
