use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::pending;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::HostileOptions;
use super::stranger::{deaf, drip};

/// Connections per second: fewer than the servers accept, so that the crowd does not block itself.
const COME_PER_SECOND: f64 = 1_500.0;
/// Maximum additional time until all have connected.
const GATHER_WITHIN: Duration = Duration::from_secs(20);
/// Share of the crowd that counts as complete, since some clients are always reconnecting.
const ALL: f64 = 0.9;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The crowd, connected from `gather` until it is dispersed or dropped.
pub(crate) struct Crowd {
    options: HostileOptions,
    present: Arc<Presence>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<Result<()>>,
}

/// Counter of the connected strangers of one kind: each holds a clone.
pub(super) type Headcount = Arc<()>;

#[derive(Debug, Default)]
struct Presence {
    begin: Notify,
    handshakes: Headcount,
    deaf: Headcount,
}

impl Crowd {
    pub(crate) fn new(options: &HostileOptions, edges: Vec<SocketAddr>) -> Result<Self> {
        if edges.is_empty() {
            bail!("there is nobody to bother");
        }
        let present = Arc::new(Presence::default());
        let (end, ended) = oneshot::channel();
        let crowd = (options.clone(), Arc::clone(&present));
        let thread = thread::Builder::new().name("crowd".into()).spawn(move || live(&crowd.0, &crowd.1, &edges, ended));
        Ok(Self { options: options.clone(), present, end, thread: thread.context("cannot start a thread")? })
    }

    pub(crate) fn present(&self) -> (u64, u64) {
        let count = |present| Arc::strong_count(present) as u64 - 1;
        (count(&self.present.handshakes), count(&self.present.deaf))
    }

    /// Connects all strangers and waits for them.
    pub(crate) async fn gather(&self) -> Result<()> {
        self.present.begin.notify_one();
        let HostileOptions { handshakes, deaf, .. } = self.options;
        let coming = Duration::from_secs_f64(f64::from(self.options.sockets()) / COME_PER_SECOND);
        let end = Instant::now() + coming + GATHER_WITHIN;
        let is_there = |now: u64, all: u32| now as f64 >= f64::from(all) * ALL;
        loop {
            let now = self.present();
            if is_there(now.0, handshakes) && is_there(now.1, deaf) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("of {handshakes} handshakes and {deaf} deaf clients only {} and {} have come", now.0, now.1);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(crate) fn disperse(self) -> Result<()> {
        drop(self.end);
        self.thread.join().unwrap_or_else(|_| bail!("the crowd's thread has panicked"))
    }
}

fn live(
    options: &HostileOptions,
    present: &Arc<Presence>,
    edges: &[SocketAddr],
    ended: oneshot::Receiver<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            () = bother(options, present, edges) => {}
            // Completes when the other end is dropped, with an error.
            _ = ended => {}
        }
    });
    Ok(())
}

async fn bother(options: &HostileOptions, present: &Arc<Presence>, edges: &[SocketAddr]) {
    present.begin.notified().await;
    let mut strangers = JoinSet::new();
    for (number, to) in (0..options.sockets()).zip(edges.iter().copied().cycle()) {
        let present = Arc::clone(present);
        let handshake = (number < options.handshakes).then(|| HostileOptions::address(number));
        strangers.spawn(async move {
            sleep(Duration::from_secs_f64(f64::from(number) / COME_PER_SECOND)).await;
            match handshake {
                Some(from) => drip(from, to, &present.handshakes).await,
                None => deaf(&format!("deaf-{number}"), HOME, to, &present.deaf).await,
            }
        });
    }
    pending::<()>().await;
}

/// Minimum average share of the crowd in a valid measurement.
const ENOUGH: f64 = 0.8;

/// Average number of connected strangers during the measurement of the good clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Present {
    handshakes: f64,
    deaf: f64,
}

impl Present {
    pub(crate) fn mean(looks: &[(u64, u64)]) -> Self {
        let mean = |of: fn(&(u64, u64)) -> u64| looks.iter().map(of).sum::<u64>() as f64 / looks.len().max(1) as f64;
        Self { handshakes: mean(|look| look.0), deaf: mean(|look| look.1) }
    }

    pub(crate) fn failures(&self, options: &HostileOptions) -> impl Iterator<Item = String> {
        let crowd = [("handshakes", self.handshakes, options.handshakes), ("deaf clients", self.deaf, options.deaf)];
        let is_missing = |(_, present, all): &(&str, f64, u32)| *present < f64::from(*all) * ENOUGH;
        let failure = |(what, present, all)| format!("of {all} {what} only {present:.0} were there");
        crowd.into_iter().filter(is_missing).map(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_strangers_are_reported_as_a_mean() {
        assert_eq!(Present::mean(&[(10, 4), (20, 8)]), Present { handshakes: 15.0, deaf: 6.0 });
        assert_eq!(Present::mean(&[]), Present::default());
    }
}
