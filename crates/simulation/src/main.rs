//! `mesh-sim`: runs simulated meshes, many seeds or one with its log.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::hash::Hasher as _;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use signaling_simulation::{Counters, Preset, Size, run, run_digested};
use twox_hash::XxHash3_64;

/// Runs meshes on a simulated network and clock, and checks the guarantees of clients.
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Args {
    /// Kind of worlds. Other options replace those of the preset.
    #[arg(long, value_enum, default_value_t)]
    preset: Preset,
    /// Range of seeds to run, without its end. `A..` has no end.
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Single seed to run, in place of `--seeds`; prints the log of its events.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Seconds after which the run ends, once `--at-least` seeds are done; no limit by default.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Minimum number of seeds to run, whatever `--seconds` is.
    #[arg(long, value_name = "N", default_value_t = 0)]
    at_least: u64,
    /// Fails if a kind of fault or a required event of custody or rooms occurred in no seed.
    #[arg(long)]
    demand: bool,
    /// Continues after a violation, and prints the number of violations of each rule at the end.
    #[arg(long)]
    keep_going: bool,
    /// Prints a hash of each seed's log, and one of all seeds. Builds with equal hashes sent equal
    /// bytes. Continues after a violation.
    #[arg(long, conflicts_with = "seconds")]
    digest: bool,
    #[command(flatten)]
    size: Size,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..if to.is_empty() { u64::MAX } else { number(to)? })
}

/// Reads the command line, with the options of its preset in front.
fn args() -> Args {
    let mut given: Vec<_> = env::args_os().collect();
    let options = Args::parse_from(&given).preset.options();
    given.splice(1..1, options.split_whitespace().map(OsString::from));
    Args::parse_from(given)
}

fn main() -> ExitCode {
    if let Err(error) = simulate(&args()) {
        eprintln!("mesh-sim: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn simulate(args: &Args) -> anyhow::Result<()> {
    let Some(seed) = args.seed else { return many(args).context("simulation") };
    let outcome = run(seed, &args.size, true);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    print!("{}", outcome.counters);
    if let Some(digest) = outcome.digest.filter(|_| args.digest) {
        println!("digest {digest:016x} of seed {seed}");
    }
    outcome.violation.map_or(Ok(()), |violation| Err(anyhow!("seed {seed}: {violation}")))
}

/// Runs seeds on all processors, in no fixed order.
fn many(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    let mut counters = Counters::default();
    let mut digests = BTreeMap::new();
    let mut failed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let (mut done, mut failures) = (0_u64, 0);
    let preset = args.preset.name();
    println!("preset {preset} [{}], seeds from {}", args.preset.options(), args.seeds.start);
    let run_one = |seed| if args.digest { run_digested(seed, &args.size) } else { run(seed, &args.size, false) };
    let seeds = Mutex::new(args.seeds.clone());
    thread::scope(|scope| {
        let (sender, outcomes) = mpsc::sync_channel(1);
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, seeds) = (sender.clone(), &seeds);
            let next = move || seeds.lock().ok()?.next();
            scope.spawn(move || {
                while let Some(seed) = next() {
                    // Without a receiver the run is over.
                    if sender.send((seed, run_one(seed))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (seed, outcome) in outcomes {
            done += 1;
            counters.merge(&outcome.counters);
            digests.extend(outcome.digest.map(|digest| (seed, digest)));
            if let Some(violation) = outcome.violation {
                println!("seed {seed}: {violation}");
                failed.entry(violation.rule).or_default().push(seed);
                failures += 1;
                if !args.keep_going && !args.digest {
                    break;
                }
            }
            if done.is_multiple_of(1_000) {
                println!("{done} seeds, {failures} failed, {:.0} s", started.elapsed().as_secs_f64());
            }
            if done >= args.at_least && limit.is_some_and(|limit| started.elapsed() >= limit) {
                break;
            }
        }
    });
    print!("{counters}");
    println!("preset {preset}: {done} seeds in {:.1} s, {failures} failed", started.elapsed().as_secs_f64());
    for (rule, seeds) in &failed {
        println!("  {:>6}  {rule}", seeds.len());
    }
    if args.digest {
        // The last one is of all seeds, in their order.
        let mut all = XxHash3_64::new();
        for (seed, digest) in &digests {
            println!("digest {digest:016x} of seed {seed}");
            all.write(&digest.to_le_bytes());
        }
        println!("digest {:016x} of {} seeds", all.finish(), digests.len());
    }
    if let Some(seed) = failed.values().flatten().min() {
        bail!("replay with --preset {preset} --seed {seed}");
    }
    let missing = counters.missing();
    if args.demand && !missing.is_empty() {
        bail!("required events never occurred; run more seeds: {}", missing.join(", "));
    }
    Ok(())
}
