mod error;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::io::AsyncWrite as _;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

pub(crate) use error::{ConnectError, retry_after_of};
use error::{asked_for, short};

use crate::wire::{Trust, Wire};

/// From the start of the connection to `welcome`.
const WELCOME_WITHIN: Duration = Duration::from_secs(15);
const READ_BUFFER_BYTES: usize = 8 * 1024;
const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// What may wait for a server that does not read; more is not sent.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

type Socket = WebSocketStream<Wire>;

/// One client's socket. One task reads it and the sender writes it, on one thread, so each borrows it for one poll.
pub(crate) struct Client {
    socket: RefCell<Socket>,
    is_open: Cell<bool>,
    welcome: RefCell<Welcome>,
    /// Of a client that comes back: by id, what it does not know the fate of.
    unanswered: Option<RefCell<BTreeMap<u64, Unanswered>>>,
}

/// The first that a server says.
#[derive(Debug, Default, Deserialize)]
struct Welcome {
    #[serde(default)]
    resume: String,
    #[serde(default)]
    resumed: bool,
}

struct Unanswered {
    text: String,
    /// Whether it was sent on some socket.
    is_sent: bool,
}

/// The way to a server: from which address, and over TLS by what certificate.
#[derive(Clone, Default)]
pub(crate) struct Way {
    pub(crate) source: Option<IpAddr>,
    pub(crate) trust: Option<Trust>,
}

/// How a client came back.
pub(crate) struct Return {
    /// The mesh says that it is the same session.
    pub(crate) resumed: bool,
    /// The ids of the messages that were sent once more.
    pub(crate) sent_again: Vec<u64>,
    /// Attempts to connect, the failed ones included.
    pub(crate) tries: u32,
}

/// What became of a message at the sender's own socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Taken by the kernel.
    Written,
    /// Waits for the kernel: `flush` is to be called again.
    Waits,
    /// Not sent: too much waits already, or the socket is closed.
    Not,
}

