//! All measurements of `compare`, with the servers of `testbed`. Each measurement visits all
//! contestants, the servers under comparison, before the next one begins.

use std::mem::replace;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::contestant::{Contestant, Programs, order};
use super::figures::{Figure, Found, Run, Unit};
use super::measure::{connects, load, memory};
use super::testbed::Testbed;
use super::{Cell, Options};
use crate::message::Size;

/// Limit of the 99th percentile latency, in microseconds. A rate is held below it.
const HELD_P99_US: u64 = 50_000;
/// Time after which closed sockets have no effect on the next run.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs all measurements of all rounds, and returns them in that order. Memory comes last, with new
/// servers for each contestant and round.
///
/// A measurement that fails is in the result as invalid, with its reasons. The search for the
/// highest rate has one figure, 0 if not even 100 messages/s are held. Its loads are not in the
/// result. Fails if servers cannot be started or stopped.
pub(super) async fn measure_all(options: &Options, programs: &Programs) -> Result<Vec<Run>> {
    let contestants = options.contestants();
    let testbed = Testbed::start(programs, &contestants).await?;
    let mut rounds = Rounds { options, programs, testbed, runs: Vec::new() };
    for round in 0..options.rounds {
        let order = order(&contestants, round);
        for cell in options.cells() {
            for contestant in &order {
                let found = rounds.load(*contestant, cell).await?;
                rounds.add(Run { contestant: *contestant, round, what: cell.to_string(), is_load: true, found });
            }
        }
        for contestant in &order {
            let found = Found::of(connects(&rounds.testbed.target(*contestant)?, options).await);
            let is_valid = found.is_valid();
            rounds.add(Run { contestant: *contestant, round, what: "connects".to_owned(), is_load: false, found });
            rounds.pause(is_valid).await?;
        }
        for contestant in order.iter().filter(|_| options.search_from > 0) {
            let is_held = async |rate: u64| rounds.holds(*contestant, Cell { size: Size::Ice, rate }).await;
            let highest = search(options.search_from, is_held).await?.unwrap_or(0);
            let figure = Figure::new("highest rate with p99 under 50 ms, ICE", Unit::PerSecond, highest as f64);
            let found = Found { figures: vec![figure], ..Found::default() };
            rounds.add(Run { contestant: *contestant, round, what: "highest rate".to_owned(), is_load: false, found });
        }
    }
    for round in 0..options.rounds {
        for contestant in order(&contestants, round) {
            // Memory that was used once is not given back, so each contestant gets new servers.
            let testbed = Testbed::start(programs, &[contestant]).await?;
            replace(&mut rounds.testbed, testbed).end().await?;
            let found = Found::of(memory(&rounds.testbed.target(contestant)?, options).await);
            rounds.add(Run { contestant, round, what: "memory".to_owned(), is_load: false, found });
        }
    }
    rounds.testbed.end().await?;
    Ok(rounds.runs)
}

struct Rounds<'a> {
    options: &'a Options,
    programs: &'a Programs,
    testbed: Testbed,
    runs: Vec<Run>,
}

impl Rounds<'_> {
    /// Keeps a run and prints it to standard error, as progress.
    fn add(&mut self, run: Run) {
        let figures = serde_json::to_string(&run.found.figures).unwrap_or_default();
        let complaints = run.found.complaints.join("; ");
        eprintln!("round {}, {}, {}: {figures} {complaints}", run.round + 1, run.what, run.contestant.name());
        self.runs.push(run);
    }

    /// Returns `true` if the contestant holds a rate: a run is valid, with a 99th percentile below
    /// 50 ms. A second run follows a failed one, since a pause of the machine can spoil a run.
    async fn holds(&mut self, contestant: Contestant, cell: Cell) -> Result<bool> {
        for _ in 0..2 {
            let found = self.load(contestant, cell).await?;
            if found.is_valid() && found.p99_us < HELD_P99_US {
                return Ok(true);
            }
            let Found { p99_us, complaints, .. } = found;
            eprintln!("{cell}, {}, not held: p99 {p99_us} us; {}", contestant.name(), complaints.join("; "));
        }
        Ok(false)
    }

    async fn load(&mut self, contestant: Contestant, cell: Cell) -> Result<Found> {
        let found = Found::of(load(&self.testbed.target(contestant)?, cell, self.options).await);
        self.pause(found.is_valid()).await?;
        Ok(found)
    }

    /// Waits 300 ms for the effects of closed sockets to end, or replaces all servers after an
    /// invalid run.
    async fn pause(&mut self, is_valid: bool) -> Result<()> {
        if is_valid {
            sleep(PAUSE).await;
            return Ok(());
        }
        let fresh = Testbed::start(self.programs, &self.options.contestants()).await?;
        replace(&mut self.testbed, fresh).end().await
    }
}

/// Minimum rate, in messages/s. All rates are multiples of it.
const STEP: u64 = 100;
/// Maximum rate, in messages/s, above the limit of the load generator.
const MAX_RATE: u64 = 1_000_000;

/// Tries rates from `first` on, in messages/s. It goes up by a quarter while they are held. If
/// `first` is not held, it goes down by a fifth until one is held. Returns the highest held rate.
/// `None`: not even the minimum is held.
async fn search(first: u64, mut is_held: impl AsyncFnMut(u64) -> Result<bool>) -> Result<Option<u64>> {
    let (mut rate, mut held) = (round_down(first).max(STEP), None);
    while rate <= MAX_RATE && is_held(rate).await? {
        held = Some(rate);
        rate = round_down(rate * 5 / 4).max(rate + STEP);
    }
    while held.is_none() && round_down(rate * 4 / 5) >= STEP {
        rate = round_down(rate * 4 / 5);
        held = is_held(rate).await?.then_some(rate);
    }
    Ok(held)
}

fn round_down(rate: u64) -> u64 {
    rate / STEP * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tried rates for a server of this capacity, and the highest that it holds.
    async fn tried(first: u64, capacity: u64) -> (Vec<u64>, Option<u64>) {
        let mut tried = Vec::new();
        let is_held = async |rate: u64| {
            tried.push(rate);
            anyhow::Ok(rate <= capacity)
        };
        let held = search(first, is_held).await.unwrap();
        (tried, held)
    }

    #[tokio::test]
    async fn search_goes_up_or_down_and_ends() {
        assert_eq!(tried(10_000, 20_000).await, (vec![10_000, 12_500, 15_600, 19_500, 24_300], Some(19_500)));
        assert_eq!(tried(10_000, 7_000).await, (vec![10_000, 8_000, 6_400], Some(6_400)));
        let (rates, highest) = tried(1_000, 0).await;
        assert_eq!((rates.last(), highest), (Some(&100), None));
        for low in [1, 100, 300] {
            let (_, highest) = tried(low, 2_000).await;
            assert!(highest.is_some_and(|highest| (1_500..=2_000).contains(&highest)), "from {low}");
        }
        let (rates, highest) = tried(10_000, u64::MAX).await;
        assert!(rates.len() < 30 && highest > Some(800_000), "{highest:?} after {} steps", rates.len());
    }
}
