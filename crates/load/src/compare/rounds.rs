//! All measurements, in alternation.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use super::contestant::{Contestant, order};
use super::handshakes::{Handshakes, Kind, handshakes};
use super::idle::{Connects, Memory, connects, memory};
use super::options::{Cell, Options};
use super::programs::Programs;
use super::search::Search;
use super::stage::Stage;
use super::steady::{Steady, measure};
use crate::message::Size;

/// A rate is held if so many of its messages are not later than this.
const HELD_P99_US: u64 = 50_000;
/// How often a load is put on a contestant, at most, until the machine's host disturbs it little: some hosts always do.
const MAX_TRIES: u32 = 3;
/// What sockets that were closed may leave behind is over by then.
const BETWEEN_RUNS: Duration = Duration::from_millis(300);

/// What was measured.
#[derive(Default, Serialize)]
pub(super) struct Results {
    pub(super) versions: BTreeMap<Contestant, String>,
    pub(super) steady: Vec<Run<Steady>>,
    /// Loads that were put again because the machine's host disturbed them.
    pub(super) repeated: u32,
    pub(super) searches: Vec<Run<Highest>>,
    pub(super) connects: Vec<Run<Connects>>,
    pub(super) memory: Vec<Run<Memory>>,
    /// Of TLS, where that is compared.
    pub(super) handshakes: Vec<Run<Handshakes>>,
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
    let results = Results { versions: programs.versions().await?, ..Results::default() };
    let stage = Stage::start(programs, &contestants, options.tls).await?;
    let mut play = Play { options, programs, stage, results };
    for round in 0..options.rounds {
        let order = order(&contestants, round);
        for cell in options.cells() {
            for contestant in &order {
                play.put_load(round, *contestant, cell).await?;
            }
        }
        for contestant in &order {
            play.let_in(round, *contestant).await?;
        }
        for kind in Kind::ALL.iter().filter(|_| options.tls) {
            for contestant in &order {
                play.shake_hands(round, *contestant, *kind).await?;
            }
        }
        for contestant in order.iter().filter(|_| options.search_from > 0) {
            play.search(round, *contestant).await?;
        }
    }
    let Play { stage, mut results, .. } = play;
    stage.end().await?;
    for round in 0..options.rounds {
        for contestant in order(&contestants, round) {
            let stage = Stage::start(programs, &[contestant], options.tls).await?;
            let found = memory(&stage.target(contestant)?, options).await;
            results.memory.extend(noted(&mut results.complaints, contestant, round, "memory", found));
            stage.end().await?;
        }
    }
    Ok(results)
}

/// The measurements for which all contestants run at the same time.
struct Play<'a> {
    options: &'a Options,
    programs: &'a Programs,
    stage: Stage,
    results: Results,
}

