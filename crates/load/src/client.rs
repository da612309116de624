//! One client: its socket, and the messages that it retransmits on a new one. `fleet` runs it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

const WELCOME_TIMEOUT: Duration = Duration::from_secs(15);
const READ_BUFFER_BYTES: usize = 8 * 1024;
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Maximum bytes buffered for a server that does not read; further messages are refused.
const MAX_BUFFERED_BYTES: usize = 1024 * 1024;

type Socket = WebSocketStream<TcpStream>;

/// One client's current socket, which one thread reads and writes.
pub(crate) struct Client {
    socket: RefCell<Socket>,
    is_open: Cell<bool>,
    reader: RefCell<Waker>,
    welcome: RefCell<Welcome>,
    /// Messages without an outcome, by id. `None` for a client that does not reconnect.
    unanswered: Option<RefCell<BTreeMap<u64, Unanswered>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Welcome {
    resume: String,
    resumed: bool,
}

struct Unanswered {
    text: String,
    /// Written to some socket.
    is_sent: bool,
}

pub(crate) struct Return {
    /// `false` if the session was lost and the client got a new one.
    pub(crate) resumed: bool,
    /// Ids of the messages that were sent again, in their order. Messages sent for the first time,
    /// which waited for the reconnect, are not in it.
    pub(crate) retransmitted: Vec<u64>,
    /// Number of attempts since the socket ended, with the failed ones.
    pub(crate) tries: u32,
}

impl Client {
    /// Connects, sends `hello`, if any, and waits for `welcome`, for `OPEN` of PeerJS or for `pong`
    /// of y-webrtc. Fails after 15 s, earlier if the socket is not open within the given time, the
    /// server refuses or closes, or `url` does not begin with `ws://`.
    pub(crate) async fn connect(
        url: &str,
        hello: Option<&'static str>,
        open_within: Duration,
    ) -> Result<Self, ConnectError> {
        let not_open = || format!("no open socket within {open_within:?}");
        let opening = async {
            let mut socket = timeout(open_within, open(url)).await.with_context(not_open)??;
            if let Some(hello) = hello {
                socket.send(Message::text(hello)).await.context("lost before welcome")?;
            }
            let mut retry_after = None;
            loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text)))
                        if ["\"welcome\"", "\"OPEN\"", "\"pong\""].iter().any(|kind| text.contains(kind)) =>
                    {
                        let welcome = serde_json::from_str(&text).context("its welcome is malformed")?;
                        return Ok((socket, welcome));
                    }
                    Some(Ok(Message::Text(text))) => retry_after = retry_after_of(&text).or(retry_after),
                    Some(Ok(Message::Close(Some(frame)))) => {
                        let error = anyhow!("closed with {} before welcome", u16::from(frame.code));
                        return Err(ConnectError { error, retry_after });
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(anyhow!("lost before welcome").into()),
                }
            }
        };
        let too_late = || format!("no welcome within {WELCOME_TIMEOUT:?}");
        let (socket, welcome) = timeout(WELCOME_TIMEOUT, opening).await.with_context(too_late)??;
        Ok(Self {
            socket: RefCell::new(socket),
            is_open: Cell::new(true),
            reader: RefCell::new(Waker::noop().clone()),
            welcome: RefCell::new(welcome),
            unanswered: None,
        })
    }

    /// Makes the client keep messages with an id until their outcome arrives, so that it can
    /// [`reconnect`](Self::reconnect).
    pub(crate) fn keep_unanswered(&mut self) {
        self.unanswered = Some(RefCell::default());
    }

    /// Sends without waiting. `id` is the request's id in `text`, if any. A client that keeps
    /// messages sends those with an id of an ended socket after its reconnect. Returns `false` if
    /// the message is lost, since the buffer of 1 MiB is full or the socket has ended.
    pub(crate) fn send(&self, text: String, id: Option<u64>) -> bool {
        let (Some(unanswered), Some(id)) = (&self.unanswered, id) else { return self.write(text) };
        let is_sent = self.write(text.clone());
        if !is_sent && self.is_open.get() {
            return false;
        }
        unanswered.borrow_mut().insert(id, Unanswered { text, is_sent });
        true
    }

    /// Forgets a message, since its outcome has arrived.
    pub(crate) fn answered(&self, id: u64) {
        if let Some(unanswered) = &self.unanswered {
            unanswered.borrow_mut().remove(&id);
        }
    }

    /// Resumes the session on a new socket to `url` and sends the kept messages in the order of
    /// their ids. One attempt, so `tries` is 1; fails as [`Self::connect`].
    pub(crate) async fn reconnect(&self, url: &str, open_within: Duration) -> Result<Return, ConnectError> {
        let url = format!("{url}&resume={}", self.welcome.borrow().resume);
        let next = Self::connect(&url, None, open_within).await?;
        let welcome = next.welcome.into_inner();
        let resumed = welcome.resumed;
        self.socket.replace(next.socket.into_inner());
        self.welcome.replace(welcome);
        self.is_open.set(true);
        let mut retransmitted = Vec::new();
        for (id, message) in self.unanswered.iter().flat_map(RefCell::take) {
            if message.is_sent {
                retransmitted.push(id);
            }
            self.send(message.text, Some(id));
        }
        Ok(Return { resumed, retransmitted, tries: 1 })
    }

    fn write(&self, text: String) -> bool {
        if !self.is_open.get() {
            return false;
        }
        let mut socket = self.socket.borrow_mut();
        match socket.start_send_unpin(Message::text(text)) {
            Ok(()) => {
                // The reading task writes the rest. An error ends its reading.
                let _ = socket.poll_flush_unpin(&mut TaskContext::from_waker(&self.reader.borrow()));
                true
            }
            Err(tungstenite::Error::WriteBufferFull(_)) => false,
            Err(_) => {
                self.is_open.set(false);
                false
            }
        }
    }

    fn poll_next(&self, context: &mut TaskContext<'_>) -> Poll<Option<tungstenite::Result<Message>>> {
        self.reader.borrow_mut().clone_from(context.waker());
        let mut socket = self.socket.borrow_mut();
        if self.is_open.get() {
            // Without a system call, unless the last write was cut short.
            let _ = socket.poll_flush_unpin(context);
        }
        socket.poll_next_unpin(context)
    }

    /// Passes texts to `on_text` until the socket ends. Returns its close code, `no code` for a
    /// close frame without one, or the cause of a break (`lost` if unknown).
    pub(crate) async fn read(&self, mut on_text: impl FnMut(&str)) -> String {
        let mut ending = None;
        loop {
            match poll_fn(|context| self.poll_next(context)).await {
                Some(Ok(Message::Text(text))) => on_text(text.as_str()),
                Some(Ok(Message::Close(frame))) => {
                    self.is_open.set(false);
                    let code = frame.map(|frame| u16::from(frame.code).to_string());
                    ending = Some(code.unwrap_or_else(|| "no code".to_owned()));
                }
                Some(Ok(_)) => {}
                ended => {
                    self.is_open.set(false);
                    let reason = || ended.and_then(Result::err).map_or_else(|| "lost".to_owned(), |it| short(&it));
                    return ending.unwrap_or_else(reason);
                }
            }
        }
    }

    /// Ends the sending side of the connection without a close frame, as a crash of the client
    /// does. [`Self::read`] ends once the server closes too.
    pub(crate) fn cut(&self) {
        // It fails only if the connection has ended already.
        let _ = Pin::new(self.socket.borrow_mut().get_mut()).poll_shutdown(&mut TaskContext::from_waker(Waker::noop()));
    }

    /// Takes the socket as ended, since its server is silent. Messages wait for the reconnect.
    pub(crate) fn give_up(&self) {
        self.is_open.set(false);
    }

    /// Sends a close frame with 1000, if the kernel takes it at once and the socket is open.
    pub(crate) fn close(&self) {
        if self.is_open.replace(false) {
            let mut socket = self.socket.borrow_mut();
            // Without a code the session would linger.
            let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            if socket.start_send_unpin(Message::Close(Some(frame))).is_ok() {
                let _ = socket.poll_flush_unpin(&mut TaskContext::from_waker(Waker::noop()));
            }
        }
    }
}

