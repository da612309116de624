//! A WebSocket to a server, including its handshake, for `Driver`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Sink as _, Stream as _};
use http::header::{HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use http::{Response, Uri};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream};

use crate::core::Ms;
use crate::dial::Dial;
use crate::ending::{Ending, Fault};
use crate::rules::MAX_REASON;

const SUBPROTOCOL: &str = "signaling.v1";
const ABNORMAL: u16 = 1006;
/// Close code of a close frame without a code.
const NO_CODE: u16 = 1005;
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Maximum size of a received message: a page of 500 members with 4 KiB each, and a reserve.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Target of a handshake, and the client's identity.
pub(crate) struct Address {
    pub(crate) url: Uri,
    /// Token that resumes a session; `None` for a new one.
    pub(crate) resume: Option<String>,
    /// The client's own token; `None` if it has none.
    pub(crate) token: Option<String>,
    /// TLS for `wss`; `None` for the default.
    pub(crate) connector: Option<Connector>,
}

/// Reason for a failed handshake.
#[derive(Debug)]
pub(crate) enum NoSocket {
    /// An HTTP answer other than 101, with its body and `Retry-After` (`None` if it has none).
    Refused { status: u16, reason: String, retry_after_ms: Option<Ms> },
    /// No HTTP answer.
    Failed(Ending),
}

/// Input from the socket.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A text message.
    Text(String),
    /// A binary message, or one that breaks the WebSocket protocol.
    ProtocolError,
    /// The socket has ended.
    End(Ending),
}

/// An open socket with its unwritten messages. The limits on unanswered requests bound them, except
/// requests of members and ICE servers.
pub(crate) struct Socket<S> {
    stream: WebSocketStream<MaybeTlsStream<S>>,
    outbox: VecDeque<Message>,
    is_flushed: bool,
}

/// Opens a stream by `dialer` and performs the handshake. Has no time limit. A stream or TLS that
/// cannot be opened, and an invalid answer, are [`Fault::Unreachable`].
pub(crate) async fn open<D: Dial>(dialer: &D, address: Address) -> Result<Box<Socket<D::Stream>>, NoSocket> {
    let Address { url, resume, token, connector } = address;
    let unreachable = NoSocket::Failed(Ending::Fault(Fault::Unreachable));
    let Ok(stream) = dialer.dial(&url).await else { return Err(unreachable) };
    let mut protocols = vec![SUBPROTOCOL.to_owned()];
    protocols.extend(resume.map(|token| format!("resume.{token}")));
    protocols.extend(token.map(|token| format!("bearer.{token}")));
    let Ok(mut request) = url.into_client_request() else { return Err(unreachable) };
    // A token that does not fit a header is refused like a missing one.
    let protocols = HeaderValue::from_str(&protocols.join(", ")).unwrap_or(HeaderValue::from_static(SUBPROTOCOL));
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    #[cfg(feature = "rustls")]
    let opened = tokio_tungstenite::client_async_tls_with_config(request, stream, Some(config), connector).await;
    #[cfg(not(feature = "rustls"))]
    let opened = {
        let _: Option<Connector> = connector;
        let stream = MaybeTlsStream::Plain(stream);
        tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await
    };
    match opened {
        Ok((stream, _)) => Ok(Box::new(Socket { stream, outbox: VecDeque::new(), is_flushed: true })),
        Err(Error::Http(response)) => Err(refusal(&response)),
        Err(_) => Err(unreachable),
    }
}

fn refusal(response: &Response<Option<Vec<u8>>>) -> NoSocket {
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let body = response.body().as_deref().unwrap_or_default();
    NoSocket::Refused {
        status: response.status().as_u16(),
        reason: String::from_utf8_lossy(body).chars().take(MAX_REASON).collect(),
        retry_after_ms: seconds.map(|seconds| Duration::from_secs(seconds).as_millis().try_into().unwrap_or(Ms::MAX)),
    }
}

impl<S> Socket<S>
where
    WebSocketStream<MaybeTlsStream<S>>:
        futures_util::Stream<Item = Result<Message, Error>> + futures_util::Sink<Message, Error = Error> + Unpin,
{
    /// Queues a text message. [`Socket::poll`] writes it.
    pub(crate) fn write(&mut self, text: String) {
        self.outbox.push_back(Message::text(text));
        self.is_flushed = false;
    }

    /// Queues a close frame that ends the session.
    pub(crate) fn close(&mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.outbox.push_back(Message::Close(Some(frame)));
        self.is_flushed = false;
    }

    /// Writes queued messages, and resolves to the next input. Without `reads` it reads nothing,
    /// and resolves only if a write breaks the protocol.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, reads: bool) -> Poll<Incoming> {
        if let Poll::Ready(Err(error)) = self.poll_flush(context) {
            // The server's last messages may still be readable.
            if !matches!(error, Error::Io(_)) {
                return Poll::Ready(incoming_end(&error));
            }
            self.outbox.clear();
            self.is_flushed = true;
        }
        if !reads {
            return Poll::Pending;
        }
        loop {
            let message = match ready!(Pin::new(&mut self.stream).poll_next(context)) {
                None => return Poll::Ready(Incoming::End(abnormal())),
                Some(Err(error)) => return Poll::Ready(incoming_end(&error)),
                Some(Ok(message)) => message,
            };
            return Poll::Ready(match message {
                Message::Text(text) => Incoming::Text(text.to_string()),
                Message::Binary(_) => Incoming::ProtocolError,
                Message::Close(Some(frame)) => {
                    Incoming::End(Ending::Closed { code: frame.code.into(), reason: frame.reason.to_string() })
                }
                Message::Close(None) => Incoming::End(Ending::Closed { code: NO_CODE, reason: String::new() }),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            });
        }
    }

    /// Resolves once all queued messages are written, or to an error if the connection is lost.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        while !self.outbox.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_ready(context))?;
            if let Some(message) = self.outbox.pop_front() {
                Pin::new(&mut self.stream).start_send(message)?;
            }
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }
}

fn abnormal() -> Ending {
    Ending::Closed { code: ABNORMAL, reason: String::new() }
}

/// Returns a protocol error for an invalid frame, invalid UTF-8 and an oversized message; an end
/// without a close frame for all else.
fn incoming_end(error: &Error) -> Incoming {
    match error {
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Incoming::End(abnormal()),
        Error::Protocol(_) | Error::Utf8(_) | Error::Capacity(_) => Incoming::ProtocolError,
        _ => Incoming::End(abnormal()),
    }
}
