//! Many clients, each with a task that reads its socket.

mod options;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::RngExt as _;
use signaling_protocol::Backoff;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::client::{Client, ConnectError, Return, retry_after_of};
use crate::driver::progress;
use crate::latency::Latencies;
use crate::record::{Record, count};

pub(crate) use options::{FleetOptions, connect_url};

const MAX_OPENING: usize = 64;
/// Maximum delays before the first and before later attempts to reconnect, as in the SDKs.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);

/// Receives the events of a fleet's sockets.
pub(crate) trait Listener: 'static {
    /// A text arrived. Returns the id of the message whose outcome it reports.
    fn text(&self, client: usize, text: &str) -> Option<u64>;
    /// A socket ended that this process had not closed.
    fn ended(&self, client: usize, reason: String);
    fn returned(&self, _client: usize, _how: &Return) {}
}

/// Counts the sockets that end, of clients that only hold them.
impl Listener for RefCell<Record> {
    fn text(&self, _client: usize, _text: &str) -> Option<u64> {
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        count(&mut self.borrow_mut().closed, &reason);
    }
}

pub(crate) struct FleetPlan {
    /// URLs of each client; it begins with the first, and each reconnect takes the next.
    pub(crate) urls: Vec<Vec<String>>,
    pub(crate) rate: u32,
    pub(crate) come_back: bool,
}

pub(crate) struct Fleet {
    pub(crate) clients: Vec<Rc<Client>>,
    pub(crate) connect: Latencies,
    pub(crate) connect_seconds: f64,
    _readers: JoinSet<()>,
}

type Opened = (usize, Duration, Result<Client, ConnectError>);

impl Fleet {
    /// Opens all sockets at a bounded rate. The first failure ends it.
    pub(crate) async fn connect<L: Listener>(plan: FleetPlan, listener: &Rc<L>) -> Result<Self> {
        let FleetPlan { urls, rate, come_back } = plan;
        let begin = Instant::now();
        let bar = progress(urls.len() as u64, "connecting");
        let mut clients: Vec<Option<Rc<Client>>> = vec![None; urls.len()];
        let (mut connect, mut readers) = (Latencies::default(), JoinSet::new());
        let mut opening: JoinSet<Opened> = JoinSet::new();
        let (mut ticks, mut begun) = (interval(CONNECT_INTERVAL), 0);
        while begun < urls.len() || !opening.is_empty() {
            tokio::select! {
                _ = ticks.tick(), if begun < urls.len() && opening.len() < MAX_OPENING => {
                    let allowed = (begin.elapsed().as_secs_f64() * f64::from(rate)) as usize + 1;
                    while begun < allowed.min(urls.len()) && opening.len() < MAX_OPENING {
                        let (number, url) = (begun, urls[begun][0].clone());
                        opening.spawn_local(async move {
                            let begin = Instant::now();
                            let client = Client::connect(&url).await;
                            (number, begin.elapsed(), client)
                        });
                        begun += 1;
                    }
                }
                Some(opened) = opening.join_next() => {
                    let (number, took, client) = opened.context("a connecting task was stopped")?;
                    let client = client.map_err(|failed| failed.error).with_context(|| urls[number][0].clone());
                    let mut client = client.with_context(|| format!("client {number} of {}", urls.len()))?;
                    connect.record(took);
                    bar.inc(1);
                    if come_back {
                        client.keep_unanswered();
                    }
                    let client = Rc::new(client);
                    clients[number] = Some(Rc::clone(&client));
                    let urls = if come_back { urls[number].clone() } else { Vec::new() };
                    readers.spawn_local(listen(number, client, Rc::clone(listener), urls));
                }
            }
        }
        bar.finish_and_clear();
        let clients = clients.into_iter().flatten().collect();
        Ok(Self { clients, connect, connect_seconds: begin.elapsed().as_secs_f64(), _readers: readers })
    }

    pub(crate) fn cut(&self, percent: u32) {
        let clients = self.clients.len() * percent as usize / 100;
        self.clients[..clients].iter().for_each(|client| client.cut());
    }

    /// Closes all sockets. Returns the times that the connections took.
    pub(crate) fn close(self) -> Latencies {
        self.clients.iter().for_each(|client| client.close());
        self.connect
    }
}

/// Reads a client's socket. Reconnects to these URLs in turn, if any, as long as the fleet lives.
async fn listen<L: Listener>(number: usize, client: Rc<Client>, listener: Rc<L>, urls: Vec<String>) {
    let mut urls = urls.iter().cycle().skip(1);
    loop {
        let mut retry_after = None;
        let on_text = |text: &str| {
            if let Some(id) = listener.text(number, text) {
                client.answered(id);
            }
            retry_after = retry_after_of(text).or(retry_after);
        };
        let reason = client.read(on_text).await;
        listener.ended(number, reason);
        let (lost, mut backoff, mut tries) = (Instant::now(), Backoff::new(FIRST_BACKOFF, MAX_BACKOFF), 0);
        loop {
            let Some(url) = urls.next() else { return };
            tries += 1;
            let delay = match retry_after.take() {
                Some(requested) => requested,
                None => rand::rng().random_range(Duration::ZERO..=max_delay(&mut backoff, lost.elapsed())),
            };
            sleep(delay).await;
            match client.come_back(url).await {
                Ok(how) => {
                    listener.returned(number, &Return { tries, ..how });
                    break;
                }
                Err(failed) => retry_after = failed.retry_after,
            }
        }
    }
}

/// Returns the maximum delay of a client that has been `away` for this time. It doubles with each
/// attempt, up to twice that time: a short outage must not lead to a long delay.
fn max_delay(backoff: &mut Backoff, away: Duration) -> Duration {
    backoff.next_limit().min(FIRST_BACKOFF.max(away * 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_delay_doubles_up_to_twice_the_time_away() {
        let cases: [(u64, &[u64]); 3] =
            [(60_000, &[1, 2, 4, 8, 16, 30, 30]), (300, &[1, 1, 1, 1]), (3_000, &[1, 2, 4, 6, 6])];
        for (away_ms, delays) in cases {
            let mut backoff = Backoff::new(FIRST_BACKOFF, MAX_BACKOFF);
            for seconds in delays {
                let delay = max_delay(&mut backoff, Duration::from_millis(away_ms));
                assert_eq!(delay, Duration::from_secs(*seconds), "away for {away_ms} ms");
            }
        }
    }
}
