//! Handles of the application: [`Client`] and [`Events`]. A `Driver` task executes their requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::core::{Core, Moment, Ms, Outcome, Request, Ticket, to_json};
use crate::dial::{Dial, Tcp};
use crate::driver::Driver;
use crate::event::{Event, State};
use crate::options::Options;
use crate::outcome::{Receipt, SendError};
use crate::saved::SavedSession;

/// Maximum queued events; [`Events`] describes a full queue.
const MAX_EVENTS: usize = 1024;

/// A client of the mesh: a handle, cheap to clone. Its methods return at once. It reconnects until
/// [`Client::close`], [`Client::detach`], a final close or refusal by the server, or until all
/// handles and [`Events`] are dropped.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// Events of a client, in order. Read them continuously. While 1,024 events are queued, the client
/// logs a warning and reads nothing from the server. If that lasts 5 s with messages pending, the
/// server closes the socket as too slow. The application then gets a [`State::Waiting`] with code
/// 4002 after the queued events. No message is lost if the mesh still keeps the session (30 s).
#[derive(Debug)]
pub struct Events {
    events: mpsc::Receiver<Event>,
    /// Keeps the client alive while the application reads events.
    _shared: Arc<Shared>,
}

/// Kept by all handles and by [`Events`]. Its drop, with the last of them, closes the client.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Arc<Inner>,
}

/// The core, shared by the handles and the driver. The lock is held for one decision at a time.
#[derive(Debug)]
pub(crate) struct Inner {
    core: Mutex<Guarded>,
    /// Signals new effects, an earlier deadline, or `is_abandoned` to the driver.
    pub(crate) changed: Notify,
    /// Time of creation, the origin of [`Ms`].
    epoch: Instant,
}

/// State behind the lock.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) core: Core,
    /// Senders to the [`Receipt`]s of requests without an outcome.
    pub(crate) outcomes: HashMap<Ticket, oneshot::Sender<Outcome>>,
    random: StdRng,
    /// `true` once all handles and [`Events`] are dropped. The driver then closes the core.
    pub(crate) is_abandoned: bool,
}

impl Inner {
    /// Locks the state, also after a panic of another holder.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Guarded> {
        // A panic leaves a decision incomplete, in this client alone. It must not reach handles.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the client was created, in milliseconds.
    pub(crate) fn now(&self) -> Ms {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(Ms::MAX)
    }

    /// Returns the present time with a random number, for an input of the core.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now(), random: self.lock().random.random() }
    }

    /// Converts a time of the core, for timers of the runtime.
    pub(crate) fn instant(&self, at: Ms) -> Instant {
        self.epoch + std::time::Duration::from_millis(at)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.state.lock().is_abandoned = true;
        self.state.changed.notify_one();
    }
}

impl Client {
    /// Starts a client as a task. It connects at once, and reconnects after each loss.
    ///
    /// # Panics
    /// Outside of a tokio runtime. The task needs its timers and I/O.
    #[must_use]
    pub fn connect(options: Options) -> (Self, Events) {
        Self::connect_by(options, Tcp)
    }

