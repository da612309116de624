use std::time::Duration;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use signaling_devmesh::MeshFile;
use tokio::time::{Instant, sleep};

use super::store::{self, StoreCosts};
use crate::costs::{Costs, Reading};
use crate::leftovers::{Leftover, Stock};
use crate::watch::Watch;

/// How often to look whether servers have put things away.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Takes readings of the servers' processes and of their store, as far as there are any to be read.
pub(super) struct Gauge {
    watch: Watch,
    redis: Option<MultiplexedConnection>,
}

/// How things are at one moment.
pub(super) struct Mark {
    processes: Reading,
    stock: Stock,
    store: Option<store::Reading>,
    /// Changes that were answered so far.
    answered: u64,
}

impl Gauge {
    pub(super) async fn new(watch: &Watch, mesh: Option<&MeshFile>) -> Result<Self> {
        let redis = match mesh.and_then(|mesh| mesh.redis.as_deref()) {
            Some(url) => Some(connect(url).await.with_context(|| format!("cannot connect to the Redis at {url}"))?),
            None => None,
        };
        Ok(Self { watch: watch.clone(), redis })
    }

    pub(super) async fn mark(&mut self, answered: u64) -> Result<Mark> {
        let stock = Stock::take(&self.watch);
        Ok(Mark { processes: self.watch.read(), stock, store: self.read_store().await?, answered })
    }

    /// What processes and the store have, compared with before. Where there is a limit, servers get so much time to be within it.
    pub(super) async fn leftovers(
        &mut self,
        before: &Mark,
        within: Duration,
        limit: Option<f64>,
    ) -> Result<Vec<Leftover>> {
        let give_up = Instant::now() + within;
        loop {
            let after = self.mark(0).await?;
            let mut leftovers = after.stock.compared_with(&before.stock);
            if let Some((before, after)) = before.store.as_ref().zip(after.store) {
                leftovers.push(Leftover::new("redis", "keys", before.keys, after.keys));
            }
            let is_back = limit.is_none_or(|limit| leftovers.iter().all(|leftover| !leftover.is_above(limit)));
            if is_back || Instant::now() >= give_up {
                return Ok(leftovers);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn read_store(&mut self) -> Result<Option<store::Reading>> {
        let Some(redis) = &mut self.redis else { return Ok(None) };
        let info: String =
            cmd("INFO").arg("everything").query_async(redis).await.context("the Redis does not answer")?;
        let keys = cmd("DBSIZE").query_async(redis).await.context("the Redis does not answer")?;
        Ok(Some(store::Reading::parse(&info, keys)))
    }
}

impl Mark {
    /// What the store was asked until another moment.
    pub(super) fn store_costs(&self, until: &Self) -> Option<StoreCosts> {
        let (before, after) = self.store.as_ref().zip(until.store.as_ref())?;
        Some(StoreCosts::between(before, after, until.answered - self.answered))
    }

    /// What the servers' processes used until another moment.
    pub(super) fn costs(&self, until: &Self) -> Option<Costs> {
        let costs = Costs::between(&self.processes, &until.processes, until.answered - self.answered);
        Some(costs).filter(|costs| !costs.processes.is_empty())
    }
}

async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    Client::open(url)?.get_multiplexed_async_connection().await
}
