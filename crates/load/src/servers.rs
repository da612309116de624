//! CPU time and memory of servers, from `/proc`, and their metrics, for the scenarios.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use procfs::process::{Process, all_processes};
use procfs::{CurrentSI as _, KernelStats, ticks_per_second};
use serde::{Deserialize, Serialize};
use signaling_devmesh::MeshFile;

const BALANCERS: &str = "balancers";
const NODES: &str = "nodes";
/// Group of the processes named with `--also`, such as a proxy under comparison.
const OTHERS: &str = "others";
const ALL: &str = "all";

/// A process whose usage is read. A restarted one has another id, so its usage is not read.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    name: String,
    group: &'static str,
    pid: u32,
}

/// Usage of processes at one moment.
pub(crate) struct Reading {
    at: Instant,
    cores: CoreTicks,
    usages: Vec<(Watched, Usage)>,
}

/// Usage of the servers between two readings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Costs {
    pub(crate) seconds: f64,
    /// Messages delivered between the readings; operations for `rooms`.
    pub(crate) messages: u64,
    /// Share of the time of all cores, in percent, that the host gave to other machines while this
    /// one had work.
    pub(crate) stolen_percent: f64,
    /// Processes in both readings.
    pub(crate) processes: Vec<Cost>,
    /// Sums of `balancers`, `nodes`, `others` and `all`; without those of no process.
    pub(crate) groups: Vec<Cost>,
}

/// Usage of one process or group between two readings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Name of the process or group: `node-0`, or `nodes`. The processes of one `--also` share its
    /// name.
    pub(crate) name: String,
    /// Group of the process, or the group itself; `None` for the sum of all.
    pub(crate) group: Option<String>,
    /// CPU time between the readings, in seconds.
    pub(crate) cpu_seconds: f64,
    /// CPU time in microseconds per delivered message; `None` without messages.
    pub(crate) cpu_us_per_message: Option<f64>,
    /// Resident memory at the second reading, in KiB.
    pub(crate) rss_kib: u64,
    /// Growth of the resident memory since the first reading, in KiB; negative if it shrank.
    pub(crate) rss_growth_kib: i64,
}

/// Returns the balancers and nodes of a mesh, and the processes of `also`, each with its present
/// descendants under the given name.
pub(crate) fn watched(mesh: Option<&MeshFile>, also: &[(String, u32)]) -> Vec<Watched> {
    let mut watched = Vec::new();
    let mut watch = |name: &str, group, pid| watched.push(Watched { name: name.to_owned(), group, pid });
    if let Some(mesh) = mesh {
        mesh.balancers.iter().for_each(|it| watch(&it.id, BALANCERS, it.pid));
        mesh.nodes.iter().for_each(|it| watch(&it.id, NODES, it.pid));
    }
    for (name, pid) in also {
        family(*pid).into_iter().for_each(|pid| watch(name, OTHERS, pid));
    }
    watched
}

/// Reads the usage of each process. Ended processes are left out.
pub(crate) fn read(watched: &[Watched]) -> Reading {
    let usages = watched.iter().filter_map(|process| Some((process.clone(), usage(process.pid)?))).collect();
    Reading { at: Instant::now(), cores: CoreTicks::now(), usages }
}

impl Costs {
    /// Recomputes the costs for another number of messages.
    pub(crate) fn for_messages(mut self, messages: u64) -> Self {
        self.messages = messages;
        for cost in self.processes.iter_mut().chain(&mut self.groups) {
            cost.cpu_us_per_message = (messages > 0).then(|| cost.cpu_seconds * 1e6 / messages as f64);
        }
        self
    }

    /// Returns the usage from `before` to `after` of processes in both.
    pub(crate) fn between(before: &Reading, after: &Reading, messages: u64) -> Self {
        let cost_of = |(process, after): &(Watched, Usage)| {
            let (_, before) = before.usages.iter().find(|(earlier, _)| earlier.pid == process.pid)?;
            Some(Cost {
                name: process.name.clone(),
                group: Some(process.group.to_owned()),
                cpu_seconds: after.cpu_seconds - before.cpu_seconds,
                cpu_us_per_message: None,
                rss_kib: after.rss_kib,
                rss_growth_kib: after.rss_kib.cast_signed() - before.rss_kib.cast_signed(),
            })
        };
        let processes: Vec<Cost> = after.usages.iter().filter_map(cost_of).collect();
        let sum = |name: &str| {
            let group = (name != ALL).then(|| name.to_owned());
            let members = || processes.iter().filter(|cost| group.is_none() || cost.group == group);
            members().next().is_some().then(|| Cost {
                name: name.to_owned(),
                group: group.clone(),
                cpu_seconds: members().map(|cost| cost.cpu_seconds).sum(),
                cpu_us_per_message: None,
                rss_kib: members().map(|cost| cost.rss_kib).sum(),
                rss_growth_kib: members().map(|cost| cost.rss_growth_kib).sum(),
            })
        };
        let groups = [BALANCERS, NODES, OTHERS, ALL].into_iter().filter_map(sum).collect();
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let stolen_percent = after.cores.stolen_percent_since(before.cores);
        Self { seconds, messages: 0, stolen_percent, groups, processes }.for_messages(messages)
    }

