//! Clients that only connect: how fast, and what memory each of them costs.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::figures::{Figure, Unit};
use super::options::Options;
use super::stage::Target;
use super::steady::fleet_of;
use crate::costs::{self, Cost, Costs};
use crate::fleet::{Endings, Fleet};

/// More than the harness can begin in a second.
const AT_ONCE: u32 = 1_000_000;
/// Connections begun a second when it is their memory that counts.
const CONNECT_RATE: u32 = 2_000;

/// Lets clients connect as fast as they are let in.
pub(super) async fn connects(target: &Target, clients: u32) -> Result<Vec<Figure>> {
    let endings = Rc::new(Endings::default());
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, AT_ONCE)?, &endings).await?;
    let per_second = f64::from(clients) / fleet.connect_seconds;
    check(&endings)?;
    fleet.close();
    Ok(vec![Figure::new(format!("clients connected, {clients} at once"), Unit::PerSecond, per_second)])
}

/// Lets clients connect to servers that have had none, and holds them: memory that was used once tells nothing.
pub(super) async fn memory(target: &Target, options: &Options) -> Result<Vec<Figure>> {
    let clients = options.idle_clients;
    let endings = Rc::new(Endings::default());
    let before = costs::read(&target.watched);
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, CONNECT_RATE)?, &endings).await?;
    sleep(Duration::from_secs(options.hold)).await;
    let costs = Costs::between(&before, &costs::read(&target.watched), 0);
    check(&endings)?;
    fleet.close();
    let each = |cost: &Cost| cost.rss_growth_kib as f64 * 1_024.0 / f64::from(clients);
    let figure = |of: &str, bytes| {
        Figure::new(format!("memory of the {of} per idle client, {clients} clients"), Unit::Bytes, bytes)
    };
    let front = costs.group(target.front()).map(each).context("the front has ended")?;
    let nodes = costs.group("nodes").map(each).map(|bytes| figure("nodes", bytes));
    Ok([figure("front", front)].into_iter().chain(nodes).collect())
}

/// Sockets that ended before we closed them speak against the figures.
fn check(endings: &Endings) -> Result<()> {
    let closed = endings.take();
    ensure!(closed.is_empty(), "sockets closed: {closed:?}");
    Ok(())
}
