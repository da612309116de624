//! Measures while a world runs.

use signaling_server::crowding::core::Standing;

use super::scenario::{Outcome, Scenario};
use super::world::Server;

/// The spread that counts as even, in means.
const EVEN: f64 = 0.1;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// New clients since the join.
    pub(crate) came: u64,
    pub(crate) turns: u64,
    pub(crate) turned_away: u64,
    /// How many had come when the spread was too large for the last time.
    uneven_at: u64,
    is_even: bool,
    spread_at_one: Option<f64>,
    peak: f64,
    said: f64,
    seen: f64,
}

impl Tally {
    pub(crate) fn look(&mut self, servers: &[Server], scenario: &Scenario) {
        let alive: Vec<_> = servers.iter().filter(|server| server.is_alive).collect();
        let count = alive.len() as f64;
        let share = |which: &dyn Fn(&&&Server) -> bool| alive.iter().filter(which).count() as f64 / count;
        self.said = self.said.max(share(&|server| server.standing == Standing::Crowded));
        self.seen = self.seen.max(share(&|server| server.was_listed && !server.is_listed));

        let mean = alive.iter().map(|server| server.clients).sum::<u64>() as f64 / count;
        let (most, fewest) = alive
            .iter()
            .fold((0, u64::MAX), |(most, fewest), server| (most.max(server.clients), fewest.min(server.clients)));
        let spread = (most - fewest) as f64 / mean;
        self.peak = self.peak.max(most as f64 / mean);
        self.is_even = spread < EVEN;
        if !self.is_even {
            self.uneven_at = self.came;
        }
        if self.came >= scenario.held {
            self.spread_at_one.get_or_insert(spread);
        }
    }

    pub(crate) fn outcome(&self, ms: u64, scenario: &Scenario) -> Outcome {
        let servers = (scenario.servers + scenario.joins) as f64;
        Outcome {
            even_after: self.is_even.then(|| self.uneven_at as f64 / scenario.held as f64),
            spread_at_one: self.spread_at_one.unwrap_or_default(),
            peak: self.peak,
            said: self.said,
            seen: self.seen,
            turns_per_hour: self.turns as f64 / servers / (ms as f64 / 3_600_000.0),
            turned_away: self.turned_away,
        }
    }
}
