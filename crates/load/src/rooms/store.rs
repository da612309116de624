use std::collections::BTreeMap;

use serde::Serialize;

/// Statistics of a Redis at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Number of calls of each command, also from scripts.
    calls_by_command: BTreeMap<String, u64>,
    cpu_seconds: f64,
    memory_bytes: u64,
    pub(super) keys: u64,
    uptime_us: u64,
}

/// Load of the store by room operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct StoreCosts {
    seconds: f64,
    operations: u64,
    /// Scripts called per operation, including calls for refreshes. Each is one step of the store.
    scripts_per_operation: f64,
    /// Commands per operation, including commands of scripts.
    commands_per_operation: f64,
    cpu_us_per_operation: f64,
    /// CPU time of the store, in percent of one core.
    cpu_percent: f64,
    memory_kib_before: u64,
    memory_kib_after: u64,
    keys_before: u64,
    keys_after: u64,
    calls_by_command: BTreeMap<String, u64>,
}

impl Reading {
    /// Parses the answer to `INFO everything`.
    pub(super) fn parse(info: &str, keys: u64) -> Self {
        let mut reading = Self { keys, ..Self::default() };
        for (name, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
            let number = || value.parse::<f64>().unwrap_or(0.0);
            match name {
                "used_cpu_user" | "used_cpu_sys" => reading.cpu_seconds += number(),
                "used_memory" => reading.memory_bytes = number() as u64,
                "server_time_usec" => reading.uptime_us = number() as u64,
                _ => {
                    let calls = value.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
                    if let (Some(command), Some(calls)) = (name.strip_prefix("cmdstat_"), calls) {
                        reading.calls_by_command.insert(command.to_owned(), calls);
                    }
                }
            }
        }
        reading
    }
}

impl StoreCosts {
    /// Returns the costs between two readings, with this number of operations between them.
    pub(super) fn between(before: &Reading, after: &Reading, operations: u64) -> Self {
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
        let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
        let seconds = after.uptime_us.saturating_sub(before.uptime_us) as f64 / 1e6;
        Self {
            seconds,
            operations,
            scripts_per_operation: each(scripts as f64),
            commands_per_operation: each(calls_by_command.values().sum::<u64>() as f64),
            cpu_us_per_operation: each(cpu_seconds * 1e6),
            cpu_percent: if seconds > 0.0 { cpu_seconds * 100.0 / seconds } else { 0.0 },
            memory_kib_before: before.memory_bytes / 1024,
            memory_kib_after: after.memory_bytes / 1024,
            keys_before: before.keys,
            keys_after: after.keys,
            calls_by_command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nserver_time_usec:1000000\r\n# Memory\r\nused_memory:2048\r\nused_memory_human:2K\r\n\
                        # CPU\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:9\r\n# Commandstats\r\n\
                        cmdstat_evalsha:calls=100,usec=7,usec_per_call=0.07\r\ncmdstat_zadd:calls=10,usec=7\r\n\
                        cmdstat_info:calls=3,usec=7\r\n";

    #[test]
    fn costs_of_operations_come_from_two_readings() {
        let before = Reading::parse(INFO, 5);
        assert_eq!((before.keys, before.memory_bytes, before.uptime_us), (5, 2_048, 1_000_000));
        assert!((before.cpu_seconds - 2.0).abs() < 1e-9);
        assert_eq!(before.calls_by_command["zadd"], 10);

        let mut after = before.clone();
        after.calls_by_command = [("evalsha", 300), ("zadd", 510), ("info", 9), ("hset", 0)]
            .map(|(command, calls)| (command.to_owned(), calls))
            .into();
        after.cpu_seconds += 0.1;
        after.uptime_us += 10_000_000;

        let costs = StoreCosts::between(&before, &after, 100);

        assert_eq!((costs.scripts_per_operation, costs.commands_per_operation), (2.0, 7.0));
        assert!((costs.cpu_us_per_operation - 1_000.0).abs() < 0.1 && (costs.cpu_percent - 1.0).abs() < 0.01);
        assert_eq!(costs.calls_by_command.len(), 2);
    }
}
