//! All measurements, in alternation.

use std::collections::BTreeMap;
use std::mem::replace;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::contestant::{Contestant, order};
use super::figures::{Figure, Run, Unit};
use super::idle::{connects, memory};
use super::options::{Cell, Options};
use super::programs::Programs;
use super::search::Search;
use super::stage::Stage;
use super::steady::{Steady, measure};
use crate::message::Size;

/// p99 below which a rate is held.
const HELD_P99_US: u64 = 50_000;
/// Time after which closed sockets have no effect on the next run.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) async fn play(options: &Options, programs: &Programs) -> Result<Vec<Run>> {
    let contestants = options.contestants();
    let stage = Stage::start(programs, &contestants).await?;
    let mut play = Play { options, programs, stage, runs: Vec::new() };
    for round in 0..options.rounds {
        let order = order(&contestants, round);
        for cell in options.cells() {
            for contestant in &order {
                let Steady { figures, messages, complaints, .. } = play.measure(*contestant, cell).await?;
                let (contestant, what) = (*contestant, cell.to_string());
                play.add(Run { contestant, round, what, is_load: true, figures, messages, complaints });
            }
        }
        for contestant in &order {
            let found = connects(&play.stage.target(*contestant)?, options.connects).await;
            let is_clean = found.is_ok();
            play.add(run_of(*contestant, round, "connects", found));
            play.pause(is_clean).await?;
        }
        for contestant in order.iter().filter(|_| options.search_from > 0) {
            let highest = play.search(*contestant).await?;
            let figure = Figure::new("highest rate with p99 under 50 ms, ICE", Unit::PerSecond, highest as f64);
            play.add(run_of(*contestant, round, "highest rate", Ok(vec![figure])));
        }
    }
    for round in 0..options.rounds {
        for contestant in order(&contestants, round) {
            // Memory that was used once is not given back, so each contestant gets new servers.
            let stage = Stage::start(programs, &[contestant]).await?;
            replace(&mut play.stage, stage).end().await?;
            let found = memory(&play.stage.target(contestant)?, options).await;
            play.add(run_of(contestant, round, "memory", found));
        }
    }
    play.stage.end().await?;
    Ok(play.runs)
}

fn run_of(contestant: Contestant, round: u32, what: &str, found: Result<Vec<Figure>>) -> Run {
    let (figures, complaints) = match found {
        Ok(figures) => (figures, Vec::new()),
        Err(error) => (Vec::new(), vec![format!("{error:#}")]),
    };
    Run { contestant, round, what: what.to_owned(), is_load: false, figures, messages: BTreeMap::new(), complaints }
}

struct Play<'a> {
    options: &'a Options,
    programs: &'a Programs,
    stage: Stage,
    runs: Vec<Run>,
}

impl Play<'_> {
    /// Keeps a run and prints it to standard error, as progress.
    fn add(&mut self, run: Run) {
        let found = serde_json::to_string(&run.figures).unwrap_or_default();
        let complaints = run.complaints.join("; ");
        eprintln!("round {}, {}, {}: {found} {complaints}", run.round + 1, run.what, run.contestant.name());
        self.runs.push(run);
    }

    /// Returns the highest rate that a contestant holds; 0 if it holds none.
    async fn search(&mut self, contestant: Contestant) -> Result<u64> {
        let mut search = Search::from(self.options.search_from);
        while let Some(rate) = search.next {
            let is_held = self.holds(contestant, Cell { size: Size::Ice, rate }).await?;
            search.tell(is_held);
        }
        Ok(search.held.unwrap_or(0))
    }

    /// Tries a rate twice: one pause of the machine is no limit.
    async fn holds(&mut self, contestant: Contestant, cell: Cell) -> Result<bool> {
        for _ in 0..2 {
            let steady = self.measure(contestant, cell).await?;
            if steady.complaints.is_empty() && steady.p99_us < HELD_P99_US {
                return Ok(true);
            }
            let Steady { p99_us, complaints, .. } = steady;
            eprintln!("{cell}, {}, not held: p99 {p99_us} us; {}", contestant.name(), complaints.join("; "));
        }
        Ok(false)
    }

    async fn measure(&mut self, contestant: Contestant, cell: Cell) -> Result<Steady> {
        let target = self.stage.target(contestant)?;
        let steady = measure(&target, cell, self.options.clients, self.options.seconds).await;
        self.pause(steady.complaints.is_empty()).await?;
        Ok(steady)
    }

    /// Waits for the next run, or replaces servers after a run that did not count.
    async fn pause(&mut self, is_clean: bool) -> Result<()> {
        if is_clean {
            sleep(PAUSE).await;
            return Ok(());
        }
        let fresh = Stage::start(self.programs, &self.options.contestants()).await?;
        replace(&mut self.stage, fresh).end().await
    }
}
