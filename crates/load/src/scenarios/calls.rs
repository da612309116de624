//! Calls at a fixed rate: their set-up time, and the rate at which it doubles.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::exchange::{CallOptions, Calls, MAX_RATE, Settings, play};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crate::workers::{Gate, Share, WorkerOptions};

const MAX_STEPS: usize = 30;

/// Options of `mesh-load calls`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) fleet: FleetOptions,
    #[command(flatten)]
    calls: CallOptions,
    #[command(flatten)]
    pub(super) workers: WorkerOptions,
    /// Raise the rate by a quarter until the 99th percentile of the set-up time has doubled
    #[arg(long)]
    until_doubled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Step {
    rate: u64,
    p50_us: u64,
    p99_us: u64,
    failures: usize,
}

/// Runs the scenario. Returns `None` in a worker.
pub(super) async fn run(options: &Options) -> Result<Option<Report>> {
    options.fleet.check_pairs(options.workers.processes)?;
    let Some(record) = at_rate(options, options.calls.rate).await? else { return Ok(None) };
    let mut report = report(options, &record);
    if options.until_doubled && options.workers.share.is_none() {
        let mut steps = vec![step(options.calls.rate, &record)];
        while !has_doubled(&steps) && steps.len() < MAX_STEPS && steps[steps.len() - 1].rate < MAX_RATE {
            let rate = next_rate(steps[steps.len() - 1].rate);
            match at_rate(options, rate).await {
                Ok(found) => steps.extend(found.map(|record| step(rate, &record))),
                Err(error) => {
                    // The steps so far are worth reporting.
                    report.fail(format!("{rate} calls/s could not be tried: {error:#}"));
                    break;
                }
            }
        }
        report.set("steps", steps);
    }
    Ok(Some(report))
}

/// Returns `None` in a worker.
async fn at_rate(options: &Options, rate: u64) -> Result<Option<Record>> {
    let calls = CallOptions { rate, ..options.calls.clone() };
    let part = async |share, gate| part(&options.fleet, &calls, share, gate).await;
    options.workers.work(&[format!("--rate={rate}")], part).await
}

async fn part(fleet: &FleetOptions, calls: &CallOptions, share: Share, gate: Gate) -> Result<Record> {
    let (fleet, calls) = (fleet.of_share(share), calls.of_share(share)?);
    let settings = Settings::new(&calls.run, calls.rate);
    play(&fleet, settings, Calls::new(fleet.clients, &calls), gate.pass()).await
}

fn report(Options { fleet, calls, workers, .. }: &Options, record: &Record) -> Report {
    let mut report = Report::new("calls");
    report.set("processes", workers.processes);
    report.set("gather_ms", calls.gather_ms);
    calls.run.describe(&mut report, fleet.clients, calls.rate, record);
    record.judge(&mut report, false);
    report.fail_if(record.calls.begun.saturating_sub(record.calls.set_up), "calls never set up");
    report.fail_above("set-up time", &record.times.set_up, calls.max_setup_p99_ms);
    report
}

fn step(rate: u64, record: &Record) -> Step {
    let mut report = Report::default();
    record.judge(&mut report, false);
    let times = record.times.set_up.percentiles();
    Step { rate, p50_us: times.p50, p99_us: times.p99, failures: report.failures.len() }
}

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
    fn search_ends_at_twice_the_first_time_or_with_failures() {
        let step = |p99_us, failures| Step { rate: 1, p50_us: 1, p99_us, failures };

        assert!(!has_doubled(&[step(5, 0), step(10, 0)]));
        assert!(has_doubled(&[step(5, 0), step(11, 0)]));
        assert!(has_doubled(&[step(5, 0), step(5, 1)]));
        assert_eq!([1, 200, 99_000].map(next_rate), [2, 250, MAX_RATE]);
    }
}
