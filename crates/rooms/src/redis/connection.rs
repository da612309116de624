//! A connection that is made again when it fails, and commands over it, for the `store`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::address::Address;
use super::health::{Health, Verdict};
use super::link::{CALL_TIMEOUT, Link};
use super::scripts;
use crate::{Clock, StoreError};

/// Maximum commands per pipeline, so that its answers delay other calls by a few milliseconds only.
const MAX_PIPELINE: usize = 200;
/// Interval of checks, so that an idle node also detects a server that is gone or demoted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Connection to one server or cluster, made again when it fails. Clones share it. The first call
/// starts a task of the Tokio runtime, which ends with the last clone.
#[derive(Clone)]
pub(super) struct Connection(Arc<Shared>);

struct Shared {
    address: Arc<Address>,
    /// Starts the task that maintains the connection.
    start: Once,
    state: watch::Sender<State>,
    health: Mutex<Health>,
    lost: AtomicU64,
    clock: Clock,
    /// The server process of the last connection.
    run: Mutex<Option<String>>,
    /// Time when another server process took over, by the clock in milliseconds. 0: never.
    replaced_at: AtomicU64,
}

enum State {
    /// The next attempt decides; calls wait at most 2 s. The first call starts the first one.
    Connecting,
    /// Connected by the attempt with this number, from 0.
    Up { link: Link, number: u64 },
    /// An attempt failed, and others follow; calls fail at once.
    Down(RedisError),
}

impl Connection {
    /// Creates a connection, made at first use. Fails if `url` is no [`Address`].
    pub(super) fn new(url: &str, clock: Clock) -> Result<Self, StoreError> {
        let address = Arc::new(Address::parse(url).map_err(StoreError::new)?);
        let (state, _) = watch::channel(State::Connecting);
        Ok(Self(Arc::new(Shared {
            address,
            start: Once::new(),
            state,
            health: Mutex::default(),
            lost: AtomicU64::new(0),
            clock,
            run: Mutex::default(),
            replaced_at: AtomicU64::new(0),
        })))
    }

    /// Returns the number of established connections that failed since the start.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Treats the present server process as a new one, which may lack data. Affects the argument of
    /// `make` in [`Connection::send`] only.
    pub(super) fn restarted(&self) {
        self.0.replaced_at.store(self.0.clock.of_process(), Ordering::Relaxed);
    }

    /// Sends the commands of `make`, and returns each answer or error. Loads unknown scripts.
    /// `make` receives the milliseconds since another server process took over. `None`: never.
    /// Waits at most 2 s for a connection. 200 commands then take at most 2 s, or 6 s with loading.
    pub(super) async fn send(&self, make: impl FnOnce(Option<u64>) -> Vec<Cmd>) -> Vec<Result<Value, StoreError>> {
        let link = self.link().await;
        let commands = make(self.0.replaced_ago());
        let mut answers = Vec::with_capacity(commands.len());
        for commands in commands.chunks(MAX_PIPELINE) {
            match &link {
                Ok((link, number)) => answers.extend(self.send_some(link, *number, commands).await),
                Err(error) => answers.extend(commands.iter().map(|_| Err(error.clone()))),
            }
        }
        answers.into_iter().map(|answer| answer.map_err(StoreError::new)).collect()
    }

    /// Sends one command and converts its answer. Fails without an answer of the type `T`.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, StoreError> {
        let answer = self.send(|_| vec![command]).await.pop().unwrap_or_else(|| Err(StoreError::new("no answer")))?;
        T::from_redis_value(answer).map_err(StoreError::new)
    }

    async fn send_some(&self, link: &Link, number: u64, commands: &[Cmd]) -> Vec<RedisResult<Value>> {
        let mut answers = over(link, commands).await;
        let unknown: Vec<_> =
            answers.iter().zip(0..).filter(|(answer, _)| is_unknown(answer)).map(|(_, at)| at).collect();
        if !unknown.is_empty() {
            over(link, &scripts::load_all()).await;
            let again: Vec<_> = unknown.iter().filter_map(|&at: &usize| commands.get(at).cloned()).collect();
            for (at, answer) in unknown.into_iter().zip(over(link, &again).await) {
                if let Some(place) = answers.get_mut(at) {
                    *place = answer;
                }
            }
        }
        self.0.judge(number, &answers);
        answers
    }

    /// Returns the established connection and its number. Waits for an attempt in progress.
    async fn link(&self) -> RedisResult<(Link, u64)> {
        self.0.start.call_once(|| {
            let (shared, address) = (Arc::downgrade(&self.0), Arc::clone(&self.0.address));
            tokio::spawn(keep(shared, address, self.0.state.subscribe()));
        });
        let mut state = self.0.state.subscribe();
        let known = timeout(CALL_TIMEOUT, state.wait_for(|state| !matches!(state, State::Connecting))).await;
        match known.as_ref().map(|known| known.as_deref()) {
            Ok(Ok(State::Up { link, number })) => Ok((link.clone(), *number)),
            Ok(Ok(State::Down(error))) => Err(error.clone()),
            _ => Err(RedisError::from((ErrorKind::Io, "not connected in time"))),
        }
    }
}

