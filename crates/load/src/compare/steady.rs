use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::Parser;

use super::contestant::Contestant;
use super::figures::{Figure, Run, Unit};
use super::options::Cell;
use super::stage::Target;
use crate::costs::Costs;
use crate::exchange::{Exchange, Pairs, RunOptions, Settings, TrafficOptions};
use crate::fleet::FleetOptions;
use crate::latency::Percentiles;
use crate::report::Report;

/// The share of the rate that has to be delivered while it is measured, for the run to count: what comes later is late
/// at the end, and was at the begin.
const MIN_DELIVERED: f64 = 0.98;
const WARMUP_SECONDS: u64 = 1;
/// Where a host gives more of the machine's time to others, its own work is measured.
const MAX_STOLEN_PERCENT: f64 = 1.0;
/// Connections begun a second.
const CONNECT_RATE: u32 = 2_000;

/// What came of a load on one contestant.
#[derive(Debug)]
pub(super) struct Steady {
    /// Absent where the clients could not even connect.
    pub(super) figures: Option<Figures>,
    /// Why it does not count; empty when it does.
    pub(super) complaints: Vec<String>,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// By what became of them.
    pub(super) messages: BTreeMap<String, u64>,
    pub(super) latency_us: Percentiles,
    /// CPU time of the front alone, per message.
    pub(super) front_us: f64,
    /// CPU time of the front and all nodes, per message; absent where there are none.
    pub(super) whole_us: Option<f64>,
    /// The harness's own CPU time, of one core.
    pub(super) generator_percent: f64,
    /// The share of the machine's time that its host gave to others.
    pub(super) stolen_percent: f64,
}

/// The options of `mesh-load steady` and their defaults.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    fleet: FleetOptions,
    #[command(flatten)]
    traffic: TrafficOptions,
}

impl Steady {
    /// The figures of a run that counts.
    pub(super) fn counted(&self) -> Option<&Figures> {
        self.figures.as_ref().filter(|_| self.complaints.is_empty())
    }

    /// The run with its figures, named after the cell.
    pub(super) fn into_run(self, contestant: Contestant, round: u32, cell: Cell) -> Run {
        let named = |what: &str, unit, value| Figure::new(format!("{what}, {cell}"), unit, value);
        let ms = |us: u64| us as f64 / 1_000.0;
        let (mut figures, mut messages) = (Vec::new(), BTreeMap::new());
        if let Some(found) = self.figures {
            let Percentiles { p50, p99, p99_9, .. } = found.latency_us;
            figures.push(named("CPU per message of the front", Unit::Microseconds, found.front_us));
            let whole = |us| named("CPU per message of front and nodes", Unit::Microseconds, us);
            figures.extend(found.whole_us.map(whole));
            figures.extend([
                named("p50", Unit::Milliseconds, ms(p50)),
                named("p99", Unit::Milliseconds, ms(p99)),
                named("p99.9", Unit::Milliseconds, ms(p99_9)),
                named("the generator's own CPU", Unit::Percent, found.generator_percent),
                named("time stolen from the machine", Unit::Percent, found.stolen_percent),
            ]);
            messages = found.messages;
        }
        Run { contestant, round, what: cell.to_string(), is_load: true, figures, messages, complaints: self.complaints }
    }

    /// Whether the machine's host took more than a little of its time, for better or worse of who was measured.
    pub(super) fn is_disturbed(&self) -> bool {
        self.stolen_percent() > MAX_STOLEN_PERCENT
    }

    /// The less disturbed one of two runs.
    pub(super) fn calmer(self, other: Self) -> Self {
        if other.stolen_percent() < self.stolen_percent() { other } else { self }
    }

    fn stolen_percent(&self) -> f64 {
        self.figures.as_ref().map_or(0.0, |figures| figures.stolen_percent)
    }

