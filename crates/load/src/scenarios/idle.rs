//! Clients that only hold their sockets: time to connect, and memory per client.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::sleep;

use crate::driver::wait;
use crate::fleet::{Fleet, FleetOptions};
use crate::record::Record;
use crate::report::Report;
use crate::servers::{self, Costs};
use crate::workers::{Gate, Share, WorkerOptions};

/// Time for which sockets stay open after the reading of the servers, for the slowest worker.
const CLOSE_DELAY: Duration = Duration::from_millis(200);

/// Options of `mesh-load idle`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) fleet: FleetOptions,
    #[command(flatten)]
    pub(super) workers: WorkerOptions,
    /// Time from the connection of all clients to the reading of the memory, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Returns `None` in a worker, a process of `--processes`. Fails if there is no server, a client
/// cannot connect, or a worker fails.
pub(super) async fn run(options: &Options) -> Result<Option<Report>> {
    let Some(record) = options.workers.work(|share, gate| part(options, share, gate)).await? else {
        return Ok(None);
    };
    let all = record.costs.as_ref().and_then(|costs| costs.group("all"));
    let bytes = all.map(|all| all.rss_growth_kib as f64 * 1_024.0 / f64::from(options.fleet.clients));
    let mut report = Report::new("idle");
    report.set("clients", options.fleet.clients);
    report.set("seconds", options.seconds);
    record.describe(&mut report);
    report.set("bytes_per_client", bytes);
    record.judge(&mut report, false);
    Ok(Some(report))
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<Record> {
    let record = Rc::new(RefCell::new(Record::default()));
    let (plan, watched) = options.fleet.of_share(share).plan()?;
    let before = servers::read(&watched);
    let fleet = Fleet::connect(plan, &record).await?;
    gate.pass().await?;
    wait(options.seconds, "holding").await;
    let costs = Costs::between(&before, &servers::read(&watched), 0);
    sleep(CLOSE_DELAY).await;
    let mut record = record.take();
    record.costs = (!watched.is_empty()).then_some(costs);
    record.times.connect = fleet.close();
    Ok(record)
}
