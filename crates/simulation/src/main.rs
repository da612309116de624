//! `mesh-sim`: runs simulated meshes, many seeds or one with an account of it.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use signaling_simulation::{Counters, Size, run};

/// Simulates meshes on a simulated network and clock, and checks what clients are promised.
#[derive(Debug, Parser)]
struct Args {
    /// Runs these seeds, the last one not included.
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Runs this seed alone, and prints an account of it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stops after this many seconds.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Runs at least so many seeds, however long that takes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    at_least: u64,
    /// Fails if anything that is to be simulated has not happened at all.
    #[arg(long)]
    demand: bool,
    /// Goes on after a violation, and sums them up at the end.
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    size: Size,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    if let Err(error) = simulate(&Args::parse()) {
        eprintln!("mesh-sim: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn simulate(args: &Args) -> anyhow::Result<()> {
    let size = &args.size;
    if let Some(seed) = args.seed {
        let outcome = run(seed, size, true);
        outcome.trace.iter().for_each(|line| println!("{line}"));
        print!("{}", outcome.counters);
        return outcome.violation.map_or(Ok(()), |violation| Err(anyhow::anyhow!("seed {seed}: {violation}")));
    }
    many(args, size).context("simulation")
}

fn many(args: &Args, size: &Size) -> anyhow::Result<()> {
    let started = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    let (mut counters, mut all) = (Counters::default(), Counters::default());
    let mut failed: Vec<(u64, String)> = Vec::new();
    let mut done = 0_u64;
    for seed in args.seeds.clone() {
        if done >= args.at_least && limit.is_some_and(|limit| started.elapsed() >= limit) {
            break;
        }
        let outcome = run(seed, size, false);
        done += 1;
        counters.merge(&outcome.counters);
        all.merge(&outcome.counters);
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}");
            failed.push((seed, violation.rule.to_owned()));
            if !args.keep_going {
                break;
            }
        }
        if done.is_multiple_of(1_000) {
            println!("{done} seeds, {} failed, {:.0} s\n{counters}", failed.len(), started.elapsed().as_secs_f64());
            counters = Counters::default();
        }
    }
    if !done.is_multiple_of(1_000) {
        print!("{counters}");
    }
    println!("{done} seeds in {:.1} s, {} failed", started.elapsed().as_secs_f64(), failed.len());
    let mut rules: Vec<&str> = failed.iter().map(|(_, rule)| rule.as_str()).collect();
    rules.sort_unstable();
    for group in rules.chunk_by(|one, other| one == other) {
        println!("  {:>6}  {}", group.len(), group.first().unwrap_or(&""));
    }
    if let Some((seed, _)) = failed.first() {
        bail!("replay with --seed {seed}");
    }
    let missing = all.missing();
    if args.demand && !missing.is_empty() {
        bail!("never happened, so nothing is shown about it: {}", missing.join(", "));
    }
    Ok(())
}
