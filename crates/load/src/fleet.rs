mod options;

use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt as _;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::client::{Client, Return};
use crate::latency::{Latencies, Percentiles};

pub(crate) use options::{FleetOptions, Via};

/// Handshakes that may be under way at the same time.
const MAX_OPENING: usize = 64;
/// The longest wait before a client that was told nothing comes back, and before its later tries.
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LAST_BACK_OFF: Duration = Duration::from_secs(4);
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
    /// Connections begun a second.
    pub(crate) rate: u32,
    /// Clients whose socket ends come back, to the next of their URLs.
    pub(crate) come_back: bool,
}

/// Many open sockets, each with a task that reads it.
pub(crate) struct Fleet {
    pub(crate) clients: Vec<Rc<Client>>,
    pub(crate) connect: Percentiles,
    pub(crate) connect_seconds: f64,
    _readers: JoinSet<()>,
}

impl Fleet {
    /// Opens all sockets at a bounded rate. The first failure ends it.
    pub(crate) async fn connect<L: Listener>(plan: FleetPlan, listener: &Rc<L>) -> Result<Self> {
        let total = plan.urls.len();
        let bar = progress(total as u64, "connecting");
        let begin = Instant::now();
        let mut times = Latencies::new()?;
        let mut clients: Vec<Option<Rc<Client>>> = vec![None; total];
        let mut readers = JoinSet::new();
        let mut opening: JoinSet<(Home, Duration, Result<Client>)> = JoinSet::new();
        let mut waiting = plan.urls.into_iter().enumerate();
        let mut clock = interval(BEGIN_EVERY);
        let mut begun = 0;
        while waiting.len() > 0 || !opening.is_empty() {
            tokio::select! {
                _ = clock.tick(), if waiting.len() > 0 && opening.len() < MAX_OPENING => {
                    let allowed = (begin.elapsed().as_secs_f64() * f64::from(plan.rate)) as usize + 1;
                    while begun < allowed && opening.len() < MAX_OPENING {
                        let Some((number, urls)) = waiting.next() else { break };
                        begun += 1;
                        let source = plan.sources.get(number % plan.sources.len().max(1)).copied();
                        opening.spawn_local(async move {
                            let begin = Instant::now();
                            let client = Client::connect(&urls[0], source).await;
                            (Home { number, urls, source }, begin.elapsed(), client)
                        });
                    }
                }
                Some(opened) = opening.join_next() => {
                    let (home, time, client) = opened.context("a connecting task was stopped")?;
                    let number = home.number;
                    let mut client = client.with_context(|| format!("client {number} of {total}"))?;
                    if plan.come_back {
                        client.keep_unanswered();
                    }
                    let client = Rc::new(client);
                    times.record(time);
                    bar.inc(1);
                    if plan.come_back {
                        readers.spawn_local(listen_and_come_back(home, Rc::clone(&client), Rc::clone(listener)));
                    } else {
                        readers.spawn_local(listen(number, Rc::clone(&client), Rc::clone(listener)));
                    }
                    clients[number] = Some(client);
                }
            }
        }
        bar.finish_and_clear();
        Ok(Self {
            clients: clients.into_iter().flatten().collect(),
            connect: times.percentiles(),
            connect_seconds: begin.elapsed().as_secs_f64(),
            _readers: readers,
        })
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

/// Where a client may connect.
struct Home {
    number: usize,
    urls: Vec<String>,
    source: Option<IpAddr>,
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
        let mut pause = retry_after.unwrap_or_else(|| rand::rng().random_range(Duration::ZERO..=FIRST_BACK_OFF));
        let mut back_off = FIRST_BACK_OFF;
        for url in urls.by_ref() {
            sleep(pause).await;
            if let Ok(how) = client.come_back(url, home.source).await {
                listener.returned(home.number, &how);
                break;
            }
            pause = rand::rng().random_range(Duration::ZERO..=back_off);
            back_off = LAST_BACK_OFF.min(back_off * 2);
        }
    }
}

/// How long a `goodbye` asks its client to wait.
fn retry_after_of(text: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Goodbye {
        retry_after_ms: u64,
    }
    let is_goodbye = text.starts_with("{\"type\":\"goodbye\"");
    let goodbye: Goodbye = is_goodbye.then(|| serde_json::from_str(text).ok())??;
    Some(Duration::from_millis(goodbye.retry_after_ms))
}

/// A bar on the terminal, and nothing where there is none.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg:<12} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}
