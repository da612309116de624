//! Servers behind a front that only takes turns, kept even by their readiness: after how many new clients, and with how many unready
//! at once. The scenarios are those of `cargo run -p signaling-server --example crowding`, which tells the figures.
//!
//! Of five, two may be unready at once, so one that joins four gets a third of what comes, whatever the rule. That sets the fewest
//! new clients that it can take (`Scenario::fewest`: 4.9 times as many as one had, 3.2 times where as many leave as come), and what
//! is asserted is how close to that it is. Where two share, one may be unready, and as many as one had are enough.

#![allow(dead_code, clippy::unwrap_used, reason = "shared with the example")]

#[path = "../examples/crowding/scenario.rs"]
mod scenario;
#[path = "../examples/crowding/tally.rs"]
mod tally;
#[path = "../examples/crowding/world.rs"]
mod world;

use scenario::{Outcome, Scenario};
use world::World;

const SEEDS: u64 = 6;

#[test]
fn after_one_joins_four_the_spread_is_below_a_tenth_almost_as_soon_as_any_rule_can_have_it() {
    for leaving in [false, true] {
        let usual = Scenario::one_joins_four();
        let fewest = Scenario { leaving, ..usual.clone() }.fewest();
        let scenario = Scenario { leaving, until: fewest * 1.3, ..usual };
        for seed in 0..SEEDS {
            let Outcome { even_after, said, .. } = World::run(&scenario, seed);
            assert!(said <= 0.4, "two of five: {said}, seed {seed}");
            assert!(even_after.is_some_and(|after| after < 1.15 * fewest), "{even_after:?} of {fewest}, seed {seed}");
        }
        let off = World::run(&Scenario { settings: None, ..scenario }, 0);
        assert_eq!((off.even_after, off.said), (None, 0.0), "it is readiness that does it");
    }
}

#[test]
fn after_one_joins_one_the_spread_is_below_a_tenth_once_as_many_new_clients_came_as_one_had() {
    let scenario = Scenario { servers: 1, until: 1.5, ..Scenario::one_joins_four() };
    for seed in 0..3 * SEEDS {
        let Outcome { even_after, spread_at_one, said, seen, .. } = World::run(&scenario, seed);
        assert!(even_after.unwrap() < 1.0 && spread_at_one < 0.1, "{even_after:?}, {spread_at_one}, seed {seed}");
        assert!(said <= 0.5 && seen <= 0.5, "one of two: {said}, {seen}, seed {seed}");
    }
}

#[test]
fn in_every_scenario_at_most_half_are_unready_at_once_as_they_say_and_as_the_front_sees() {
    for scenario in Scenario::all().into_iter().filter(|scenario| scenario.settings.is_some()) {
        // What can go wrong does so early.
        let scenario = Scenario { until: 1.5, ..scenario };
        for seed in 0..SEEDS {
            let Outcome { said, seen, turned_away, .. } = World::run(&scenario, seed);
            assert!(said <= 0.5, "{}: {said} said so, seed {seed}", scenario.name);
            assert!(seen <= 0.5, "{}: {seen} as the front saw it, seed {seed}", scenario.name);
            assert_eq!(turned_away, 0, "{}, seed {seed}", scenario.name);
        }
    }
}

#[test]
fn servers_that_are_alike_never_say_unready() {
    for held in [1_000, 10_000] {
        let scenario = Scenario { servers: 5, joins: 0, held, leaving: true, until: 6.0, ..Scenario::one_joins_four() };
        for seed in 0..2 {
            assert_eq!(World::run(&scenario, seed).turns_per_hour, 0.0, "{held} clients each, seed {seed}");
        }
    }
}

#[test]
fn the_fewest_that_any_rule_needs_are_as_reckoned_by_hand() {
    let of = |servers, leaving| Scenario { servers, leaving, ..Scenario::one_joins_four() }.fewest();
    // Nobody leaves: 1 + k/6 - k/3 = (4 + k)/50 for five, 1 - k = (1 + k)/20 for two.
    assert!((of(4, false) - 4.929).abs() < 0.01, "{}", of(4, false));
    assert!((of(1, false) - 0.905).abs() < 0.01, "{}", of(1, false));
    // As many leave as come: with e the share of the first that is left, e - (1 - e) * 2/3 = 0.08 and k = -4 ln e.
    assert!((of(4, true) - 3.212).abs() < 0.01, "{}", of(4, true));
}