impl Shared {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the server process of a new connection and detects a takeover.
    fn serves(&self, run: &str) {
        let known = self.run.lock().unwrap_or_else(PoisonError::into_inner).replace(run.to_owned());
        if known.is_some_and(|known| known != run) {
            info!("another server process has taken over the room store: nodes restore the seats that it lacks");
            self.replaced_at.store(self.clock.of_process(), Ordering::Relaxed);
        }
    }

    fn replaced_ago(&self) -> Option<u64> {
        let at = self.replaced_at.load(Ordering::Relaxed);
        (at != 0).then(|| self.clock.of_process().saturating_sub(at))
    }

    fn judge(&self, number: u64, answers: &[RedisResult<Value>]) {
        let verdict = self.health().judge(answers);
        match verdict {
            Verdict::Fit { is_news: true } => info!("room store connection restored"),
            Verdict::Fit { is_news: false } | Verdict::Unclear => {}
            Verdict::Failed(error) => self.failed(number, &error),
        }
    }

    /// Drops an established connection, unless that was done before.
    fn failed(&self, number: u64, error: &RedisError) {
        let is_backing_off = self.health().is_backing_off();
        let is_present = self.state.send_if_modified(|state| {
            let is_present = matches!(state, State::Up { number: present, .. } if *present == number);
            if is_present {
                *state = if is_backing_off { State::Down(error.clone()) } else { State::Connecting };
            }
            is_present
        });
        if is_present {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.report(error);
        }
    }

    fn unreachable(&self, error: RedisError) {
        self.report(&error);
        self.state.send_replace(State::Down(error));
    }

    /// Logs the first failure of an outage.
    fn report(&self, error: &RedisError) {
        let is_news = self.health().is_news();
        if is_news {
            warn!(%error, "room store connection failed, reconnecting");
        }
    }
}

/// Connects, and reconnects after each failure. Ends when no clone of the connection is left.
async fn keep(shared: Weak<Shared>, address: Arc<Address>, mut state: watch::Receiver<State>) {
    for number in 0.. {
        let Some(pause) = shared.upgrade().map(|shared| shared.health().next_pause(rand::random())) else { return };
        sleep(pause).await;
        let attempt = async {
            let link = Link::open(&address).await?;
            RedisResult::Ok((link.run().await?, link))
        };
        let attempt = attempt.await;
        let Some(present) = shared.upgrade() else { return };
        match attempt {
            Ok((run, link)) => {
                if let Some(run) = &run {
                    present.serves(run);
                }
                present.state.send_replace(State::Up { link: link.clone(), number });
                drop(present);
                if watch_over(&shared, &link, number, &mut state).await.is_none() {
                    return;
                }
            }
            Err(error) => present.unreachable(error),
        }
    }
}

/// Checks an established connection until it has failed. `None`: no clone of it is left.
async fn watch_over(shared: &Weak<Shared>, link: &Link, number: u64, state: &mut watch::Receiver<State>) -> Option<()> {
    loop {
        let failed = state.wait_for(|state| !matches!(state, State::Up { .. }));
        match timeout(CHECK_INTERVAL, failed).await.map(|failed| failed.is_ok()) {
            Ok(true) => return Some(()),
            Ok(false) => return None,
            Err(_) => {
                if let Err(error) = link.check().await {
                    shared.upgrade()?.failed(number, &error);
                }
            }
        }
    }
}

/// Sends commands. A connection error becomes the answer to each command.
async fn over(link: &Link, commands: &[Cmd]) -> Vec<RedisResult<Value>> {
    match link.send(commands).await {
        Ok(answers) => answers,
        Err(error) => commands.iter().map(|_| Err(error.clone())).collect(),
    }
}

fn is_unknown(answer: &RedisResult<Value>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}
