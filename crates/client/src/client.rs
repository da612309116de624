//! The handle that applications have.

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
use crate::outcome::SendError;
use crate::receipt::Receipt;
use crate::saved::SavedSession;

/// Events that may wait for the application; see [`Events`] for what happens with more.
const MAX_EVENTS: usize = 1024;

/// A client of the mesh: a handle, cheap to clone. The connection is kept up until [`Client::close`], [`Client::detach`], an
/// end that allows no return, or until all handles and [`Events`] are dropped.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What happens to a client, in order. Take them as they come: with 1,024 waiting nothing is read from the server. If that
/// lasts 5 s and messages wait there, the server closes the socket as too slow. No message is lost by that, and it is no
/// secret: a warning is logged when reading stops, and behind the events that waited comes a
/// [`State::Waiting`] with the code 4002, whereupon the session is resumed, if the mesh still keeps it (30 s).
#[derive(Debug)]
pub struct Events {
    events: mpsc::Receiver<Event>,
    /// The client lives as long as somebody listens.
    _shared: Arc<Shared>,
}

/// The core, between the handles and the one task that drives it. The lock is held for the length of a decision, never longer.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    core: Mutex<Guarded>,
    /// There are effects, or an earlier deadline.
    pub(crate) changed: Notify,
    epoch: Instant,
}

#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) core: Core,
    pub(crate) outcomes: HashMap<Ticket, oneshot::Sender<Outcome>>,
    random: StdRng,
    /// Nobody holds a handle any more.
    pub(crate) is_abandoned: bool,
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Guarded> {
        // A panic inside a decision leaves it half made, in this client alone; it must not spread to those who hold handles.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Ms {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(Ms::MAX)
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now(), random: self.lock().random.random() }
    }

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
    /// Starts a client, which connects at once and comes back whenever it has to.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn connect(options: Options) -> (Self, Events) {
        Self::connect_by(options, Tcp)
    }

    /// The same by another way to the servers.
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
        let (tell, events) = mpsc::channel(MAX_EVENTS);
        tokio::spawn(Driver::new(Arc::clone(&state), options, dialer, tell).run());
        let shared = Arc::new(Shared { state });
        (Self { shared: Arc::clone(&shared) }, Events { events, _shared: shared })
    }

    /// Sends `data` to another client. The [`Receipt`] tells when it was delivered; the message goes out, and is repeated
    /// after a lost connection, whether or not anybody waits for that. Messages to one client arrive in the order sent.
    ///
    /// # Errors
    /// If it cannot be taken: the queue is full, it is too large, or the client is closed.
    pub fn signal<T: Serialize + ?Sized>(&self, to: &str, data: &T) -> Result<Receipt, SendError> {
        self.request(Request::Signal { to: to.to_owned(), data: to_json(data)?, ttl_ms: None })
    }

    /// The same, for a recipient that is not there to be waited for so long at most; with zero not at all.
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

    /// Enters a room, with something to show to the others there (at most 4 KiB). The state of the room comes as
    /// [`Event::Joined`] or [`Event::Waiting`]. A client whose session was lost enters its rooms again by itself.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub fn join<T: Serialize>(&self, room: &str, data: Option<&T>) -> Result<Receipt, SendError> {
        let data = data.map(to_json).transpose()?;
        self.request(Request::Join { room: room.to_owned(), data })
    }

    /// Leaves a room, or the line in front of it.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub fn leave(&self, room: &str) -> Result<Receipt, SendError> {
        self.request(Request::Leave { room: room.to_owned() })
    }

    /// Sends `data` to all others in a room that the client is in.
    ///
    /// # Errors
    /// As [`Client::signal`].
    pub fn broadcast<T: Serialize + ?Sized>(&self, room: &str, data: &T) -> Result<Receipt, SendError> {
        self.request(Request::Broadcast { room: room.to_owned(), data: to_json(data)? })
    }

    /// Asks for the members of a room, 500 a page, those behind `after` where it is given. The answer is an [`Event::Joined`].
    ///
    /// # Errors
    /// If there is no connection now.
    pub fn members(&self, room: &str, after: Option<&str>) -> Result<(), SendError> {
        self.change(|guarded, _| guarded.core.members(room, after))
    }

    /// Asks for fresh ICE servers. The answer is an [`Event::IceServers`].
    ///
    /// # Errors
    /// If there is no connection now.
    pub fn ice_servers(&self) -> Result<(), SendError> {
        self.change(|guarded, _| guarded.core.ice_servers())
    }

    /// Says that the network may be back, or another one: a wait is cut short, and an open socket is asked whether it lives.
    pub fn network_changed(&self) {
        self.change(|guarded, at| guarded.core.network_changed(at));
    }

    /// Ends the session. What has no outcome yet gets [`RequestError::Closed`](crate::RequestError::Closed).
    pub fn close(&self) {
        self.change(|guarded, _| guarded.core.close());
    }

    /// Drops the connection and leaves the session for another process to go on with; `None` if the client is closed. What
    /// [`Events`] still has then was delivered: read it to its end.
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
    /// The next one; `None` once the client is closed and all were taken.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Waits until the client is connected, passing over other events. `None` if it closes first.
    pub async fn connected(&mut self) -> Option<crate::event::Welcome> {
        loop {
            if let Event::State(State::Connected(welcome)) = self.next().await? {
                return Some(welcome);
            }
        }
    }
}
