mod options;

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::task::{Context as TaskContext, Waker};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::client::Client;
use crate::latency::{Latencies, Percentiles};

pub(crate) use options::FleetOptions;

/// Handshakes that may be under way at the same time.
const MAX_OPENING: usize = 64;
/// How often new connections are begun.
const BEGIN_EVERY: Duration = Duration::from_millis(5);

/// Hears what comes in on the sockets of a fleet.
pub(crate) trait Listener: 'static {
    /// A text came in.
    fn text(&self, client: usize, text: &str);
    /// A socket has ended, though we did not end it.
    fn ended(&self, client: usize, reason: String);
}

/// How a fleet is to be connected.
pub(crate) struct FleetPlan {
    pub(crate) urls: Vec<String>,
    pub(crate) sources: Vec<IpAddr>,
    /// Connections begun a second.
    pub(crate) rate: u32,
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
        let mut opening: JoinSet<(usize, Duration, Result<Client>)> = JoinSet::new();
        let mut waiting = plan.urls.into_iter().enumerate();
        let mut clock = interval(BEGIN_EVERY);
        let mut begun = 0;
        while waiting.len() > 0 || !opening.is_empty() {
            tokio::select! {
                _ = clock.tick(), if waiting.len() > 0 && opening.len() < MAX_OPENING => {
                    let allowed = (begin.elapsed().as_secs_f64() * f64::from(plan.rate)) as usize + 1;
                    while begun < allowed && opening.len() < MAX_OPENING {
                        let Some((number, url)) = waiting.next() else { break };
                        begun += 1;
                        let source = plan.sources.get(number % plan.sources.len().max(1)).copied();
                        opening.spawn_local(async move {
                            let begin = Instant::now();
                            let client = Client::connect(&url, source).await;
                            (number, begin.elapsed(), client)
                        });
                    }
                }
                Some(opened) = opening.join_next() => {
                    let (number, time, client) = opened.context("a connecting task was stopped")?;
                    let client = Rc::new(client.with_context(|| format!("client {number} of {total}"))?);
                    times.record(time);
                    bar.inc(1);
                    readers.spawn_local(listen(number, Rc::clone(&client), Rc::clone(listener)));
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
    let reason = client.read(|text| listener.text(number, text)).await;
    listener.ended(number, reason);
}

/// A bar on the terminal, and nothing where there is none.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg:<12} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}
