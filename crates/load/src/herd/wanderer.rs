use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use signaling_client::{Client, Ending, Event, Events, State};
use tokio::sync::mpsc;

use super::HerdOptions;
use super::log::HerdPart;
use crate::clock::Clock;
use crate::latency::Latencies;

/// What all clients of a process share, on one thread.
pub(super) struct Herd {
    clock: Cell<Clock>,
    log: RefCell<HerdPart>,
}

impl Herd {
    pub(super) fn new(options: &HerdOptions) -> Result<Self> {
        let seconds = options.before + options.away().as_secs() + options.patience;
        Ok(Self { clock: Cell::new(Clock::start()), log: RefCell::new(HerdPart::new(seconds)?) })
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

/// How a client's first connection went: how long it took, or why there is none.
pub(super) type Arrival = (u64, Result<Duration, String>);

/// Writes down what becomes of a client of the SDK, which comes back by itself.
pub(super) async fn live(
    herd: Rc<Herd>,
    number: u64,
    (_client, mut events): (Client, Events),
    arrive: mpsc::Sender<Arrival>,
) {
    let (mut begin, mut arrive, mut journey) = (Instant::now(), Some(arrive), None);
    while let Some(event) = events.next().await {
        let Event::State(state) = event else { continue };
        let log = || herd.log.borrow_mut();
        let (why, is_final) = match state {
            State::Connecting { .. } => {
                begin = Instant::now();
                journey.iter().for_each(|ticket| log().tries(*ticket, herd.now_us()));
                continue;
            }
            State::Connected(welcome) => {
                if let Some(arrive) = arrive.take() {
                    // Nobody listens any more when another one has failed.
                    let _ = arrive.send((number, Ok(begin.elapsed()))).await;
                } else if let Some(ticket) = journey.take() {
                    log().back(ticket, herd.now_us(), begin.elapsed(), welcome.resumed);
                }
                continue;
            }
            State::Waiting { why, .. } => (Some(why), false),
            State::Closed { why } => (why, true),
        };
        let why = why.as_ref().map_or_else(|| "closed".to_owned(), short);
        if let Some(arrive) = arrive.take() {
            let _ = arrive.send((number, Err(why))).await;
            return;
        }
        let was_connected = journey.is_none();
        let ticket = *journey.get_or_insert_with(|| log().lost(number, herd.now_us()));
        if !was_connected || is_final {
            log().refused(ticket, herd.now_us(), &why, is_final);
        }
    }
}

/// A few words for a table of reasons, the same for all of a kind.
fn short(why: &Ending) -> String {
    match why {
        Ending::Closed { code, .. } => format!("closed with {code}"),
        Ending::Refused { status, .. } => format!("refused with {status}"),
        Ending::Fault(_) => why.to_string(),
    }
}