    /// A few words on how it went.
    pub(super) fn summary(&self) -> String {
        let figures = self.figures.as_ref().map(|figures| {
            let ms = |us: u64| us as f64 / 1_000.0;
            let Percentiles { p50, p99, .. } = figures.latency_us;
            let Figures { front_us, stolen_percent, .. } = figures;
            let (p50, p99) = (ms(p50), ms(p99));
            format!("{front_us:.1} us, p50 {p50:.1} ms, p99 {p99:.1} ms, stolen {stolen_percent:.1} %")
        });
        figures.into_iter().chain(self.complaints.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}

/// Puts a load on a contestant. One that cannot be measured has a run that does not count.
pub(super) async fn measure(target: &Target, cell: Cell, clients: u32, seconds: u64) -> Steady {
    let measured = put_load(target, cell, clients, seconds).await;
    measured.unwrap_or_else(|error| Steady { figures: None, complaints: vec![format!("{error:#}")] })
}

/// So many clients, otherwise as `mesh-load steady` has them.
pub(super) fn fleet_of(clients: u32) -> Result<FleetOptions> {
    Ok(FleetOptions { clients, ..Defaults::try_parse_from(["compare"])?.fleet })
}

async fn put_load(target: &Target, cell: Cell, clients: u32, seconds: u64) -> Result<Steady> {
    let defaults = Defaults::try_parse_from(["compare"])?.traffic;
    let Cell { size, rate } = cell;
    let run = RunOptions { seconds, warmup: WARMUP_SECONDS, ..defaults.run };
    let traffic = TrafficOptions { rate, size, run };
    let fleet = fleet_of(clients)?;
    let is_echo = target.contestant == Contestant::Echo;
    let settings = Settings { is_echo, ..Settings::new(&traffic.run, rate) };
    let exchange = Exchange::new(&fleet, settings, Pairs::new(clients, &traffic))?;
    let plan = target.plan(&fleet, CONNECT_RATE)?;
    let record = exchange.play(plan, &target.watched, async { Ok(()) }).await?;

    let mut report = Report::default();
    record.judge(&mut report, false);
    report.fail_if(record.count("errors", "errors"), "errors");
    let delivered_share = record.count("generator", "in_time") as f64 / (rate * seconds) as f64;
    if delivered_share < MIN_DELIVERED {
        report.fail(format!("only {:.1}% delivered in time", delivered_share * 100.0));
    }
    let costs = record.costs.as_ref().context("no process was watched")?;
    let figures = Figures {
        messages: record.group("messages"),
        latency_us: record.percentiles("latency"),
        front_us: per_message(costs, target.front()).context("the front has ended")?,
        whole_us: per_message(costs, "all").filter(|_| target.contestant.has_nodes()),
        generator_percent: record.count("generator", "cpu_us") as f64 / 1e4 / seconds as f64,
        stolen_percent: costs.stolen_percent,
    };
    Ok(Steady { figures: Some(figures), complaints: report.failures })
}

#[cfg(test)]
impl Steady {
    /// A run with this share of the machine's time stolen, in percent.
    pub(super) fn disturbed(stolen_percent: f64) -> Self {
        let figures = Figures {
            messages: BTreeMap::new(),
            latency_us: Percentiles::default(),
            front_us: 0.0,
            whole_us: None,
            generator_percent: 0.0,
            stolen_percent,
        };
        Self { figures: Some(figures), complaints: Vec::new() }
    }
}

fn per_message(costs: &Costs, group: &str) -> Option<f64> {
    costs.group(group)?.cpu_us_per_message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_disturbed_by_more_than_a_little_and_one_without_figures_is_not() {
        assert!(!Steady::disturbed(0.4).is_disturbed() && Steady::disturbed(1.1).is_disturbed());
        assert!(!Steady { figures: None, complaints: vec!["refused".to_owned()] }.is_disturbed());
    }

    #[test]
    fn of_two_runs_the_calmer_is_kept_and_of_equal_ones_the_first() {
        let kept = |first: Steady, second: Steady| first.calmer(second).figures.map(|it| it.stolen_percent);

        let (calm, worse) = (Steady::disturbed(2.0), Steady::disturbed(5.0));
        assert_eq!(kept(worse, calm), Some(2.0));
        let mut again = Steady::disturbed(3.0);
        again.complaints.push("second".to_owned());
        assert!(Steady::disturbed(3.0).calmer(again).complaints.is_empty());
    }
}