async fn open(url: &str) -> Result<Socket, ConnectError> {
    let rest = url.strip_prefix("ws://").context("a URL begins with ws://")?;
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let stream = TcpStream::connect(host).await.with_context(|| format!("cannot connect to {host}"))?;
    stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_BUFFERED_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    match client_async_with_config(url, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(answer)) => {
            let error = anyhow!("refused with {}", answer.status().as_u16());
            let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            Err(ConnectError { error, retry_after: seconds.map(Duration::from_secs) })
        }
        Err(error) => Err(anyhow::Error::new(error).context("the upgrade failed").into()),
    }
}

#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) error: anyhow::Error,
    /// Delay before the next attempt that the server requested; `None` if it did not.
    pub(crate) retry_after: Option<Duration>,
}

impl From<anyhow::Error> for ConnectError {
    fn from(error: anyhow::Error) -> Self {
        Self { error, retry_after: None }
    }
}

/// Returns the delay that a `goodbye` requests; `None` for one without a delay, and other texts.
pub(crate) fn retry_after_of(text: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Goodbye {
        retry_after_ms: u64,
    }
    let is_goodbye = text.starts_with("{\"type\":\"goodbye\"");
    let goodbye: Goodbye = is_goodbye.then(|| serde_json::from_str(text).ok())??;
    Some(Duration::from_millis(goodbye.retry_after_ms))
}

