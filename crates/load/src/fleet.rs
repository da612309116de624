mod endings;
mod options;

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::backoff::BackOff;
use crate::client::{Client, ConnectError, Return, Way, retry_after_of};
use crate::latency::Latencies;
use crate::progress::progress;
use crate::wire::Trust;

pub(crate) use endings::Endings;
pub(crate) use options::{FleetOptions, Via};

/// Handshakes that may be under way at the same time.
const MAX_OPENING: usize = 64;
/// The longest wait before a client that was told nothing comes back, and before its later tries.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LAST_BACK_OFF: Duration = Duration::from_secs(30);
/// How often new connections are begun.
const BEGIN_EVERY: Duration = Duration::from_millis(5);

/// Hears what comes in on the sockets of a fleet.
pub(crate) trait Listener: 'static {
    /// A text came in. Returns the id of the message whose fate it tells, if it tells one.
    fn text(&self, client: usize, text: &str) -> Option<u64>;
    /// A socket has ended, though we did not end it.
    fn ended(&self, client: usize, reason: String);
    /// A client has come back.
    fn returned(&self, _client: usize, _how: &Return) {}
}

/// How a fleet is to be connected.
pub(crate) struct FleetPlan {
    /// Of each client, those that it may connect to; the first one to begin with.
    pub(crate) urls: Vec<Vec<String>>,
    pub(crate) sources: Vec<IpAddr>,
    /// Who is trusted where URLs are wss://.
    pub(crate) trust: Option<Trust>,
    /// Connections begun a second.
    pub(crate) rate: u32,
    /// Clients whose socket ends come back, to the next of their URLs.
    pub(crate) come_back: bool,
}

/// Many open sockets, each with a task that reads it.
pub(crate) struct Fleet {
    pub(crate) clients: Vec<Rc<Client>>,
    /// How long each took to connect.
    pub(crate) connect: Latencies,
    pub(crate) connect_seconds: f64,
    _readers: JoinSet<()>,
}

/// A client that has connected.
pub(crate) struct Opened {
    pub(crate) home: Home,
    pub(crate) client: Client,
}

/// Where a client may connect.
pub(crate) struct Home {
    pub(crate) number: usize,
    pub(crate) urls: Vec<String>,
    pub(crate) way: Way,
}

impl FleetPlan {
    /// Opens all sockets at a bounded rate, and hands each on as soon as it is open. The first failure ends it.
    pub(crate) async fn open(self, mut on_open: impl FnMut(Opened)) -> Result<Latencies> {
        let total = self.urls.len();
        let bar = progress(total as u64, "connecting");
        let begin = Instant::now();
        let mut times = Latencies::default();
        let mut opening: JoinSet<(Home, Duration, Result<Client, ConnectError>)> = JoinSet::new();
        let mut waiting = self.urls.into_iter().enumerate();
        let mut clock = interval(BEGIN_EVERY);
        let mut begun = 0;
        while waiting.len() > 0 || !opening.is_empty() {
            tokio::select! {
                _ = clock.tick(), if waiting.len() > 0 && opening.len() < MAX_OPENING => {
                    let allowed = (begin.elapsed().as_secs_f64() * f64::from(self.rate)) as usize + 1;
                    while begun < allowed && opening.len() < MAX_OPENING {
                        let Some((number, urls)) = waiting.next() else { break };
                        begun += 1;
                        let source = self.sources.get(number % self.sources.len().max(1)).copied();
                        let way = Way { source, trust: self.trust.clone() };
                        opening.spawn_local(async move {
                            let begin = Instant::now();
                            let client = Client::connect(&urls[0], &way).await;
                            (Home { number, urls, way }, begin.elapsed(), client)
                        });
                    }
                }
                Some(opened) = opening.join_next() => {
                    let (home, took, client) = opened.context("a connecting task was stopped")?;
                    let client = client
                        .with_context(|| home.urls[0].clone())
                        .with_context(|| format!("client {} of {total}", home.number))?;
                    times.record(took);
                    bar.inc(1);
                    on_open(Opened { home, client });
                }
            }
        }
        bar.finish_and_clear();
        Ok(times)
    }
}

impl Fleet {
    /// Opens all sockets at a bounded rate. The first failure ends it.
    pub(crate) async fn connect<L: Listener>(plan: FleetPlan, listener: &Rc<L>) -> Result<Self> {
        let begin = Instant::now();
        let come_back = plan.come_back;
        let mut clients: Vec<Option<Rc<Client>>> = vec![None; plan.urls.len()];
        let mut readers = JoinSet::new();
        let on_open = |Opened { home, mut client }: Opened| {
            if come_back {
                client.keep_unanswered();
            }
            let (number, client, listener) = (home.number, Rc::new(client), Rc::clone(listener));
            clients[number] = Some(Rc::clone(&client));
            if come_back {
                readers.spawn_local(listen_and_come_back(home, client, listener));
            } else {
                readers.spawn_local(listen(number, client, listener));
            }
        };
        let connect = plan.open(on_open).await?;
        Ok(Self {
            clients: clients.into_iter().flatten().collect(),
            connect,
            connect_seconds: begin.elapsed().as_secs_f64(),
            _readers: readers,
        })
    }

    /// Cuts the connections of the first clients, this share of all. Returns how many.
    pub(crate) fn cut(&self, percent: u32) -> usize {
        let mut context = TaskContext::from_waker(Waker::noop());
        let clients = self.clients.len() * percent as usize / 100;
        self.clients[..clients].iter().for_each(|client| client.cut(&mut context));
        clients
    }

    /// Closes all sockets in good order.
    pub(crate) fn close(self) {
        let mut context = TaskContext::from_waker(Waker::noop());
        for client in &self.clients {
            client.close(&mut context);
        }
    }
}

async fn listen<L: Listener>(number: usize, client: Rc<Client>, listener: Rc<L>) {
    let heard = |text: &str| {
        listener.text(number, text);
    };
    let reason = client.read(heard).await;
    listener.ended(number, reason);
}

/// Listens for as long as the fleet lives: a client whose socket ends comes back after a while, as told or drawn.
async fn listen_and_come_back<L: Listener>(home: Home, client: Rc<Client>, listener: Rc<L>) {
    let mut urls = home.urls.iter().cycle().skip(1);
    loop {
        let mut retry_after = None;
        let heard = |text: &str| {
            if let Some(id) = listener.text(home.number, text) {
                client.answered(id);
            }
            retry_after = retry_after_of(text).or(retry_after);
        };
        let reason = client.read(heard).await;
        listener.ended(home.number, reason);
        let (lost, mut back_off) = (Instant::now(), BackOff::new(FIRST_BACK_OFF, LAST_BACK_OFF));
        for (url, tries) in urls.by_ref().zip(1..) {
            sleep(back_off.wait(lost.elapsed(), retry_after.take(), &mut rand::rng())).await;
            match client.come_back(url, &home.way).await {
                Ok(how) => {
                    listener.returned(home.number, &Return { tries, ..how });
                    break;
                }
                Err(error) => retry_after = error.retry_after(),
            }
        }
    }
}
