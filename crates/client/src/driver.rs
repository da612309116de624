//! The task of a client: executes the effects of the core, and passes events to it.
//! Input passes from the socket through [`Core::text`](crate::core::Core::text) and an
//! [`Effect::Emit`] into the events' channel. While the channel is full, nothing is read.
//! A handle puts a request into the core and signals the task. An [`Effect::Write`] moves it to the
//! socket's outbox, which is written whenever the socket is writable.

use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tracing::{debug, warn};

use crate::client::Inner;
use crate::core::Effect;
use crate::dial::Dial;
use crate::event::Event;
use crate::options::{Options, Token, TokenError};
use crate::socket::{Address, Incoming, NoSocket, Socket, open};

/// Maximum time to write the last messages and the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type Opening<S> = Pin<Box<dyn Future<Output = Result<Box<Socket<S>>, NoSocket>> + Send>>;
type Fetching = Pin<Box<dyn Future<Output = Result<Token, TokenError>> + Send>>;

/// The task of one client. [`Client::connect_by`](crate::Client::connect_by) spawns it.
pub(crate) struct Driver<D: Dial> {
    state: Arc<Inner>,
    options: Options,
    dialer: Arc<D>,
    connection: Connection<D::Stream>,
    fetching: Option<Fetching>,
    events: mpsc::Sender<Event>,
    /// Events beyond the channel's capacity.
    unsent_events: VecDeque<Event>,
    /// `true` while the channel is full. The application was warned.
    is_full: bool,
}

enum Connection<S> {
    None,
    Opening(Opening<S>),
    Open(Box<Socket<S>>),
}

enum Input<S> {
    Changed,
    Time,
    Token(Result<Token, TokenError>),
    Opened(Result<Box<Socket<S>>, NoSocket>),
    Received(Incoming),
    /// The channel has room for an event, or its receiver was dropped.
    Room,
}

impl<D: Dial> Driver<D> {
    /// Creates the task; [`run`](Self::run) starts it. `state` is shared with the client's handles.
    pub(crate) fn new(state: Arc<Inner>, options: Options, dialer: D, events: mpsc::Sender<Event>) -> Self {
        Self {
            state,
            options,
            dialer: Arc::new(dialer),
            connection: Connection::None,
            fetching: None,
            events,
            unsent_events: VecDeque::new(),
            is_full: false,
        }
    }

    /// Runs until the client is closed. Then sends the last events, unless their receiver is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let (effects, deadline, is_closed) = {
                let mut guarded = self.state.lock();
                if guarded.is_abandoned {
                    guarded.core.close();
                }
                if !self.unsent_events.is_empty() {
                    guarded.core.reading_stopped();
                }
                let effects = guarded.core.take_effects();
                (effects, guarded.core.deadline(), guarded.core.is_closed())
            };
            for effect in effects {
                self.execute(effect).await;
            }
            self.send_events();
            if is_closed {
                break;
            }
            let input = self.next(deadline.map(|at| self.state.instant(at))).await;
            self.handle(input);
        }
        for event in self.unsent_events {
            if self.events.send(event).await.is_err() {
                break;
            }
        }
    }

    async fn next(&mut self, deadline: Option<tokio::time::Instant>) -> Input<D::Stream> {
        let reads = self.unsent_events.is_empty();
        let events = self.events.clone();
        let connection = &mut self.connection;
        let fetching = &mut self.fetching;
        tokio::select! {
            biased;
            () = self.state.changed.notified() => Input::Changed,
            input = progress(connection, reads) => input,
            token = async { match fetching { Some(fetching) => fetching.await, None => pending().await } } => {
                Input::Token(token)
            }
            () = async { match deadline { Some(at) => sleep_until(at).await, None => pending().await } } => Input::Time,
            _ = events.reserve(), if !reads => Input::Room,
        }
    }

    fn handle(&mut self, input: Input<D::Stream>) {
        let at = self.state.moment();
        let mut guarded = self.state.lock();
        let core = &mut guarded.core;
        match input {
            Input::Changed | Input::Room => {}
            Input::Time => core.tick(at),
            Input::Token(Ok(token)) => {
                self.fetching = None;
                core.token(at.now, token);
            }
            Input::Token(Err(error)) => {
                debug!(%error, "token source failed");
                self.fetching = None;
                core.token_failed(at);
            }
            Input::Opened(Ok(socket)) => {
                self.connection = Connection::Open(socket);
                core.opened();
            }
            Input::Opened(Err(NoSocket::Refused { status, reason, retry_after_ms })) => {
                self.connection = Connection::None;
                core.refused(at, status, reason, retry_after_ms);
            }
            Input::Received(Incoming::Text(text)) => core.text(at, &text),
            Input::Received(Incoming::ProtocolError) => core.protocol_error(at),
            Input::Opened(Err(NoSocket::Failed(ending))) | Input::Received(Incoming::End(ending)) => {
                self.connection = Connection::None;
                core.lost(at, ending);
            }
        }
    }

    async fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Open { url, resume, token } => {
                let Some(url) = self.options.urls.get(url).cloned() else { return };
                let address = Address { url, resume, token, connector: self.options.connector.clone() };
                let dialer = Arc::clone(&self.dialer);
                self.connection = Connection::Opening(Box::pin(async move { open(&*dialer, address).await }));
            }
            Effect::Drop => self.connection = Connection::None,
            Effect::Close => {
                if let Connection::Open(mut socket) = std::mem::replace(&mut self.connection, Connection::None) {
                    socket.close();
                    let _ = timeout(CLOSE_TIMEOUT, poll_fn(|context| socket.poll_flush(context))).await;
                }
            }
            Effect::Write(text) => {
                if let Connection::Open(socket) = &mut self.connection {
                    socket.write(text);
                }
            }
            Effect::FetchToken => self.fetching = self.options.tokens.as_ref().map(|source| source()),
            Effect::Emit(event) => self.queue(event),
            // The API has no rooms yet: it reports the messages themselves.
            Effect::Room { .. } => {}
            Effect::Settle(ticket, outcome) => {
                if let Some(waiter) = self.state.lock().outcomes.remove(&ticket) {
                    let _ = waiter.send(outcome);
                }
            }
        }
    }

    /// Queues an event. While the channel is full, consecutive states replace each other. Other
    /// events come from reading, which has stopped.
    fn queue(&mut self, event: Event) {
        if self.is_full && matches!((self.unsent_events.back(), &event), (Some(Event::State(_)), Event::State(_))) {
            self.unsent_events.pop_back();
        }
        self.unsent_events.push_back(event);
    }

    /// Sends queued events as the channel permits. Events without a receiver are dropped.
    fn send_events(&mut self) {
        let was_full = std::mem::take(&mut self.is_full);
        while let Some(event) = self.unsent_events.pop_front() {
            if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
                self.unsent_events.push_front(event);
                self.is_full = true;
                break;
            }
        }
        if self.is_full && !was_full {
            warn!(client_id = %self.options.client_id, "event queue full, reading from the server stopped");
        }
    }
}

async fn progress<S>(connection: &mut Connection<S>, reads: bool) -> Input<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    match connection {
        Connection::None => pending().await,
        Connection::Opening(opening) => Input::Opened(opening.await),
        Connection::Open(socket) => Input::Received(poll_fn(|context| socket.poll(context, reads)).await),
    }
}