impl Play<'_> {
    async fn put_load(&mut self, round: u32, contestant: Contestant, cell: Cell) -> Result<()> {
        let found = self.measure(contestant, cell).await?;
        tell(round, contestant, &cell.to_string(), &found.summary());
        self.results.steady.push(Run { contestant, round, cell: Some(cell), found });
        Ok(())
    }

    async fn let_in(&mut self, round: u32, contestant: Contestant) -> Result<()> {
        let found = connects(&self.stage.target(contestant)?, self.options.connects).await;
        let is_clean = found.is_ok();
        let results = &mut self.results;
        results.connects.extend(noted(&mut results.complaints, contestant, round, "connects", found));
        self.rest(is_clean).await
    }

    async fn shake_hands(&mut self, round: u32, contestant: Contestant, kind: Kind) -> Result<()> {
        let found = handshakes(&self.stage.target(contestant)?, kind, self.options.handshakes).await;
        let is_clean = found.is_ok();
        let results = &mut self.results;
        let what = format!("{} TLS handshakes", kind.name());
        results.handshakes.extend(noted(&mut results.complaints, contestant, round, &what, found));
        self.rest(is_clean).await
    }

    async fn search(&mut self, round: u32, contestant: Contestant) -> Result<()> {
        let (mut search, mut beyond) = (Search::from(self.options.search_from), String::new());
        while let Some(rate) = search.next() {
            let failed = self.fails(contestant, Cell { size: Size::Ice, rate }).await?;
            search.tell(failed.is_none());
            beyond = failed.unwrap_or(beyond);
        }
        let highest_rate = search.highest();
        let rate = highest_rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate}/s"));
        tell(round, contestant, "highest rate", &format!("{rate}; beyond: {beyond}"));
        self.results.searches.push(Run { contestant, round, cell: None, found: Highest { highest_rate, beyond } });
        Ok(())
    }

    /// How a rate went that is not held. It is tried twice: one hiccup of the machine is no limit.
    async fn fails(&mut self, contestant: Contestant, cell: Cell) -> Result<Option<String>> {
        let mut summary = String::new();
        for _ in 0..2 {
            let steady = self.measure(contestant, cell).await?;
            if steady.counted().is_some_and(|figures| figures.latency_us.p99 < HELD_P99_US) {
                return Ok(None);
            }
            summary = format!("{}/s: {}", cell.rate, steady.summary());
        }
        Ok(Some(summary))
    }

    async fn measure(&mut self, contestant: Contestant, cell: Cell) -> Result<Steady> {
        calmest(async |disturbed: Option<&Steady>| {
            if let Some(disturbed) = disturbed {
                eprintln!("{cell}, {}, again: {}", contestant.name(), disturbed.summary());
                self.results.repeated += 1;
            }
            self.measure_once(contestant, cell).await
        })
        .await
    }

    async fn measure_once(&mut self, contestant: Contestant, cell: Cell) -> Result<Steady> {
        let target = self.stage.target(contestant)?;
        let steady = measure(&target, cell, self.options.clients, self.options.seconds).await;
        self.rest(steady.counted().is_some()).await?;
        Ok(steady)
    }

    /// Leaves nothing behind for the next one: where servers got too much for them, it begins with new ones.
    async fn rest(&mut self, is_clean: bool) -> Result<()> {
        if is_clean {
            sleep(BETWEEN_RUNS).await;
            return Ok(());
        }
        let fresh = Stage::start(self.programs, &self.options.contestants(), self.options.tls).await?;
        replace(&mut self.stage, fresh).end().await
    }
}

/// Puts a load, and puts it again while the run kept is a disturbed one, of which the load is told; keeps the calmest.
async fn calmest(mut load: impl AsyncFnMut(Option<&Steady>) -> Result<Steady>) -> Result<Steady> {
    let mut kept = load(None).await?;
    for _ in 1..MAX_TRIES {
        if !kept.is_disturbed() {
            break;
        }
        let next = load(Some(&kept)).await?;
        kept = kept.calmer(next);
    }
    Ok(kept)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The share of stolen time of the load that is kept, and the number of loads, for loads with these shares in percent.
    async fn kept(stolen: [f64; 3]) -> (f64, usize) {
        let mut put = 0;
        let kept = calmest(async |disturbed: Option<&Steady>| {
            assert_eq!(disturbed.is_some(), put > 0);
            put += 1;
            Ok(Steady::disturbed(stolen[put - 1]))
        });
        let kept = kept.await.unwrap().figures.unwrap();
        (kept.stolen_percent, put)
    }

    #[tokio::test]
    async fn disturbed_load_is_repeated_twice_and_the_calmest_is_kept() {
        assert_eq!(kept([0.1, 9.0, 9.0]).await, (0.1, 1));
        assert_eq!(kept([2.0, 0.2, 9.0]).await, (0.2, 2));
        assert_eq!(kept([2.0, 3.0, 0.0]).await, (0.0, 3));
        assert_eq!(kept([3.0, 2.0, 4.0]).await, (2.0, 3));
    }

    #[tokio::test]
    async fn what_cannot_be_put_at_all_is_not_put_again() {
        let mut put = 0;
        let failed = calmest(async |_| {
            put += 1;
            anyhow::bail!("the mesh has ended")
        });
        assert!(failed.await.is_err());
        assert_eq!(put, 1);
    }
}
