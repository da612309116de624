use std::time::Duration;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use signaling_devmesh::MeshFile;
use tokio::time::{Instant, sleep};

use super::store::{self, StoreCosts};
use crate::costs::{self, Costs, Watched};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct Gauge {
    watched: Vec<Watched>,
    /// `None` if the mesh has no Redis or is unknown.
    redis: Option<MultiplexedConnection>,
}

pub(super) struct Mark {
    processes: costs::Reading,
    store: Option<store::Reading>,
    /// Number of answered changes.
    answered: u64,
}

impl Gauge {
    pub(super) async fn new(watched: Vec<Watched>, mesh: Option<&MeshFile>) -> Result<Self> {
        let redis = match mesh.and_then(|mesh| mesh.redis.as_deref()) {
            Some(url) => Some(connect(url).await.with_context(|| format!("cannot connect to the Redis at {url}"))?),
            None => None,
        };
        Ok(Self { watched, redis })
    }

    pub(super) async fn mark(&mut self, answered: u64) -> Result<Mark> {
        Ok(Mark { processes: costs::read(&self.watched), store: self.read_store().await?, answered })
    }

    /// Returns growth above `limit`, in percent, that remains after `timeout`.
    pub(super) async fn growth(&mut self, before: &Mark, timeout: Duration, limit: f64) -> Result<Vec<String>> {
        let give_up = Instant::now() + timeout;
        loop {
            let growth = self.mark(0).await?.growth_since(before, limit);
            if growth.is_empty() || Instant::now() >= give_up {
                return Ok(growth);
            }
            sleep(POLL_INTERVAL).await;
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
    pub(super) fn store_costs(&self, until: &Self) -> Option<StoreCosts> {
        let (before, after) = self.store.as_ref().zip(until.store.as_ref())?;
        Some(StoreCosts::between(before, after, until.answered - self.answered))
    }

    pub(super) fn costs(&self, until: &Self) -> Option<Costs> {
        let costs = Costs::between(&self.processes, &until.processes, until.answered - self.answered);
        Some(costs).filter(|costs| !costs.processes.is_empty())
    }

    fn growth_since(&self, before: &Self, limit: f64) -> Vec<String> {
        let costs = Costs::between(&before.processes, &self.processes, 0);
        let memory = costs.processes.iter().map(|cost| {
            let before_kib = cost.rss_kib.saturating_add_signed(-cost.rss_growth_kib);
            (format!("{}: KiB of memory", cost.name), before_kib, cost.rss_kib)
        });
        let stores = before.store.as_ref().zip(self.store.as_ref());
        let keys = stores.map(|(before, after)| ("redis: keys".to_owned(), before.keys, after.keys));
        let has_grown = |before: u64, after: u64| after as f64 > before as f64 * (1.0 + limit / 100.0);
        let grown = memory.chain(keys).filter(|(_, before, after)| has_grown(*before, *after));
        grown
            .map(|(what, before, after)| format!("{what} grew from {before} to {after}, by more than {limit}%"))
            .collect()
    }
}

async fn connect(url: &str) -> Result<MultiplexedConnection, redis::RedisError> {
    Client::open(url)?.get_multiplexed_async_connection().await
}
