//! Clients that only hold their sockets: how long it takes to connect, and what memory each of them costs.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::sleep;

use crate::costs::Costs;
use crate::crew::{CrewOptions, Gate, Share, Work};
use crate::fleet::{Endings, Fleet, FleetOptions};
use crate::progress::wait;
use crate::record::Record;
use crate::report::Report;
use crate::watch::Watch;

/// The sockets stay open a little longer, so that the last reading of what they cost sees them all.
const LONGER: Duration = Duration::from_millis(200);

/// What `mesh-load idle` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// How many processes they are in.
    #[command(flatten)]
    pub crew: CrewOptions,
    /// How long to hold the sockets.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Fail when the mesh has more memory for each client than this, all of its processes together.
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<f64>,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Option<Report>> {
    let watch = Watch::new(&options.fleet);
    let before = watch.read();
    let work = options.crew.work(&[], |share, gate| part(options, share, gate), |over| watch.run(over)).await?;
    let Some(Work { record, beside }) = work else { return Ok(None) };
    let held = beside.before(options.seconds as f64 + LONGER.as_secs_f64());
    let costs = held.map(|held| Costs::between(&before, held, 0));
    let bytes = costs.as_ref().map(|costs| costs.growth_bytes() / f64::from(options.fleet.clients));
    let mut report = Report::new("idle");
    report.set("clients", options.fleet.clients);
    report.set("seconds", options.seconds);
    record.describe(&mut report);
    report.set("costs", &costs);
    report.set("bytes_per_client", bytes);
    report.set("usage", beside.lines());
    record.judge(&mut report, false);
    if let (Some(bytes), Some(limit)) = (bytes, options.max_bytes)
        && bytes > limit
    {
        report.fail(format!("each client takes {bytes:.0} bytes of the mesh, above {limit}"));
    }
    Ok(Some(report))
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<Record> {
    let endings = Rc::new(Endings::default());
    let fleet = Fleet::connect(options.fleet.of_share(share).plan()?.0, &endings).await?;
    gate.pass().await?;
    wait(options.seconds, "holding").await;
    sleep(LONGER).await;
    let mut record = Record::default();
    record.set_times("connect", &fleet.connect);
    endings.take().iter().for_each(|(reason, count)| record.add("closed", reason, *count));
    fleet.close();
    Ok(record)
}
