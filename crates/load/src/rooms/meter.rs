//! Readings of processes and of the store, and the costs between two of them, for `rooms`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use serde::Serialize;
use signaling_devmesh::MeshFile;
use tokio::time::{Instant, sleep};

use crate::servers::{self, Costs, Watched};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Statistics of a Redis at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoreReading {
    /// Number of calls of each command, also from scripts.
    calls_by_command: BTreeMap<String, u64>,
    /// User and system time of the Redis since its start, in seconds.
    cpu_seconds: f64,
    /// Number of keys in its database.
    keys: u64,
}

/// Load of the store by room operations, between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StoreCosts {
    /// Scripts called (`EVALSHA`) per operation, including calls for refreshes. Each is one step of
    /// the store. 0 without operations.
    scripts_per_operation: f64,
    /// CPU time of the Redis per operation, in microseconds. 0 without operations.
    cpu_us_per_operation: f64,
    /// Number of keys at the first reading.
    keys_before: u64,
    /// Number of keys at the second reading.
    keys_after: u64,
    /// Number of calls of each command that was called, also from scripts. The commands of the
    /// readings themselves are left out.
    calls_by_command: BTreeMap<String, u64>,
}

impl StoreReading {
    /// Parses the answer to `INFO everything`. `keys` is the answer to `DBSIZE`. A line that is
    /// missing or unreadable counts as 0.
    pub(super) fn parse(info: &str, keys: u64) -> Self {
        let mut reading = Self { keys, ..Self::default() };
        for (name, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
            if matches!(name, "used_cpu_user" | "used_cpu_sys") {
                reading.cpu_seconds += value.parse().unwrap_or(0.0);
            }
            let calls = value.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
            if let (Some(command), Some(calls)) = (name.strip_prefix("cmdstat_"), calls) {
                reading.calls_by_command.insert(command.to_owned(), calls);
            }
        }
        reading
    }
}

impl StoreCosts {
    /// Returns the costs from `before` to the later `after`, with `operations` between them.
    pub(super) fn between(before: &StoreReading, after: &StoreReading, operations: u64) -> Self {
        let earlier = |command: &String| before.calls_by_command.get(command).copied().unwrap_or(0);
        let calls = after.calls_by_command.iter();
        // Commands of the readings themselves.
        let calls = calls.filter(|(command, _)| !matches!(command.as_str(), "info" | "dbsize"));
        let calls_by_command: BTreeMap<String, u64> = calls
            .map(|(command, calls)| (command.clone(), calls.saturating_sub(earlier(command))))
            .filter(|(_, calls)| *calls > 0)
            .collect();
        let each = |count: f64| if operations > 0 { count / operations as f64 } else { 0.0 };
        let scripts = calls_by_command.get("evalsha").copied().unwrap_or(0);
        Self {
            scripts_per_operation: each(scripts as f64),
            cpu_us_per_operation: each((after.cpu_seconds - before.cpu_seconds) * 1e6),
            keys_before: before.keys,
            keys_after: after.keys,
            calls_by_command,
        }
    }
}

/// Source of readings.
pub(super) struct Meter {
    watched: Vec<Watched>,
    /// `None` if the mesh has no Redis or is unknown.
    redis: Option<MultiplexedConnection>,
}

/// Readings of all processes and of the store at one moment.
pub(super) struct Reading {
    processes: servers::Reading,
    /// `None` without a store.
    store: Option<StoreReading>,
    /// Number of operations up to now: answered changes of visitors, and seats that were filled
    /// again from the waiting queue.
    answered: u64,
}

impl Meter {
    /// Creates a meter of the processes in `watched` and of the mesh's Redis, if it has one.
    ///
    /// # Errors
    /// If the Redis is unreachable.
    pub(super) async fn new(watched: Vec<Watched>, mesh: Option<&MeshFile>) -> Result<Self> {
        let redis = match mesh.and_then(|mesh| mesh.redis.as_deref()) {
            Some(url) => {
                let connecting = Client::open(url)?.get_multiplexed_async_connection().await;
                Some(connecting.with_context(|| format!("cannot connect to the Redis at {url}"))?)
            }
            None => None,
        };
        Ok(Self { watched, redis })
    }

    /// Reads the usage of all processes and of the Redis. `answered` is the number of operations up
    /// to now. Ended processes are left out. Fails if the Redis does not answer.
    pub(super) async fn read(&mut self, answered: u64) -> Result<Reading> {
        Ok(Reading { processes: servers::read(&self.watched), store: self.read_store().await?, answered })
    }

    /// Waits for at most `timeout` until the memory of each process and the keys of the store are
    /// at most `limit` percent above `before`. Returns a message for each that is above then. Fails
    /// if the Redis does not answer.
    pub(super) async fn growth(&mut self, before: &Reading, timeout: Duration, limit: f64) -> Result<Vec<String>> {
        let give_up = Instant::now() + timeout;
        loop {
            let growth = self.read(0).await?.growth_since(before, limit);
            if growth.is_empty() || Instant::now() >= give_up {
                return Ok(growth);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn read_store(&mut self) -> Result<Option<StoreReading>> {
        let Some(redis) = &mut self.redis else { return Ok(None) };
        let info: String =
            cmd("INFO").arg("everything").query_async(redis).await.context("the Redis does not answer")?;
        let keys = cmd("DBSIZE").query_async(redis).await.context("the Redis does not answer")?;
        Ok(Some(StoreReading::parse(&info, keys)))
    }
}

impl Reading {
    /// Returns the load of the store up to a later reading; `None` without a store.
    pub(super) fn store_costs(&self, until: &Self) -> Option<StoreCosts> {
        let (before, after) = self.store.as_ref().zip(until.store.as_ref())?;
        Some(StoreCosts::between(before, after, until.answered - self.answered))
    }

    /// Returns the usage of the processes up to a later reading, with operations as its messages.
    /// `None`: no process is in both readings.
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

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:9\r\n# Commandstats\r\n\
                        cmdstat_evalsha:calls=100,usec=7,usec_per_call=0.07\r\ncmdstat_zadd:calls=10,usec=7\r\n\
                        cmdstat_info:calls=3,usec=7\r\n";

    #[test]
    fn costs_of_operations_come_from_two_readings() {
        let before = StoreReading::parse(INFO, 5);
        assert_eq!(before.keys, 5);
        assert!((before.cpu_seconds - 2.0).abs() < 1e-9);
        assert_eq!(before.calls_by_command["zadd"], 10);

        let mut after = before.clone();
        after.calls_by_command = [("evalsha", 300), ("zadd", 510), ("info", 9), ("hset", 0)]
            .map(|(command, calls)| (command.to_owned(), calls))
            .into();
        after.cpu_seconds += 0.1;

        let costs = StoreCosts::between(&before, &after, 100);

        assert!((costs.cpu_us_per_operation - 1_000.0).abs() < 0.1);
        assert_eq!((costs.scripts_per_operation, costs.calls_by_command.len()), (2.0, 2));
    }
}
