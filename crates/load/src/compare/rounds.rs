//! All measurements, in alternation.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::contestant::{Contestant, order};
use super::figures::{Figure, Run, Unit};
use super::handshakes::{Kind, handshakes};
use super::idle::{connects, memory};
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
#[derive(Default)]
pub(super) struct Results {
    pub(super) versions: BTreeMap<Contestant, String>,
    pub(super) runs: Vec<Run>,
    /// Loads that were put again because the machine's host disturbed them.
    pub(super) repeated: u32,
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
                let run = play.measure(*contestant, cell).await?.into_run(*contestant, round, cell);
                play.results.add(run);
            }
        }
        for contestant in &order {
            let found = connects(&play.stage.target(*contestant)?, options.connects).await;
            play.note(round, *contestant, "connects", found).await?;
        }
        for kind in Kind::ALL.iter().filter(|_| options.tls) {
            for contestant in &order {
                let found = handshakes(&play.stage.target(*contestant)?, *kind, options.handshakes).await;
                play.note(round, *contestant, &format!("{} TLS handshakes", kind.name()), found).await?;
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
            results.add(run_of(contestant, round, "memory", found));
            stage.end().await?;
        }
    }
    Ok(results)
}

impl Results {
    /// Keeps a run, and says how it went, to people who wait.
    fn add(&mut self, run: Run) {
        let found = serde_json::to_string(&run.figures).unwrap_or_default();
        let complaints = run.complaints.join("; ");
        eprintln!("round {}, {}, {}: {found} {complaints}", run.round + 1, run.what, run.contestant.name());
        self.runs.push(run);
    }
}

/// What was found, or a complaint.
fn run_of(contestant: Contestant, round: u32, what: &str, found: Result<Vec<Figure>>) -> Run {
    let (figures, complaints) = match found {
        Ok(figures) => (figures, Vec::new()),
        Err(error) => (Vec::new(), vec![format!("{error:#}")]),
    };
    Run { contestant, round, what: what.to_owned(), is_load: false, figures, messages: BTreeMap::new(), complaints }
}

/// The measurements for which all contestants run at the same time.
struct Play<'a> {
    options: &'a Options,
    programs: &'a Programs,
    stage: Stage,
    results: Results,
}

impl Play<'_> {
    async fn note(&mut self, round: u32, contestant: Contestant, what: &str, found: Result<Vec<Figure>>) -> Result<()> {
        let is_clean = found.is_ok();
        self.results.add(run_of(contestant, round, what, found));
        self.rest(is_clean).await
    }

    async fn search(&mut self, round: u32, contestant: Contestant) -> Result<()> {
        let mut search = Search::from(self.options.search_from);
        while let Some(rate) = search.next() {
            let is_held = self.holds(contestant, Cell { size: Size::Ice, rate }).await?;
            search.tell(is_held);
        }
        let highest = search.highest().unwrap_or(0) as f64;
        let figure = Figure::new("highest rate with p99 under 50 ms, ICE", Unit::PerSecond, highest);
        self.results.add(run_of(contestant, round, "highest rate", Ok(vec![figure])));
        Ok(())
    }

    /// Whether a rate is held. It is tried twice: one hiccup of the machine is no limit.
    async fn holds(&mut self, contestant: Contestant, cell: Cell) -> Result<bool> {
        for _ in 0..2 {
            let steady = self.measure(contestant, cell).await?;
            if steady.counted().is_some_and(|figures| figures.latency_us.p99 < HELD_P99_US) {
                return Ok(true);
            }
            eprintln!("{cell}, {}, not held: {}", contestant.name(), steady.summary());
        }
        Ok(false)
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
