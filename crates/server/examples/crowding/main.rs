//! Servers behind a front proxy that only takes turns, kept even by their readiness, on a simulated clock:
//!
//!     cargo run --release -p signaling-server --example crowding [SEEDS]
//!
//! Tells for each scenario how many new clients it took until the servers were even, how many the best of rules would have needed, and
//! how many servers were unready at once; the worst of all seeds.

mod scenario;
mod tally;
mod world;

use std::error::Error;

use scenario::{Outcome, Scenario};
use world::World;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    println!(
        "| | even after | at best | spread at 1 | most to mean | said unready | seen unready | turns per server and hour |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for scenario in Scenario::all() {
        print(&scenario, &worst(&scenario, seeds));
    }
    Ok(())
}

/// The worst of all seeds, figure by figure.
fn worst(scenario: &Scenario, seeds: u64) -> Outcome {
    let outcomes = (0..seeds).map(|seed| World::run(scenario, seed));
    outcomes
        .reduce(|one, other| Outcome {
            even_after: one.even_after.zip(other.even_after).map(|(one, other)| one.max(other)),
            spread_at_one: one.spread_at_one.max(other.spread_at_one),
            peak: one.peak.max(other.peak),
            said: one.said.max(other.said),
            seen: one.seen.max(other.seen),
            turns_per_hour: one.turns_per_hour.max(other.turns_per_hour),
            turned_away: one.turned_away + other.turned_away,
        })
        .unwrap_or_default()
}

fn print(scenario: &Scenario, outcome: &Outcome) {
    let Outcome { even_after, spread_at_one, peak, said, seen, turns_per_hour, turned_away } = *outcome;
    let even = even_after.map_or_else(|| "never".to_owned(), |after| format!("{after:.2}"));
    let best = if scenario.joins > 0 { format!("{:.2}", scenario.fewest()) } else { "-".to_owned() };
    let [spread, said, seen] = [spread_at_one, said, seen].map(|share| format!("{:.0}%", share * 100.0));
    let name = scenario.name;
    println!("| {name} | {even} | {best} | {spread} | {peak:.2} | {said} | {seen} | {turns_per_hour:.1} |");
    if turned_away > 0 {
        println!("| {turned_away} clients found nobody ready | | | | | | | |");
    }
}