impl Client {
    /// Connects and waits for `welcome`.
    pub(crate) async fn connect(url: &str, way: &Way) -> Result<Self, ConnectError> {
        let opening = async {
            let mut socket = open(url, way).await?;
            let mut retry_after = None;
            loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) if text.contains("\"welcome\"") => {
                        return Ok((socket, serde_json::from_str(&text).map_err(ConnectError::Welcome)?));
                    }
                    Some(Ok(Message::Text(text))) => retry_after = retry_after_of(&text).or(retry_after),
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Err(ConnectError::Closed { code: frame.code.into(), retry_after });
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(ConnectError::Lost),
                }
            }
        };
        let (socket, welcome) = timeout(WELCOME_WITHIN, opening).await.map_err(|_| ConnectError::Silent)??;
        Ok(Self {
            socket: RefCell::new(socket),
            is_open: Cell::new(true),
            welcome: RefCell::new(welcome),
            unanswered: None,
        })
    }

    /// One that comes back keeps what has an id until it knows what became of it.
    pub(crate) fn keep_unanswered(&mut self) {
        self.unanswered = Some(RefCell::default());
    }

    /// Sends without waiting. What a client that comes back cannot send now, it sends then.
    pub(crate) fn send(&self, text: String, id: Option<u64>, context: &mut TaskContext<'_>) -> Sent {
        let (Some(unanswered), Some(id)) = (&self.unanswered, id) else { return self.write(text, context) };
        let sent = self.write(text.clone(), context);
        if sent == Sent::Not && self.is_open.get() {
            return sent;
        }
        unanswered.borrow_mut().insert(id, Unanswered { text, is_sent: sent != Sent::Not });
        if sent == Sent::Not { Sent::Written } else { sent }
    }

    /// The fate of the message of this id is known.
    pub(crate) fn answered(&self, id: u64) {
        if let Some(unanswered) = &self.unanswered {
            unanswered.borrow_mut().remove(&id);
        }
    }

    /// Connects again, shows the token of its last welcome, and sends again, in order, what has no fate.
    pub(crate) async fn come_back(&self, url: &str, way: &Way) -> Result<Return, ConnectError> {
        let url = format!("{url}&resume={}", self.welcome.borrow().resume);
        let next = Self::connect(&url, way).await?;
        let welcome = next.welcome.into_inner();
        let resumed = welcome.resumed;
        self.socket.replace(next.socket.into_inner());
        self.welcome.replace(welcome);
        self.is_open.set(true);
        let mut sent_again = Vec::new();
        let mut context = TaskContext::from_waker(Waker::noop());
        for (id, message) in self.unanswered.iter().flat_map(RefCell::take) {
            if message.is_sent {
                sent_again.push(id);
            }
            self.send(message.text, Some(id), &mut context);
        }
        Ok(Return { resumed, sent_again, tries: 1 })
    }

    fn write(&self, text: String, context: &mut TaskContext<'_>) -> Sent {
        if !self.is_open.get() {
            return Sent::Not;
        }
        let sent = self.socket.borrow_mut().start_send_unpin(Message::text(text));
        match sent {
            Ok(()) if self.flush(context) => Sent::Written,
            Ok(()) => Sent::Waits,
            Err(tungstenite::Error::WriteBufferFull(_)) => Sent::Not,
            Err(_) => {
                self.is_open.set(false);
                Sent::Not
            }
        }
    }

    /// Tries again to write what waits. `true` when nothing does, or there is nobody to write to any more.
    pub(crate) fn flush(&self, context: &mut TaskContext<'_>) -> bool {
        // Ready at once, without a system call, unless the last write was cut short. TLS keeps what the socket did not take, and tells
        // only who flushes.
        !self.is_open.get() || self.socket.borrow_mut().poll_flush_unpin(context).is_ready()
    }

    /// Reads until the socket ends, and says how it did.
    pub(crate) async fn read(&self, mut on_text: impl FnMut(&str)) -> String {
        let mut ending = None;
        loop {
            match poll_fn(|context| self.socket.borrow_mut().poll_next_unpin(context)).await {
                Some(Ok(Message::Text(text))) => on_text(text.as_str()),
                Some(Ok(Message::Close(frame))) => {
                    self.is_open.set(false);
                    ending =
                        Some(frame.map_or_else(|| "no code".to_owned(), |frame| u16::from(frame.code).to_string()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    self.is_open.set(false);
                    return ending.unwrap_or_else(|| short(&error));
                }
                None => {
                    self.is_open.set(false);
                    return ending.unwrap_or_else(|| "lost".to_owned());
                }
            }
        }
    }

    /// Ends the connection without a word, as a network does that breaks.
    pub(crate) fn cut(&self, context: &mut TaskContext<'_>) {
        // Whether it ended already makes no difference.
        let _ = Pin::new(self.socket.borrow_mut().get_mut()).poll_shutdown(context);
    }

    /// Says goodbye, as far as the kernel takes it at once.
    pub(crate) fn close(&self, context: &mut TaskContext<'_>) {
        if self.is_open.replace(false) {
            let mut socket = self.socket.borrow_mut();
            if socket.start_send_unpin(Message::Close(Some(goodbye()))).is_ok() {
                let _ = socket.poll_flush_unpin(context);
            }
        }
    }
}

/// The close frame that ends a session: one without a code would keep it.
fn goodbye() -> CloseFrame {
    CloseFrame { code: CloseCode::Normal, reason: "".into() }
}

async fn open(url: &str, way: &Way) -> Result<Socket, ConnectError> {
    let (rest, trust) = match url.split_once("://") {
        Some(("ws", rest)) => (rest, None),
        Some(("wss", rest)) => {
            (rest, Some(way.trust.as_ref().ok_or(ConnectError::Address("no certificate is trusted"))?))
        }
        _ => return Err(ConnectError::Address("only ws:// is spoken here, and wss:// by `compare --tls`")),
    };
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let mut addresses = lookup_host(host).await.map_err(ConnectError::NoHost)?;
    let address = addresses.next().ok_or(ConnectError::Address("its host has no address"))?;
    let stream = connect_from(way.source, address).await.map_err(|source| ConnectError::Network { address, source })?;
    let wire = match trust {
        Some(trust) => Wire::Tls(Box::new(trust.connect(stream).await.map_err(ConnectError::Tls)?)),
        None => Wire::Plain(stream),
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_WAITING_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    match client_async_with_config(url, wire, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(answer)) => {
            let (status, retry_after) = (answer.status().as_u16(), asked_for(answer.headers()));
            Err(ConnectError::Refused { status, retry_after })
        }
        Err(error) => Err(ConnectError::Upgrade(error)),
    }
}

/// Connects from an address of this machine, or any.
pub(crate) async fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(source) = source {
        socket.bind((source, 0).into())?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::net::TcpListener;
    use tokio::task::yield_now;
    use tokio_tungstenite::accept_async;

    use super::*;
    use crate::testing::tls_server;

    const WELCOME: &str = r#"{"type":"welcome","resume":"t","resumed":false}"#;
    /// More than tokio lets a task write in one turn.
    const AT_ONCE: usize = 500;

    /// A server that says welcome and resets the connection.
    async fn connected_to_one_that_breaks() -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let serving = async {
            let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
            socket.send(Message::text(WELCOME)).await.unwrap();
            socket.get_ref().set_zero_linger().unwrap();
        };
        let way = Way::default();
        let (client, ()) = tokio::join!(Client::connect(&url, &way), serving);
        client.unwrap()
    }

    #[tokio::test]
    async fn what_a_broken_socket_does_not_take_is_sent_by_who_comes_back_and_has_not_been_sent_before() {
        let mut client = connected_to_one_that_breaks().await;
        client.keep_unanswered();
        let mut context = TaskContext::from_waker(Waker::noop());

        let broken = (1..=1000).find(|id| {
            assert!(client.send("hello".to_owned(), Some(*id), &mut context) == Sent::Written);
            !client.is_open.get()
        });

        let unanswered = client.unanswered.unwrap().into_inner();
        assert!(unanswered.last_key_value().is_some_and(|(id, last)| Some(*id) == broken && !last.is_sent));
    }

    #[tokio::test]
    async fn over_tls_too_what_is_sent_in_one_turn_waits_for_no_later_message() {
        let dir = tempfile::tempdir().unwrap();
        let (acceptor, certificate) = tls_server(dir.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("wss://{}/", listener.local_addr().unwrap());
        let serving = async {
            let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            socket.send(Message::text(WELCOME)).await.unwrap();
            socket
        };
        let way = Way { trust: Some(Trust::of(&certificate).unwrap()), ..Way::default() };
        let (client, mut socket) = tokio::join!(Client::connect(&url, &way), serving);
        let client = client.unwrap();

        let mut context = TaskContext::from_waker(Waker::noop());
        let sent = (0..AT_ONCE).map(|_| client.send("hello".to_owned(), None, &mut context)).last();
        assert_eq!(sent, Some(Sent::Waits), "a task may not go on for ever");
        while !client.flush(&mut context) {
            yield_now().await;
        }
        for _ in 0..AT_ONCE {
            let arrived = timeout(Duration::from_secs(5), socket.next()).await;
            assert_eq!(arrived.expect("nothing in time").unwrap().unwrap(), Message::text("hello"));
        }
    }
}
