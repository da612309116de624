//! Carrying batches over a trunk's WebSocket. While a write is under way the next batch gathers in the core. The accepting end does so by
//! a task of its own ([`carry`]); the opening end is [`Opened`], watched by whoever has other sockets to watch.

mod opened;
mod overheard;

use std::cell::Cell;
use std::time::Duration;

use ::http::HeaderValue;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use signaling_protocol::limits::{self, PING_AFTER, SUSPECT_AFTER};
use signaling_protocol::trunk::{EDGE_HEADER, INTERNAL_PORT_HEADER, OFFER, PATH, Version};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use self::overheard::Overheard;
use crate::metrics::TrunkMetrics;
use crate::{Secret, Wake};

pub use self::opened::Opened;

/// How often silence is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the last word may take.
const FAREWELL: Duration = Duration::from_millis(100);
/// One read takes many frames.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// What stands behind a trunk's end.
pub trait Terminal {
    /// Takes in a run of frames. If the trunk has been given up here, they are passed over: [`Terminal::give_out`] says so.
    ///
    /// # Errors
    /// If they are none, in the terminal's words: the trunk is then closed.
    fn take_in(&self, frames: &[u8]) -> Result<(), String>;

    /// Gives out what waits to be carried, the next batch of it; none if the trunk must be closed.
    fn give_out(&self) -> Option<Vec<u8>>;
}

/// Why a trunk ended.
#[derive(Debug, thiserror::Error)]
pub enum TrunkEnd {
    /// The other end closed it.
    #[error("the other end closed it")]
    Closed,
    /// Nothing came for 2 s, not even an answer to a ping.
    #[error("nothing came for {SUSPECT_AFTER:?}")]
    Silent,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] tungstenite::Error),
    /// The other end sent what is no frame of this protocol.
    #[error("{0}")]
    Nonsense(String),
    /// This end has closed it.
    #[error("closed from here")]
    Given,
}

impl TrunkEnd {
    pub(crate) fn as_label(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::Failed(_) => "failed",
            Self::Nonsense(_) => "nonsense",
            Self::Given => "given",
        }
    }
}

/// How trunks use WebSocket: bounded, and no write held back.
#[must_use]
pub fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_MESSAGE_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}

/// A batch of what must not wait, and one of fates behind it.
const MAX_MESSAGE_BYTES: usize = 2 * limits::MAX_BATCH_BYTES;

/// The accepting end over a socket whose upgrade has been answered.
pub async fn accepted(stream: TcpStream, early: Bytes) -> WebSocketStream<TcpStream> {
    WebSocketStream::from_partially_read(stream, early.to_vec(), Role::Server, Some(config())).await
}

/// The opening end: connects and asks for a trunk. It says who it is, and at which port its own internal listener is. The answer
/// says which frames the trunk may carry. Call it within a runtime.
///
/// # Errors
/// If the node cannot be reached, or refuses.
pub async fn open(
    address: &str,
    secret: &Secret,
    own_id: &str,
    own_internal_port: u16,
) -> Result<(Opened, Version), tungstenite::Error> {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let mut request = format!("ws://{address}{PATH}").into_client_request()?;
    let headers = request.headers_mut();
    headers.insert(::http::header::AUTHORIZATION, secret.bearer());
    headers.insert(::http::header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(OFFER));
    headers.insert(EDGE_HEADER, HeaderValue::from_str(own_id).map_err(::http::Error::from)?);
    headers.insert(INTERNAL_PORT_HEADER, HeaderValue::from(own_internal_port));
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (socket, answer) =
        tokio_tungstenite::client_async_with_config(request, Overheard::new(stream), Some(config())).await?;
    let agreed = answer.headers().get(::http::header::SEC_WEBSOCKET_PROTOCOL).and_then(|version| version.to_str().ok());
    let version = agreed.and_then(Version::best_of).unwrap_or(Version::V1);
    let (stream, early) = socket.into_inner().into_parts();
    let stream = mio::net::TcpStream::from_std(stream.into_std()?);
    Ok((Opened::new(stream, &early), version))
}

