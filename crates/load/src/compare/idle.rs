//! Clients that only connect: how fast, and what memory each of them costs.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::time::sleep;

use super::options::Options;
use super::stage::Target;
use super::steady::fleet_of;
use crate::costs::{self, Cost, Costs};
use crate::fleet::{Endings, Fleet};

/// More than the harness can begin in a second.
const AT_ONCE: u32 = 1_000_000;
/// Connections begun a second when it is their memory that counts.
const CONNECT_RATE: u32 = 2_000;

/// How fast clients were let in.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Connects {
    pub(super) per_second: f64,
    p99_us: u64,
}

/// What memory idle clients took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Memory {
    /// Of the front, for each client.
    pub(super) front_bytes: f64,
    /// Of all nodes together, for each client; absent where there are none.
    pub(super) nodes_bytes: Option<f64>,
}

/// Lets clients connect as fast as they are let in.
pub(super) async fn connects(target: &Target, clients: u32) -> Result<Connects> {
    let endings = Rc::new(Endings::default());
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, AT_ONCE)?, &endings).await?;
    let found =
        Connects { per_second: f64::from(clients) / fleet.connect_seconds, p99_us: fleet.connect.percentiles().p99 };
    check(&endings)?;
    fleet.close();
    Ok(found)
}

/// Lets clients connect to servers that have had none, and holds them: memory that was used once tells nothing.
pub(super) async fn memory(target: &Target, options: &Options) -> Result<Memory> {
    let clients = options.idle_clients;
    let endings = Rc::new(Endings::default());
    let before = costs::read(&target.watched);
    let fleet = Fleet::connect(target.plan(&fleet_of(clients)?, CONNECT_RATE)?, &endings).await?;
    sleep(Duration::from_secs(options.hold)).await;
    let costs = Costs::between(&before, &costs::read(&target.watched), 0);
    check(&endings)?;
    fleet.close();
    let each = |cost: &Cost| cost.rss_growth_kib as f64 * 1_024.0 / f64::from(clients);
    Ok(Memory {
        front_bytes: costs.group(target.front()).map(each).context("the front has ended")?,
        nodes_bytes: costs.group("nodes").map(each),
    })
}

/// Sockets that ended before we closed them speak against the figures.
fn check(endings: &Endings) -> Result<()> {
    let closed = endings.take();
    ensure!(closed.is_empty(), "sockets closed: {closed:?}");
    Ok(())
}
