use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ChurnOptions;
use crate::client::{Client, Way};
use crate::clock::Clock;
use crate::crew::{Gate, Part, Share};
use crate::fleet::{Endings, Fleet, FleetOptions};
use crate::latency::Latencies;
use crate::merge::add_counts;
use crate::message::{Answer, read_answer};
use crate::progress::progress;
use crate::timeline::Timeline;

/// From `welcome` until the socket has closed.
const VISIT_WITHIN: Duration = Duration::from_secs(30);
/// Of a visit that was stopped from within the harness.
pub(super) const NO_OUTCOME: &str = "has no outcome";
/// What they say.
const WORDS: &str = "hello, is anybody there? I would like to call you, but I have to leave in a moment";

/// What became of the visits to one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChurnPart {
    pub(super) done: u64,
    /// By reason.
    pub(super) failed: BTreeMap<String, u64>,
    /// From the moment at which a visitor was to come until it had left.
    pub(super) times: Latencies,
    pub(super) timeline: Timeline,
    /// Sockets of those who stay.
    pub(super) closed: BTreeMap<String, u64>,
}

impl Part for ChurnPart {
    fn absorb(&mut self, other: Self) {
        self.done += other.done;
        add_counts(&mut self.failed, other.failed);
        self.times.absorb(&other.times);
        self.timeline.absorb(&other.timeline);
        add_counts(&mut self.closed, other.closed);
    }
}

impl ChurnPart {
    /// Why visits failed, of so many that there were to be.
    pub(super) fn failures_of(&self, visits: u64) -> BTreeMap<String, u64> {
        let mut failed = self.failed.clone();
        let unknown = visits.saturating_sub(self.done + failed.values().sum::<u64>());
        if unknown > 0 {
            failed.insert(NO_OUTCOME.to_owned(), unknown);
        }
        failed
    }
}

/// Connects those who stay, passes the gate, and lets the visitors come.
pub(crate) async fn receive(fleet: &FleetOptions, all: &ChurnOptions, share: Share, gate: Gate) -> Result<ChurnPart> {
    let (stay, options) = (fleet.of_share(share), all.of_share(share)?);
    let first = u32::try_from(share.of(all.visits).start)?;
    let prefix = format!("{}-{}", fleet.prefix, all.wave);
    let visitors = FleetOptions { prefix, first, clients: u32::try_from(options.visits)?, ..fleet.clone() };
    let endings = Rc::new(Endings::default());
    let residents = Fleet::connect(stay.plan()?.0, &endings).await?;
    let mesh = visitors.mesh()?;
    let urls = visitors.urls(mesh.as_ref())?;
    gate.pass().await?;

    let schedule = options.schedule();
    let seconds = schedule.duration_us / 1_000_000;
    let house = Rc::new(House {
        clock: Clock::start(),
        part: RefCell::new(ChurnPart {
            done: 0,
            failed: BTreeMap::new(),
            times: Latencies::new()?,
            timeline: Timeline::lasting(seconds),
            closed: BTreeMap::new(),
        }),
    });
    let bar = progress(options.visits, "visits");
    let room = Arc::new(Semaphore::new(usize::try_from(options.at_once)?));
    let mut visits = JoinSet::new();
    for number in 0..options.visits {
        let at_us = schedule.time_us(number);
        house.clock.until_us(at_us).await;
        let place = Arc::clone(&room).acquire_owned().await?;
        // One that was stopped has left no outcome, which shows in the counts.
        while visits.try_join_next().is_some() {}
        house.part.borrow_mut().timeline.begun(at_us);
        // Of all who stay, whichever process has them: this one may have none.
        let to = fleet.client_id(usize::try_from((u64::from(first) + number) % u64::from(fleet.clients.max(1)))?);
        let number = usize::try_from(number)?;
        let source = fleet.sources.get(number % fleet.sources.len().max(1)).copied();
        let urls = urls(number)?;
        let house = Rc::clone(&house);
        visits.spawn_local(async move {
            let left = visit(&urls[0], source, &to).await;
            house.left(at_us, left);
            drop(place);
        });
        bar.inc(1);
    }
    while visits.join_next().await.is_some() {}
    bar.finish_and_clear();
    let closed = endings.take();
    residents.close();
    let part = house.part.borrow();
    Ok(ChurnPart {
        done: part.done,
        failed: part.failed.clone(),
        times: part.times.clone(),
        timeline: part.timeline.clone(),
        closed,
    })
}

struct House {
    clock: Clock,
    part: RefCell<ChurnPart>,
}

impl House {
    fn left(&self, came_us: u64, how: Result<(), String>) {
        let now_us = self.clock.now_us();
        let took_us = now_us.saturating_sub(came_us);
        let mut part = self.part.borrow_mut();
        match how {
            Ok(()) => {
                part.done += 1;
                part.times.record_us(took_us);
                part.timeline.done(now_us, took_us);
            }
            Err(reason) => {
                *part.failed.entry(reason).or_default() += 1;
                part.timeline.failed(now_us);
            }
        }
    }
}

/// Connects, says something, waits until it was delivered, and leaves in good order.
async fn visit(url: &str, source: Option<IpAddr>, to: &str) -> Result<(), String> {
    let mut context = TaskContext::from_waker(Waker::noop());
    let client = Client::connect(url, &Way { source, trust: None }).await.map_err(|error| error.short())?;
    client.send(format!(r#"{{"type":"signal","to":"{to}","id":1,"data":"{WORDS}"}}"#), None, &mut context);
    let answer = Cell::new(Err("left without an answer".to_owned()));
    let heard = |text: &str| {
        let answered = match read_answer(text) {
            Answer::Ack(1) => Ok(()),
            Answer::Error { code, .. } => Err(code),
            Answer::Ack(_) | Answer::Other(_) => return,
        };
        answer.set(answered);
        client.close(&mut TaskContext::from_waker(Waker::noop()));
    };
    timeout(VISIT_WITHIN, client.read(heard)).await.map_err(|_| "not over in time".to_owned())?;
    answer.into_inner()
}
