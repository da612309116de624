//! All measurements, in alternation.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use super::contestant::{Contestant, order};
use super::idle::{Connects, Memory, connects, memory};
use super::options::{Cell, Options};
use super::programs::Programs;
use super::search::Search;
use super::stage::{Stage, Target};
use super::steady::{Steady, measure};
use crate::message::Size;

/// A rate is held if so many of its messages are not later than this.
const HELD_P99_US: u64 = 50_000;
/// What sockets that were closed may leave behind is over by then.
const BETWEEN_RUNS: Duration = Duration::from_millis(300);

/// What was measured.
#[derive(Default, Serialize)]
pub(super) struct Results {
    pub(super) versions: BTreeMap<Contestant, String>,
    pub(super) steady: Vec<Run<Steady>>,
    pub(super) searches: Vec<Run<Highest>>,
    pub(super) connects: Vec<Run<Connects>>,
    pub(super) memory: Vec<Run<Memory>>,
    /// Of measurements that could not be made.
    pub(super) complaints: Vec<String>,
}

/// One measurement of one contestant.
#[derive(Serialize)]
pub(super) struct Run<T> {
    pub(super) contestant: Contestant,
    pub(super) round: u32,
    /// Of those with a load.
    #[serde(flatten)]
    pub(super) cell: Option<Cell>,
    #[serde(flatten)]
    pub(super) found: T,
}

/// What a search found.
#[derive(Serialize)]
pub(super) struct Highest {
    /// Absent where no rate was held.
    pub(super) highest_rate: Option<u64>,
    /// How the last rate went that was not held: the limit may be the harness's own.
    pub(super) beyond: String,
}

/// Measures everything in every round.
pub(super) async fn play(options: &Options, programs: &Programs) -> Result<Results> {
    let contestants = options.contestants();
    let mut results = Results { versions: programs.versions().await?, ..Results::default() };
    let stage = Stage::start(programs, &contestants).await?;
    for round in 0..options.rounds {
        let targets = order(&contestants, round).into_iter().map(|contestant| stage.target(contestant));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        results.put_loads(options, round, &targets).await;
        for target in &targets {
            let found = connects(target, options.connects).await;
            results.connects.extend(noted(&mut results.complaints, target.contestant, round, "connects", found));
            sleep(BETWEEN_RUNS).await;
        }
        for target in targets.iter().filter(|_| options.search_from > 0) {
            let found = search(options, target).await;
            let rate = found.highest_rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate}/s"));
            tell(round, target.contestant, "highest rate", &format!("{rate}; beyond: {}", found.beyond));
            results.searches.push(Run { contestant: target.contestant, round, cell: None, found });
        }
    }
    stage.end().await?;
    for round in 0..options.rounds {
        for contestant in order(&contestants, round) {
            let stage = Stage::start(programs, &[contestant]).await?;
            let found = memory(&stage.target(contestant)?, options.idle_clients).await;
            results.memory.extend(noted(&mut results.complaints, contestant, round, "memory", found));
            stage.end().await?;
        }
    }
    Ok(results)
}

impl Results {
    async fn put_loads(&mut self, options: &Options, round: u32, targets: &[Target]) {
        for cell in options.cells() {
            for target in targets {
                let found = measure(target, cell, options.clients, options.seconds).await;
                tell(round, target.contestant, &cell.to_string(), &found.summary());
                self.steady.push(Run { contestant: target.contestant, round, cell: Some(cell), found });
                sleep(BETWEEN_RUNS).await;
            }
        }
    }
}

async fn search(options: &Options, target: &Target) -> Highest {
    let (mut search, mut beyond) = (Search::from(options.search_from), String::new());
    while let Some(rate) = search.next() {
        let failed = fails(options, target, Cell { size: Size::Ice, rate }).await;
        search.tell(failed.is_none());
        beyond = failed.unwrap_or(beyond);
    }
    Highest { highest_rate: search.highest(), beyond }
}

/// How a rate went that is not held. It is tried twice: one hiccup of the machine is no limit.
async fn fails(options: &Options, target: &Target, cell: Cell) -> Option<String> {
    let mut summary = String::new();
    for _ in 0..2 {
        let steady = measure(target, cell, options.clients, options.seconds).await;
        sleep(BETWEEN_RUNS).await;
        if steady.counted().is_some_and(|figures| figures.latency_us.p99 < HELD_P99_US) {
            return None;
        }
        summary = format!("{}/s: {}", cell.rate, steady.summary());
    }
    Some(summary)
}

/// What was found, or nothing and a complaint.
fn noted<T: Serialize>(
    complaints: &mut Vec<String>,
    contestant: Contestant,
    round: u32,
    what: &str,
    found: Result<T>,
) -> Option<Run<T>> {
    match found {
        Ok(found) => {
            tell(round, contestant, what, &serde_json::to_string(&found).unwrap_or_default());
            Some(Run { contestant, round, cell: None, found })
        }
        Err(error) => {
            complaints.push(format!("{}, {what}, round {}: {error:#}", contestant.name(), round + 1));
            tell(round, contestant, what, &format!("{error:#}"));
            None
        }
    }
}

/// Says how it goes, to people who wait.
fn tell(round: u32, contestant: Contestant, what: &str, found: &str) {
    eprintln!("round {}, {what}, {}: {found}", round + 1, contestant.name());
}
