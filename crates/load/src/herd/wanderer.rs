use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::sleep;

use super::HerdOptions;
use super::log::HerdPart;
use crate::backoff::BackOff;
use crate::client::{Client, retry_after_of};
use crate::clock::Clock;
use crate::fleet::Home;
use crate::latency::Latencies;

/// What all clients of a process share, on one thread.
pub(super) struct Herd {
    clock: Cell<Clock>,
    backoff_cap: Duration,
    log: RefCell<HerdPart>,
}

impl Herd {
    pub(super) fn new(options: &HerdOptions) -> Result<Self> {
        let seconds = options.before + options.away().as_secs() + options.patience;
        Ok(Self {
            clock: Cell::new(Clock::start()),
            backoff_cap: options.backoff_cap(),
            log: RefCell::new(HerdPart::new(seconds)?),
        })
    }

    /// All are connected; the time of the run begins.
    pub(super) fn begin(&self, clock: Clock) {
        self.clock.set(clock);
    }

    /// Clients that were lost and are back, or will never be.
    pub(super) fn back(&self) -> u64 {
        let log = self.log.borrow();
        log.latest_by_client().values().filter(|journey| journey.has_ended()).count() as u64
    }

    pub(super) fn part(&self, connect: Latencies) -> HerdPart {
        let log = self.log.borrow();
        HerdPart {
            connect,
            journeys: log.journeys.clone(),
            refusals: log.refusals.clone(),
            timeline: log.timeline.clone(),
        }
    }

    fn now_us(&self) -> u64 {
        self.clock.get().now_us()
    }
}

/// A client's number among all, and the seed of what it draws.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) client: u64,
    pub(super) seed: u64,
}

/// Holds a socket; when it ends, or is cut, gets another one as the protocol says, with the token of the one before.
pub(super) async fn live(herd: Rc<Herd>, home: Home, mut client: Client, mut is_cut: watch::Receiver<bool>, who: Who) {
    let mut random = StdRng::seed_from_u64(who.seed);
    let mut urls = home.urls.iter().cycle().skip(1);
    loop {
        let mut retry_after = None;
        let heard = |text: &str| retry_after = retry_after_of(text).or(retry_after);
        tokio::select! {
            _ = client.read(heard) => {}
            Ok(()) = is_cut.changed() => {}
        }
        let (token, _) = client.resume();
        // Frees its descriptor before the next one is taken.
        drop(client);
        let ticket = herd.log.borrow_mut().lost(who.client, herd.now_us());
        let (lost, mut back_off) = (Instant::now(), BackOff::of_clients(herd.backoff_cap));
        client = loop {
            sleep(back_off.wait(lost.elapsed(), retry_after.take(), &mut random)).await;
            let Some(url) = urls.next() else { return };
            herd.log.borrow_mut().tries(ticket, herd.now_us());
            let begin = Instant::now();
            match Client::connect(&format!("{url}&resume={token}"), home.source).await {
                Ok(next) => {
                    let (_, is_resumed) = next.resume();
                    herd.log.borrow_mut().back(ticket, herd.now_us(), begin.elapsed(), is_resumed);
                    break next;
                }
                Err(error) => {
                    herd.log.borrow_mut().refused(ticket, herd.now_us(), &error);
                    if error.is_final() {
                        return;
                    }
                    retry_after = error.retry_after();
                }
            }
        };
    }
}