fn short(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) => error.kind().to_string(),
        tungstenite::Error::Protocol(error) => error.to_string(),
        _ => "lost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{connected, listen};

    #[tokio::test]
    async fn buffered_messages_leave_when_the_server_reads() {
        let (client, mut server) = connected().await;
        let sent = (0..1_000).take_while(|_| client.send("x".repeat(60_000), None)).count();
        assert!((10..1_000).contains(&sent), "{sent} messages were sent, so the buffer was never full");

        let receive = async {
            for _ in 0..sent {
                assert!(server.next().await.unwrap().unwrap().is_text());
            }
        };
        tokio::select! {
            () = receive => {}
            reason = client.read(|_| {}) => panic!("{reason}"),
        }
    }

    #[tokio::test]
    async fn message_that_a_broken_socket_refuses_waits_for_the_resume() {
        let (mut client, server) = connected().await;
        server.get_ref().set_zero_linger().unwrap();
        drop(server);
        client.keep_unanswered();

        let broken = (1..=1000).find(|id| {
            assert!(client.send("hello".to_owned(), Some(*id)));
            !client.is_open.get()
        });

        let unanswered = client.unanswered.unwrap().into_inner();
        assert!(unanswered.last_key_value().is_some_and(|(id, last)| Some(*id) == broken && !last.is_sent));
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_ends_when_no_socket_opens_in_time() {
        let (_silent, url) = listen().await;
        let begin = tokio::time::Instant::now();

        let failed = Client::connect(&url, None, Duration::from_secs(4)).await.err().unwrap();

        assert_eq!(failed.error.to_string(), "no open socket within 4s");
        assert_eq!(begin.elapsed().as_secs(), 4);
    }

    #[test]
    fn only_a_goodbye_has_a_retry_after() {
        let goodbye = r#"{"type":"goodbye","reason":"drains","retry_after_ms":750}"#;

        assert_eq!(retry_after_of(goodbye), Some(Duration::from_millis(750)));
        assert_eq!(retry_after_of(r#"{"type":"goodbye","reason":"drains"}"#), None);
        assert_eq!(retry_after_of(r#"{"type":"error","retry_after_ms":750}"#), None);
    }
}
