//! Calls are set up at a fixed rate: how long that takes, and at which rate it takes twice as long.

use anyhow::Result;
use clap::Args;

use crate::calls::{CallOptions, MAX_RATE, Report, doubling, make_calls};
use crate::crew::{CrewOptions, Work};
use crate::fleet::FleetOptions;
use crate::outcome::Outcome;
use crate::watch::Watch;

/// Rates that are tried at most.
const MOST_STEPS: usize = 30;

/// What `mesh-load calls` takes.
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
    /// Raise the rate by --step until the 99th percentile of the set-up time has doubled.
    #[arg(long)]
    pub until_doubled: bool,
    /// By which factor to raise it.
    #[arg(long, default_value_t = 1.25, value_parser = factor)]
    pub step: f64,
}

/// Runs the scenario.
///
/// # Errors
/// When the options do not fit together, or the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    options.fleet.check_pairs(options.crew.processes)?;
    let Some(mut report) = at_rate(options, options.calls.rate).await? else { return Ok(Outcome::silent()) };
    if options.until_doubled && options.crew.share.is_none() {
        let mut steps = vec![report.step(&options.calls)];
        let mut rate = options.calls.rate;
        while doubling(&steps).is_none() && steps.len() < MOST_STEPS && rate < MAX_RATE {
            rate = next_rate(rate, options.step);
            match at_rate(options, rate).await {
                Ok(next) => steps.extend(next.map(|next| next.step(&options.calls))),
                Err(error) => {
                    // What was found so far is a finding all the same.
                    report.given_up = Some(format!("{rate} calls a second could not be tried: {error:#}"));
                    break;
                }
            }
        }
        report.steps = steps;
    }
    Outcome::new(report.table(), &report, report.failures(&options.calls))
}

/// `None` in a process that has told another one what it found.
async fn at_rate(options: &Options, rate: u64) -> Result<Option<Report>> {
    let calls = CallOptions { rate, ..options.calls.clone() };
    let watch = Watch::new(&options.fleet);
    let part = async |share, gate| make_calls(&options.fleet.of_share(share), &calls.of_share(share)?, gate).await;
    let more = [format!("--rate={rate}")];
    let work = options.crew.work(&more, part, |over| watch.run(over)).await?;
    Ok(work.map(|Work { part, beside }| Report::new(&calls, options.crew.processes, part, &beside)))
}

fn next_rate(rate: u64, step: f64) -> u64 {
    ((rate as f64 * step) as u64).max(rate + 1).min(MAX_RATE)
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor| (1.01..=10.0).contains(factor))
        .ok_or_else(|| "use a number from 1.01 to 10".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_is_above_the_one_before_up_to_the_highest() {
        assert_eq!(next_rate(200, 1.25), 250);
        assert_eq!(next_rate(1, 1.01), 2);
        assert_eq!(next_rate(99_000, 1.25), MAX_RATE);
    }
}
