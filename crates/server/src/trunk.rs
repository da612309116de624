//! Carrying batches over a trunk's WebSocket. Both ends do it alike: one task reads, one writes, and while a write is under
//! way the next batch gathers in the core.

use std::cell::Cell;
use std::time::Duration;

use ::http::HeaderValue;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use signaling_protocol::limits::{self, PING_AFTER, SUSPECT_AFTER};
use signaling_protocol::trunk::{EDGE_HEADER, INTERNAL_PORT_HEADER, OFFER, PATH, Version};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::metrics::TrunkMetrics;
use crate::{Secret, Wake};

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
/// says which frames the trunk may carry.
///
/// # Errors
/// If the node cannot be reached, or refuses.
pub async fn open(
    address: &str,
    secret: &Secret,
    own_id: &str,
    own_internal_port: u16,
) -> Result<(WebSocketStream<TcpStream>, Version), tungstenite::Error> {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let mut request = format!("ws://{address}{PATH}").into_client_request()?;
    let headers = request.headers_mut();
    headers.insert(::http::header::AUTHORIZATION, secret.bearer());
    headers.insert(::http::header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(OFFER));
    headers.insert(EDGE_HEADER, HeaderValue::from_str(own_id).map_err(::http::Error::from)?);
    headers.insert(INTERNAL_PORT_HEADER, HeaderValue::from(own_internal_port));
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (socket, answer) = tokio_tungstenite::client_async_with_config(request, stream, Some(config())).await?;
    let agreed = answer.headers().get(::http::header::SEC_WEBSOCKET_PROTOCOL).and_then(|version| version.to_str().ok());
    Ok((socket, agreed.and_then(Version::best_of).unwrap_or(Version::V1)))
}

/// Carries until the trunk ends. Says why it did.
pub async fn carry(socket: WebSocketStream<TcpStream>, wake: &Wake, terminal: &impl Terminal) -> TrunkEnd {
    let (sink, stream) = socket.split();
    let heard = Cell::new(Instant::now());
    let metrics = TrunkMetrics::opened();
    let reading = read(stream, &heard, terminal, &metrics);
    let writing = write(sink, wake, &heard, terminal, &metrics);
    let end = tokio::select! {
        end = reading => end,
        end = writing => end,
    };
    metrics.ended(&end);
    end
}

async fn read(
    mut stream: SplitStream<WebSocketStream<TcpStream>>,
    heard: &Cell<Instant>,
    terminal: &impl Terminal,
    metrics: &TrunkMetrics,
) -> TrunkEnd {
    while let Some(message) = stream.next().await {
        heard.set(Instant::now());
        match message {
            Ok(Message::Binary(frames)) => {
                metrics.read(frames.len());
                if let Err(error) = terminal.take_in(&frames) {
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

async fn write(
    mut sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    wake: &Wake,
    heard: &Cell<Instant>,
    terminal: &impl Terminal,
    metrics: &TrunkMetrics,
) -> TrunkEnd {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pinged = Instant::now();
    loop {
        let message = tokio::select! {
            () = wake.due() => match terminal.give_out() {
                None => {
                    // Whoever is told that it is over need not take it for a failure.
                    let _ = timeout(FAREWELL, sink.send(Message::Close(None))).await;
                    return TrunkEnd::Given;
                }
                Some(batch) if batch.is_empty() => continue,
                Some(batch) => {
                    wake.again_behind(&batch);
                    Message::Binary(batch.into())
                }
            },
            _ = ticks.tick() => match heard.get().elapsed() {
                silence if silence >= SUSPECT_AFTER => return TrunkEnd::Silent,
                silence if silence >= PING_AFTER && pinged.elapsed() >= PING_AFTER => {
                    pinged = Instant::now();
                    Message::Ping(Bytes::new())
                }
                _ => continue,
            },
        };
        let (begun, bytes) = (Instant::now(), if message.is_binary() { message.len() } else { 0 });
        match timeout(SUSPECT_AFTER, sink.send(message)).await {
            Ok(Ok(())) if bytes > 0 => metrics.wrote(bytes, begun.elapsed()),
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.into(),
            Err(_) => return TrunkEnd::Silent,
        }
    }
}
