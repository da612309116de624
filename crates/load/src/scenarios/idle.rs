//! Clients that only hold their sockets: how long it takes to connect, and what memory each of them costs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tokio::time::sleep;

use crate::costs::{self, Costs};
use crate::fleet::{Fleet, FleetOptions, Listener, progress};
use crate::latency::Percentiles;
use crate::outcome::Outcome;

/// What `mesh-load idle` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// How long to hold the sockets.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
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
}

#[derive(Default)]
struct Endings(RefCell<BTreeMap<String, u64>>);

impl Listener for Endings {
    fn text(&self, _client: usize, _text: &str) -> Option<u64> {
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        *self.0.borrow_mut().entry(reason).or_default() += 1;
    }
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    let (plan, watched) = options.fleet.plan()?;
    let endings = Rc::new(Endings::default());
    let before = costs::read(&watched);
    let fleet = Fleet::connect(plan, &endings).await?;

    let bar = progress(options.seconds, "holding");
    for _ in 0..options.seconds {
        sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();

    let report = Report {
        scenario: "idle",
        clients: options.fleet.clients,
        seconds: options.seconds,
        connect_seconds: fleet.connect_seconds,
        connect_us: fleet.connect,
        closed: endings.0.borrow().clone(),
        costs: (!watched.is_empty()).then(|| Costs::between(&before, &costs::read(&watched), 0)),
    };
    fleet.close();
    let failures = report.closed.iter().map(|(reason, count)| format!("{count} sockets closed: {reason}")).collect();
    Outcome::new(report.table(), &report, failures)
}

impl Report {
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