    /// Starts a client, as [`Client::connect`] does, that opens its connections with `dialer`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn connect_by<D: Dial>(options: Options, dialer: D) -> (Self, Events) {
        let mut core =
            Core::new(options.client_id.as_str(), options.urls.len(), options.tokens.is_some(), options.limits);
        if let Some(session) = options.session.clone() {
            core.restore(session);
        }
        core.start(0);
        let random = options.seed.map_or_else(rand::make_rng, StdRng::seed_from_u64);
        let guarded = Guarded { core, outcomes: HashMap::new(), random, is_abandoned: false };
        let state = Arc::new(Inner { core: Mutex::new(guarded), changed: Notify::new(), epoch: Instant::now() });
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        tokio::spawn(Driver::new(Arc::clone(&state), options, dialer, sender).run());
        let shared = Arc::new(Shared { state });
        (Self { shared: Arc::clone(&shared) }, Events { events, _shared: shared })
    }

    /// Sends `data` to another client. Messages to one client arrive in the order sent. The
    /// [`Receipt`] resolves once the message was delivered, or to an error. The client sends the
    /// message, and retransmits it after a lost connection, even if the receipt is dropped.
    ///
    /// # Errors
    /// If the queue is full, the message is too large, `to` is no client id, `data` has no JSON
    /// form, or the client is closed. Nothing was sent then.
    pub fn signal<T: Serialize + ?Sized>(&self, to: &str, data: &T) -> Result<Receipt, SendError> {
        self.request(Request::Signal { to: to.to_owned(), data: to_json(data)?, ttl_ms: None })
    }

    /// Sends `data`, which the mesh holds for an absent recipient for at most `ttl`, rounded down
    /// to ms. The mesh's own hold time is the upper limit. With zero `data` is not held at all.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub fn signal_within<T: Serialize + ?Sized>(
        &self,
        to: &str,
        data: &T,
        ttl: std::time::Duration,
    ) -> Result<Receipt, SendError> {
        let ttl_ms = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(u64::from(u32::MAX)));
        self.request(Request::Signal { to: to.to_owned(), data: to_json(data)?, ttl_ms })
    }

    /// Joins a room or its queue, and shows members `data`. The mesh refuses more than 4 KiB, or 64
    /// KiB in all rooms. `None` shows nothing, or keeps a member's data. [`Event::Joined`] or
    /// [`Event::Waiting`] has the room's state. In a new session the client rejoins its rooms.
    /// It repeats a refused rejoin if the server names a wait.
    ///
    /// # Errors
    /// As [`Client::signal`], for the name of the room; also if the client is in 256 other rooms.
    pub fn join<T: Serialize>(&self, room: &str, data: Option<&T>) -> Result<Receipt, SendError> {
        let data = data.map(to_json).transpose()?;
        self.request(Request::Join { room: room.to_owned(), data })
    }

    /// Leaves a room or its waiting queue. Once that is done, the client no longer rejoins it.
    ///
    /// # Errors
    /// As [`Client::signal`], for the name of the room.
    pub fn leave(&self, room: &str) -> Result<Receipt, SendError> {
        self.request(Request::Leave { room: room.to_owned() })
    }

    /// Sends `data` to all other members of a room of the client. The receipt resolves once the
    /// outcome for each is known, to the number of members that received it.
    ///
    /// # Errors
    /// As [`Client::signal`], for the name of the room.
    pub fn broadcast<T: Serialize + ?Sized>(&self, room: &str, data: &T) -> Result<Receipt, SendError> {
        self.request(Request::Broadcast { room: room.to_owned(), data: to_json(data)? })
    }

    /// Requests the members of a room, at most 500 per page: those after the client `after`, or the
    /// first ones. The answer is an [`Event::Joined`], or an [`Event::Problem`] for a refusal. If
    /// the connection is lost first, there is none.
    ///
    /// # Errors
    /// If there is no connection now, a name is invalid, or the client is closed.
    pub fn members(&self, room: &str, after: Option<&str>) -> Result<(), SendError> {
        self.change(|guarded, _| guarded.core.members(room, after))
    }

    /// Requests fresh ICE servers. The answer is an [`Event::IceServers`], or an [`Event::Problem`]
    /// for a refusal. If the connection is lost first, there is none.
    ///
    /// # Errors
    /// If there is no connection now, or the client is closed.
    pub fn ice_servers(&self) -> Result<(), SendError> {
        self.change(|guarded, _| guarded.core.ice_servers())
    }

    /// Reports that the network is back or has changed. Shortens a wait to at most 1 s, unless the
    /// server asked for it or closed with 1008. Checks an open socket with a ping.
    pub fn network_changed(&self) {
        self.change(|guarded, at| guarded.core.network_changed(at));
    }

    /// Closes the client and ends its session. Without a connection the mesh keeps the session
    /// until it expires, by default 30 s after the loss. Queued requests are dropped. Requests
    /// without an outcome get [`RequestError::Closed`](crate::RequestError::Closed).
    pub fn close(&self) {
        self.change(|guarded, _| guarded.core.close());
    }

    /// Closes the client without ending its session, and returns the session for another process;
    /// `None` if the client is closed. Queued [`Events`] count as delivered, so read all of them.
    /// Receipts resolve to [`RequestError::Closed`](crate::RequestError::Closed), although the
    /// other process sends their requests.
    #[must_use]
    pub fn detach(&self) -> Option<SavedSession> {
        self.change(|guarded, _| guarded.core.detach())
    }

    fn request(&self, request: Request) -> Result<Receipt, SendError> {
        self.change(|guarded, at| {
            let ticket = guarded.core.request(at.now, request)?;
            let (settle, outcome) = oneshot::channel();
            guarded.outcomes.insert(ticket, settle);
            Ok(Receipt { outcome })
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Guarded, Moment) -> T) -> T {
        let state = &self.shared.state;
        let at = state.moment();
        let changed = change(&mut state.lock(), at);
        state.changed.notify_one();
        changed
    }
}

impl Events {
    /// Waits for the next event; `None` after the last of a closed client. A drop loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Waits for the next [`State::Connected`], discarding events; `None` if the client closes.
    pub async fn connected(&mut self) -> Option<crate::event::Welcome> {
        loop {
            if let Event::State(State::Connected(welcome)) = self.next().await? {
                return Some(welcome);
            }
        }
    }
}