/// Carries until the trunk ends. Says why it did.
pub async fn carry(socket: WebSocketStream<TcpStream>, wake: &Wake, terminal: &impl Terminal) -> TrunkEnd {
    let (sink, stream) = socket.split();
    let trunk = Carried {
        wake,
        terminal,
        metrics: TrunkMetrics::opened(),
        heard: Cell::new(Instant::now()),
        writes_since: Cell::new(None),
        asks: Cell::new(false),
    };
    // Each of them is looked at only when it has something to do itself.
    let parts: [LocalBoxFuture<'_, TrunkEnd>; 3] =
        [Box::pin(trunk.read(stream)), Box::pin(trunk.write(sink)), Box::pin(trunk.look())];
    let end = parts.into_iter().collect::<FuturesUnordered<_>>().next().await.unwrap_or(TrunkEnd::Given);
    trunk.metrics.ended(&end);
    end
}

struct Carried<'a, T> {
    wake: &'a Wake,
    terminal: &'a T,
    metrics: TrunkMetrics,
    heard: Cell<Instant>,
    /// Since when a write has been under way, if one is.
    writes_since: Cell<Option<Instant>>,
    /// The other end is to be asked for a sign of life.
    asks: Cell<bool>,
}

impl<T: Terminal> Carried<'_, T> {
    async fn read(&self, mut stream: SplitStream<WebSocketStream<TcpStream>>) -> TrunkEnd {
        while let Some(message) = stream.next().await {
            self.heard.set(Instant::now());
            match message {
                Ok(Message::Binary(frames)) => {
                    self.metrics.read(frames.len());
                    if let Err(error) = self.terminal.take_in(&frames) {
                        return TrunkEnd::Nonsense(error);
                    }
                }
                Ok(Message::Close(_)) => return TrunkEnd::Closed,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
        TrunkEnd::Closed
    }

    async fn write(&self, mut sink: SplitSink<WebSocketStream<TcpStream>, Message>) -> TrunkEnd {
        loop {
            self.wake.due().await;
            let begun = Instant::now();
            self.writes_since.set(Some(begun));
            if self.asks.take()
                && let Err(error) = sink.send(Message::Ping(Bytes::new())).await
            {
                return error.into();
            }
            let Some(batch) = self.terminal.give_out() else {
                // Whoever is told that it is over need not take it for a failure.
                let _ = timeout(FAREWELL, sink.send(Message::Close(None))).await;
                return TrunkEnd::Given;
            };
            if !batch.is_empty() {
                self.wake.again_behind(&batch);
                let bytes = batch.len();
                if let Err(error) = sink.send(Message::Binary(batch.into())).await {
                    return error.into();
                }
                self.metrics.wrote(bytes, begun.elapsed());
            }
            self.writes_since.set(None);
        }
    }

    /// Ends if the other end gives no sign of life, or takes nothing.
    async fn look(&self) -> TrunkEnd {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = Instant::now();
        loop {
            ticks.tick().await;
            let now = Instant::now();
            let silence = now.saturating_duration_since(self.heard.get());
            let stuck = self.writes_since.get().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            if silence.max(stuck) >= SUSPECT_AFTER {
                return TrunkEnd::Silent;
            }
            if silence >= PING_AFTER && now.saturating_duration_since(asked) >= PING_AFTER {
                asked = now;
                self.asks.set(true);
                self.wake.now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

    use super::*;

    /// A node that answers and says its first word in one breath.
    async fn answer(listener: TcpListener) -> TcpStream {
        let mut stream = listener.accept().await.unwrap().0;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut request).await.unwrap();
        }
        let request = String::from_utf8(request).unwrap();
        let header = |name: &str| {
            let of_name = |line: &&str| line.to_lowercase().starts_with(name);
            request.lines().find(of_name).unwrap().split(": ").nth(1).unwrap().to_owned()
        };
        let (key, version) = (derive_accept_key(header("sec-websocket-key:").as_bytes()), Version::V3.subprotocol());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {key}\r\nsec-websocket-protocol: {version}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), &[0x82, 5], b"first"].concat()).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn what_a_node_says_right_behind_its_answer_is_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let secret = Secret::new(&"s".repeat(32)).unwrap();
        let (_node, opened) = tokio::join!(answer(listener), open(&address, &secret, "b", 1));
        let (mut opened, version) = opened.unwrap();
        assert_eq!(version, Version::V3);
        let mut heard = Vec::new();
        let take_in = |run: &[u8]| {
            heard.extend_from_slice(run);
            Ok(())
        };
        opened.read(std::time::Instant::now(), take_in).unwrap();
        assert_eq!(heard, b"first");
    }
}
