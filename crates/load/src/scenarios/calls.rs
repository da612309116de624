//! Calls are set up at a fixed rate: how long that takes, and at which rate it takes twice as long.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::crew::{CrewOptions, Gate, Share, Work};
use crate::exchange::{CallOptions, Calls, Exchange, MAX_RATE, Settings};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crate::watch::{UsageLine, Watch};

/// Rates that are tried at most.
const MAX_STEPS: usize = 30;

/// Options of `mesh-load calls`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What calls they make.
    #[command(flatten)]
    pub calls: CallOptions,
    /// How many processes they are in.
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Raise the rate by a quarter until the 99th percentile of the set-up time has doubled.
    #[arg(long)]
    pub until_doubled: bool,
}

/// The set-up time at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Step {
    rate: u64,
    p50_us: u64,
    p99_us: u64,
    failures: usize,
}

/// Runs the scenario.
///
/// # Errors
/// When the options do not fit together, or the clients cannot connect.
pub async fn run(options: &Options) -> Result<Option<Report>> {
    options.fleet.check_pairs(options.crew.processes)?;
    let Some((record, usage)) = at_rate(options, options.calls.rate).await? else { return Ok(None) };
    let mut report = report(options, &record, usage);
    if options.until_doubled && options.crew.share.is_none() {
        let mut steps = vec![step(options.calls.rate, &record)];
        while !has_doubled(&steps) && steps.len() < MAX_STEPS && steps[steps.len() - 1].rate < MAX_RATE {
            let rate = next_rate(steps[steps.len() - 1].rate);
            match at_rate(options, rate).await {
                Ok(found) => steps.extend(found.map(|(record, _)| step(rate, &record))),
                Err(error) => {
                    // The steps so far are a finding too.
                    report.fail(format!("{rate} calls per second could not be tried: {error:#}"));
                    break;
                }
            }
        }
        report.set("steps", steps);
    }
    Ok(Some(report))
}

/// `None` in a process that has given its findings to the one that reports.
async fn at_rate(options: &Options, rate: u64) -> Result<Option<(Record, Vec<UsageLine>)>> {
    let calls = CallOptions { rate, ..options.calls.clone() };
    let watch = Watch::new(&options.fleet);
    let part = async |share, gate| part(&options.fleet, &calls, share, gate).await;
    let work = options.crew.work(&[format!("--rate={rate}")], part, |over| watch.run(over)).await?;
    Ok(work.map(|Work { record, beside }| (record, beside.lines())))
}

async fn part(fleet: &FleetOptions, calls: &CallOptions, share: Share, gate: Gate) -> Result<Record> {
    let (fleet, calls) = (fleet.of_share(share), calls.of_share(share)?);
    let (plan, mut watched) = fleet.plan()?;
    if !share.is_first() {
        watched.clear();
    }
    let settings = Settings::new(&calls.run, calls.rate);
    Exchange::new(&fleet, settings, Calls::new(fleet.clients, &calls))?.play(plan, &watched, gate.pass()).await
}

fn report(Options { fleet, calls, crew, .. }: &Options, record: &Record, usage: Vec<UsageLine>) -> Report {
    let mut report = Report::new("calls");
    report.set("processes", crew.processes);
    report.set("clients", fleet.clients);
    report.set("rate", calls.rate);
    report.set("seconds", calls.run.seconds);
    report.set("warmup", calls.run.warmup);
    report.set("seed", calls.run.seed);
    report.set("gather_ms", calls.gather_ms);
    record.describe(&mut report);
    report.set("usage", usage);
    let unfinished = record.count("calls", "begun").saturating_sub(record.count("calls", "set_up"));
    record.judge(&mut report, false);
    report.fail_if(unfinished, "calls never set up");
    report.fail_above("set-up time", record.percentiles("set_up"), calls.max_setup_p99_ms);
    report
}

fn step(rate: u64, record: &Record) -> Step {
    let mut report = Report::default();
    record.judge(&mut report, false);
    let times = record.percentiles("set_up");
    Step { rate, p50_us: times.p50, p99_us: times.p99, failures: report.failures.len() }
}

/// Returns `true` if the last step took twice as long as the first, or had failures.
fn has_doubled(steps: &[Step]) -> bool {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
    last.failures > 0 || last.p99_us > 2 * first.p99_us
}

fn next_rate(rate: u64) -> u64 {
    (rate * 5 / 4).max(rate + 1).min(MAX_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_at_twice_the_first_time_or_with_failures() {
        let step = |p99_us, failures| Step { rate: 1, p50_us: 1, p99_us, failures };

        assert!(!has_doubled(&[step(5, 0), step(10, 0)]));
        assert!(has_doubled(&[step(5, 0), step(11, 0)]));
        assert!(has_doubled(&[step(5, 0), step(5, 1)]));
        assert_eq!([1, 200, 99_000].map(next_rate), [2, 250, MAX_RATE]);
    }
}
