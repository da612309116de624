use std::time::Instant;

use serde::{Deserialize, Serialize};
use signaling_devmesh::MeshFile;

use crate::procfs::{CoreTicks, Usage, core_ticks, family, usage};

const BALANCERS: &str = "balancers";
const NODES: &str = "nodes";
/// Group of the processes named with `--also`, such as a proxy under comparison.
const OTHERS: &str = "others";
/// Name of the sum of all groups.
const ALL: &str = "all";

/// A process whose usage is read. A restart changes its id.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    name: String,
    group: &'static str,
    pid: u32,
}

pub(crate) struct Reading {
    at: Instant,
    cores: CoreTicks,
    usages: Vec<(Watched, Usage)>,
}

/// Usage of the servers between two readings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Costs {
    pub(crate) seconds: f64,
    /// Messages delivered between the readings.
    pub(crate) messages: u64,
    /// Share of time, in percent, that the host gave to other machines while this one had work.
    pub(crate) stolen_percent: f64,
    pub(crate) processes: Vec<Cost>,
    /// Sums by group, and `all`.
    pub(crate) groups: Vec<Cost>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// `node-0`, or `nodes`.
    pub(crate) name: String,
    /// Group of the process; `None` for the sum of all.
    pub(crate) group: Option<String>,
    pub(crate) cpu_seconds: f64,
    /// CPU time in microseconds per delivered message; `None` without messages.
    pub(crate) cpu_us_per_message: Option<f64>,
    /// Resident memory at the second reading, in KiB.
    pub(crate) rss_kib: u64,
    /// Growth of the resident memory since the first reading, in KiB.
    pub(crate) rss_growth_kib: i64,
}

/// Returns all processes of a mesh, and the process families in `also`.
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
    Reading { at: Instant::now(), cores: core_ticks(), usages }
}

impl Reading {
    /// Creates a reading from name, group, process id, CPU seconds and KiB.
    #[cfg(test)]
    pub(crate) fn of_test(at: Instant, usages: &[(&str, &'static str, u32, f64, u64)]) -> Self {
        let usages = usages.iter().map(|(name, group, pid, cpu_seconds, rss_kib)| {
            let watched = Watched { name: (*name).to_owned(), group, pid: *pid };
            (watched, Usage { cpu_seconds: *cpu_seconds, rss_kib: *rss_kib })
        });
        Self { at, cores: CoreTicks::default(), usages: usages.collect() }
    }
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
            let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
            Some(Cost {
                name: process.name.clone(),
                group: Some(process.group.to_owned()),
                cpu_seconds,
                cpu_us_per_message: None,
                rss_kib: after.rss_kib,
                rss_growth_kib: after.rss_kib.cast_signed() - before.rss_kib.cast_signed(),
            })
        };
        let processes: Vec<Cost> = after.usages.iter().filter_map(cost_of).collect();
        let sum = |name: &str| {
            let group = (name != ALL).then(|| name.to_owned());
            let members = || processes.iter().filter(|cost| group.is_none() || cost.group == group);
            let cpu_seconds = members().map(|cost| cost.cpu_seconds).sum();
            members().next().is_some().then(|| Cost {
                name: name.to_owned(),
                group: group.clone(),
                cpu_seconds,
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

    pub(crate) fn growth_bytes(&self) -> f64 {
        self.processes.iter().map(|cost| cost.rss_growth_kib as f64 * 1024.0).sum()
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Cost> {
        self.groups.iter().find(|cost| cost.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_differences_of_processes_in_both_readings() {
        let now = Instant::now();
        let before = Reading::of_test(now, &[("b", BALANCERS, 1, 1.0, 100), ("n", NODES, 2, 5.0, 100)]);
        let after = [("b", BALANCERS, 1, 1.5, 300), ("n", NODES, 2, 5.25, 90), ("new", NODES, 3, 5.25, 90)];
        let after = Reading::of_test(now, &after);

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
}