    /// Returns the sum of the group of this name (`balancers`, `nodes`, `others`, `all`); `None` if
    /// it has no process.
    pub(crate) fn group(&self, name: &str) -> Option<&Cost> {
        self.groups.iter().find(|cost| cost.name == name)
    }
}

/// Usage of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all its threads, in seconds.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_kib: u64,
}

/// Reads the total usage of a process. Returns `None` if it has ended or cannot be read.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let stat = process.stat().ok()?;
    let cpu_seconds = (stat.utime + stat.stime) as f64 / ticks_per_second() as f64;
    Some(Usage { cpu_seconds, rss_kib: process.status().ok()?.vmrss? })
}

/// Returns the CPU time of this process since its start, in seconds, or 0 if unknown.
pub(crate) fn own_cpu_seconds() -> f64 {
    usage(std::process::id()).map_or(0.0, |usage| usage.cpu_seconds)
}

/// Time of all cores since the machine started, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CoreTicks {
    all: u64,
    /// Time in which a core had work, but the host gave it to other machines.
    stolen: u64,
}

impl CoreTicks {
    /// Reads the time of all cores. Returns zeros if the kernel does not provide it.
    fn now() -> Self {
        let Ok(KernelStats { total: time, .. }) = KernelStats::current() else { return Self::default() };
        let stolen = time.steal.unwrap_or(0);
        // The time of guests is part of the user time.
        let others = [time.iowait, time.irq, time.softirq].into_iter().flatten().sum::<u64>();
        Self { all: time.user + time.nice + time.system + time.idle + others + stolen, stolen }
    }

    /// Returns the share of all time since `before` that was stolen, in percent.
    fn stolen_percent_since(self, before: Self) -> f64 {
        let (all, stolen) = (self.all.saturating_sub(before.all), self.stolen.saturating_sub(before.stolen));
        if all == 0 { 0.0 } else { stolen as f64 * 100.0 / all as f64 }
    }
}

/// Returns a process and its descendants, itself first.
fn family(pid: u32) -> Vec<u32> {
    let stats = all_processes().into_iter().flatten().filter_map(|process| process.ok()?.stat().ok());
    let mut parents: Vec<_> = stats.map(|stat| (stat.pid.cast_unsigned(), stat.ppid.cast_unsigned())).collect();
    parents.sort_unstable();
    let mut members = vec![pid];
    let mut next = 0;
    while let Some(parent) = members.get(next).copied() {
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    members
}

/// Returns an HTTP client without a proxy. Answers must be complete within 1 s.
pub(crate) fn http() -> Result<reqwest::Client> {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(1)).build();
    http.context("cannot make an HTTP client")
}

/// Returns the metrics page of a server, by the URL of its internal listener. Fails if it does not
/// answer with success within the timeout of `http`.
pub(crate) async fn fetch(http: &reqwest::Client, internal: &str) -> Result<String, reqwest::Error> {
    http.get(format!("{internal}/metrics")).send().await?.error_for_status()?.text().await
}

/// Returns the sum of a metric over all labels, each value rounded down; 0 if the page does not
/// have it.
pub(crate) fn sum(page: &str, name: &str) -> u64 {
    series(page, name).map(|(_, value)| value).sum()
}

/// Returns each series of a metric, such as `name{label="value"}`, with its value rounded down.
pub(crate) fn series<'a>(page: &'a str, name: &str) -> impl Iterator<Item = (&'a str, u64)> {
    let is_of_it = move |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let parse = |line: &'a str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series, value.parse::<f64>().ok()? as u64))
    };
    page.lines().filter(is_of_it).filter_map(parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_differences_of_processes_in_both_readings() {
        let at = Instant::now();
        let reading = |usages: &[(&'static str, u32, f64, u64)]| {
            let usage = |(group, pid, cpu_seconds, rss_kib): &(&'static str, u32, f64, u64)| {
                let watched = Watched { name: pid.to_string(), group, pid: *pid };
                (watched, Usage { cpu_seconds: *cpu_seconds, rss_kib: *rss_kib })
            };
            Reading { at, cores: CoreTicks::default(), usages: usages.iter().map(usage).collect() }
        };
        let before = reading(&[(BALANCERS, 1, 1.0, 100), (NODES, 2, 5.0, 100)]);
        let after = reading(&[(BALANCERS, 1, 1.5, 300), (NODES, 2, 5.25, 90), (NODES, 3, 5.25, 90)]);

        let costs = Costs::between(&before, &after, 100_000);

        let lines: Vec<_> = costs
            .groups
            .iter()
            .map(|cost| (cost.name.as_str(), cost.cpu_us_per_message, cost.rss_kib, cost.rss_growth_kib))
            .collect();
        assert_eq!(
            lines,
            [("balancers", Some(5.0), 300, 200), ("nodes", Some(2.5), 90, -10), ("all", Some(7.5), 390, 190)]
        );
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let (before, after) = (CoreTicks { all: 9_610, stolen: 10 }, CoreTicks { all: 9_710, stolen: 12 });

        assert_eq!(after.stolen_percent_since(before), 2.0);
        assert_eq!(before.stolen_percent_since(after), 0.0);
        assert!(CoreTicks::now().all > 0);
    }

    #[test]
    fn usage_is_known_of_running_processes_only() {
        assert!(usage(std::process::id()).unwrap().rss_kib > 0);
        assert_eq!(usage(u32::MAX), None);
    }
}
