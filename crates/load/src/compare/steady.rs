use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::Parser;

use super::contestant::Contestant;
use super::figures::{Figure, Unit};
use super::options::Cell;
use super::stage::Target;
use crate::exchange::{Exchange, Pairs, RunOptions, Settings, TrafficOptions};
use crate::fleet::FleetOptions;
use crate::report::Report;

/// Share of the rate that has to arrive in the measured time.
const MIN_DELIVERED: f64 = 0.98;
const WARMUP_SECONDS: u64 = 1;
const CONNECT_RATE: u32 = 2_000;

#[derive(Default)]
pub(super) struct Steady {
    pub(super) figures: Vec<Figure>,
    pub(super) messages: BTreeMap<String, u64>,
    pub(super) p99_us: u64,
    pub(super) complaints: Vec<String>,
}

/// The options that scenarios have in common, with their defaults.
#[derive(Parser)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
}

/// Puts a load on a contestant. An error becomes a complaint.
pub(super) async fn measure(target: &Target, cell: Cell, clients: u32, seconds: u64) -> Steady {
    let measured = put_load(target, cell, clients, seconds).await;
    measured.unwrap_or_else(|error| Steady { complaints: vec![format!("{error:#}")], ..Steady::default() })
}

/// Returns the fleet of `mesh-load steady` with this number of clients.
pub(super) fn fleet_of(clients: u32) -> Result<FleetOptions> {
    Ok(FleetOptions { clients, ..Common::try_parse_from(["compare"])?.fleet })
}

async fn put_load(target: &Target, cell: Cell, clients: u32, seconds: u64) -> Result<Steady> {
    let defaults = Common::try_parse_from(["compare"])?.traffic;
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
    let per_message = |group| costs.group(group).and_then(|cost| cost.cpu_us_per_message);
    let named = |what: &str, unit, value| Figure::new(format!("{what}, {cell}"), unit, value);
    let front = per_message(target.front()).context("the front has ended")?;
    let mut figures = vec![named("CPU per message of the front", Unit::Microseconds, front)];
    if let Some(whole) = per_message("all").filter(|_| target.contestant.has_nodes()) {
        figures.push(named("CPU per message of front and nodes", Unit::Microseconds, whole));
    }
    let latency = record.percentiles("latency");
    let generator_percent = record.count("generator", "cpu_us") as f64 / 1e4 / seconds as f64;
    let ms = |us: u64| us as f64 / 1_000.0;
    figures.extend([
        named("p50", Unit::Milliseconds, ms(latency.p50)),
        named("p99", Unit::Milliseconds, ms(latency.p99)),
        named("p99.9", Unit::Milliseconds, ms(latency.p99_9)),
        named("the generator's own CPU", Unit::Percent, generator_percent),
        named("time stolen from the machine", Unit::Percent, costs.stolen_percent),
    ]);
    Ok(Steady { figures, messages: record.group("messages"), p99_us: latency.p99, complaints: report.failures })
}
