//! One measurement of one contestant, for `rounds`: under a load, and with clients that only
//! connect. An error makes the run invalid.
//!
//! A contestant is a server under comparison. Its front is its own processes, without the nodes of
//! the mesh behind them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::figures::{Figure, Found, Unit};
use super::testbed::Target;
use super::{Cell, Options};
use crate::exchange::{RunOptions, Settings, play};
use crate::fleet::{Fleet, FleetOptions};
use crate::message::Wire;
use crate::record::Record;
use crate::report::Report;
use crate::servers::{self, Cost, Costs};

/// Minimum part of the scheduled deliveries that arrives in the measured time.
const MIN_DELIVERED: f64 = 0.98;
const WARMUP_SECONDS: u64 = 1;
/// Maximum wait for late messages, in milliseconds.
const SETTLE_MS: u64 = 30_000;
/// Maximum connections begun per second, except in [`connects`].
const CONNECT_RATE: u32 = 2_000;
/// Connections per second, more than the generator can begin.
const UNLIMITED_RATE: u32 = 1_000_000;

/// Measures latency and CPU time in the `--seconds` of a load after its warm-up. CPU time is per
/// delivered message. The result also has the generator's CPU time, in percent of one core.
///
/// The result is invalid after a lost, duplicated or reordered message, an error, or a closed
/// socket. It is also invalid if less than 99% of the schedule is sent, or less than 98% is
/// delivered in the measured time. Fails if a client cannot connect, or the front's processes end.
pub(super) async fn load(target: &Target, cell: Cell, options: &Options) -> Result<Found> {
    let (Cell { size, rate }, Options { clients, seconds, .. }) = (cell, options);
    let run = RunOptions { seconds: *seconds, warmup: WARMUP_SECONDS, seed: 1, settle_ms: SETTLE_MS };
    let (wire, group_size) = (options.dialect, options.group_size());
    let settings = Settings { wire, group_size: group_size as usize, ..Settings::new(&run, rate) };
    let plan = (target.plan(*clients, CONNECT_RATE, wire)?, target.watched.clone());
    let record = play(&FleetOptions::new(*clients), settings, size, plan, async { Ok(()) }).await?;

    let mut report = Report::default();
    record.judge(&mut report, false);
    report.fail_if(record.errors, "errors");
    let copies = rate * seconds * u64::from(group_size - 1);
    let delivered_share = record.generator.in_time as f64 / copies as f64;
    if delivered_share < MIN_DELIVERED {
        report.fail(format!("only {:.1}% delivered in time", delivered_share * 100.0));
    }
    let costs = record.costs.as_ref().context("no process was watched")?;
    let per_message = |group| costs.group(group).and_then(|cost| cost.cpu_us_per_message);
    let message = if wire == Wire::YWebrtc { "copy" } else { "message" };
    let named = |what: &str, unit, value| Figure::new(format!("{what}, {cell}"), unit, value);
    let cpu = |of: &str, value| named(&format!("CPU per {message} of {of}"), Unit::Microseconds, value);
    let front = per_message(target.front()).context("the front has ended")?;
    let whole = per_message("all").context("the servers have ended")?;
    let latency = record.times.latency.percentiles();
    let generator_percent = record.generator.cpu_us as f64 / 1e4 / *seconds as f64;
    let ms = |us: u64| us as f64 / 1_000.0;
    let figures = vec![
        cpu("the front", front),
        cpu("front and nodes", whole),
        named("p50", Unit::Milliseconds, ms(latency.p50)),
        named("p99", Unit::Milliseconds, ms(latency.p99)),
        named("p99.9", Unit::Milliseconds, ms(latency.p99_9)),
        named("the generator's own CPU", Unit::Percent, generator_percent),
        named("time stolen from the machine", Unit::Percent, costs.stolen_percent),
    ];
    Ok(Found { figures, messages: Some(record.messages), p99_us: latency.p99, complaints: report.failures })
}

/// Measures the rate at which `--connects` clients connect, in clients per second. All stay
/// connected to the end. At most 64 connections are being opened at a time. Fails if a client
/// cannot connect, or a socket ends.
pub(super) async fn connects(target: &Target, options: &Options) -> Result<Found> {
    let clients = options.connects;
    let record = Rc::new(RefCell::new(Record::default()));
    let fleet = Fleet::connect(target.plan(clients, UNLIMITED_RATE, options.dialect)?, &record).await?;
    let per_second = f64::from(clients) / fleet.connect_seconds;
    close(fleet, &record.borrow())?;
    let figure = Figure::new(format!("clients connected, {clients} at once"), Unit::PerSecond, per_second);
    Ok(Found { figures: vec![figure], ..Found::default() })
}

/// Measures the growth of resident memory by `--idle-clients` clients, in bytes per client. It
/// reads memory before the first connection, and `--hold` seconds after the last one. The nodes
/// have a figure of their own, if there are any. `rounds` starts new servers for it.
///
/// Fails if a client cannot connect, a socket ends, or the front's processes end.
pub(super) async fn memory(target: &Target, options: &Options) -> Result<Found> {
    let clients = options.idle_clients;
    let record = Rc::new(RefCell::new(Record::default()));
    let before = servers::read(&target.watched);
    let fleet = Fleet::connect(target.plan(clients, CONNECT_RATE, options.dialect)?, &record).await?;
    sleep(Duration::from_secs(options.hold)).await;
    let costs = Costs::between(&before, &servers::read(&target.watched), 0);
    close(fleet, &record.borrow())?;
    let each = |cost: &Cost| cost.rss_growth_kib as f64 * 1_024.0 / f64::from(clients);
    let figure = |of: &str, bytes| {
        Figure::new(format!("memory of the {of} per idle client, {clients} clients"), Unit::Bytes, bytes)
    };
    let front = costs.group(target.front()).map(each).context("the front has ended")?;
    let nodes = costs.group("nodes").map(each).map(|bytes| figure("nodes", bytes));
    Ok(Found { figures: [figure("front", front)].into_iter().chain(nodes).collect(), ..Found::default() })
}

/// Closes all sockets. Fails if one ended before.
fn close(fleet: Fleet, record: &Record) -> Result<()> {
    fleet.close();
    ensure!(record.closed.is_empty(), "sockets closed: {:?}", record.closed);
    Ok(())
}
