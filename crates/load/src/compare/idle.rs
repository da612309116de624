//! Clients that only connect: connection rate, and memory per client.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::figures::{Figure, Unit};
use super::options::Options;
use super::stage::Target;
use super::steady::fleet_of;
use crate::costs::{self, Cost, Costs};
use crate::fleet::Fleet;
use crate::record::Record;

/// Higher than the generator can reach in a second.
const UNLIMITED_RATE: u32 = 1_000_000;
const CONNECT_RATE: u32 = 2_000;

pub(super) async fn connects(target: &Target, clients: u32) -> Result<Vec<Figure>> {
    let record = Rc::new(RefCell::new(Record::default()));
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, UNLIMITED_RATE)?, &record).await?;
    let per_second = f64::from(clients) / fleet.connect_seconds;
    check_open(&record.borrow())?;
    fleet.close();
    Ok(vec![Figure::new(format!("clients connected, {clients} at once"), Unit::PerSecond, per_second)])
}

/// Measures the memory of idle clients on new servers.
pub(super) async fn memory(target: &Target, options: &Options) -> Result<Vec<Figure>> {
    let clients = options.idle_clients;
    let record = Rc::new(RefCell::new(Record::default()));
    let before = costs::read(&target.watched);
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, CONNECT_RATE)?, &record).await?;
    sleep(Duration::from_secs(options.hold)).await;
    let costs = Costs::between(&before, &costs::read(&target.watched), 0);
    check_open(&record.borrow())?;
    fleet.close();
    let each = |cost: &Cost| cost.rss_growth_kib as f64 * 1_024.0 / f64::from(clients);
    let figure = |of: &str, bytes| {
        Figure::new(format!("memory of the {of} per idle client, {clients} clients"), Unit::Bytes, bytes)
    };
    let front = costs.group(target.front()).map(each).context("the front has ended")?;
    let nodes = costs.group("nodes").map(each).map(|bytes| figure("nodes", bytes));
    Ok([figure("front", front)].into_iter().chain(nodes).collect())
}

fn check_open(record: &Record) -> Result<()> {
    let closed = record.group("closed");
    ensure!(closed.is_empty(), "sockets closed: {closed:?}");
    Ok(())
}
