//! Clients that only hold their sockets: how long it takes to connect, and what memory each of them costs.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::costs::Costs;
use crate::crew::{CrewOptions, Gate, Part, Share, Work};
use crate::fleet::{Endings, Fleet, FleetOptions};
use crate::latency::{Latencies, Percentiles};
use crate::merge::add_counts;
use crate::outcome::{Outcome, closed_failures};
use crate::progress::wait;
use crate::watch::{UsageLine, Watch};

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

#[derive(Serialize, Deserialize)]
struct IdlePart {
    connect_seconds: f64,
    connect: Latencies,
    closed: BTreeMap<String, u64>,
}

impl Part for IdlePart {
    fn absorb(&mut self, other: Self) {
        self.connect_seconds = self.connect_seconds.max(other.connect_seconds);
        self.connect.absorb(&other.connect);
        add_counts(&mut self.closed, other.closed);
    }
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    clients: u32,
    seconds: u64,
    connect_seconds: f64,
    connect_us: Percentiles,
    closed: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
    usage: Vec<UsageLine>,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    let watch = Watch::new(&options.fleet);
    let before = watch.read();
    let work = options.crew.work(&[], |share, gate| part(options, share, gate), |over| watch.run(over)).await?;
    Work::report(work, |Work { part, beside: usages }| {
        let held = usages.before(options.seconds as f64 + LONGER.as_secs_f64());
        let report = Report {
            scenario: "idle",
            clients: options.fleet.clients,
            seconds: options.seconds,
            connect_seconds: part.connect_seconds,
            connect_us: part.connect.percentiles(),
            closed: part.closed,
            costs: held.map(|held| Costs::between(&before, held, 0)),
            usage: usages.lines(),
        };
        Outcome::new(report.table(), &report, report.failures(options.max_bytes))
    })
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<IdlePart> {
    let endings = Rc::new(Endings::default());
    let fleet = Fleet::connect(options.fleet.of_share(share).plan()?.0, &endings).await?;
    gate.pass().await?;
    wait(options.seconds, "holding").await;
    sleep(LONGER).await;
    let closed = endings.take();
    let part = IdlePart { connect_seconds: fleet.connect_seconds, connect: fleet.connect.clone(), closed };
    fleet.close();
    Ok(part)
}

impl Report {
    fn failures(&self, max_bytes: Option<f64>) -> Vec<String> {
        let mut failures: Vec<String> = closed_failures(&self.closed).collect();
        let bytes = self.costs.as_ref().map(|costs| costs.growth_bytes() / f64::from(self.clients));
        if let (Some(bytes), Some(limit)) = (bytes, max_bytes)
            && bytes > limit
        {
            failures.push(format!("each client takes {bytes:.0} bytes of the mesh, above {limit}"));
        }
        failures
    }

    fn table(&self) -> String {
        let costs = self.costs.as_ref().map(|costs| format!("\n{}", costs.table(Some(self.clients.into()))));
        format!(
            "clients     {} held for {} s\nconnected   in {:.1} s, each {}\n{}",
            self.clients,
            self.seconds,
            self.connect_seconds,
            self.connect_us.line(),
            costs.unwrap_or_default()
        )
    }
}
