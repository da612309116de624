//! What the servers' processes use, second by second.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use signaling_devmesh::MeshFile;
use tokio::time::{MissedTickBehavior, interval};

use crate::costs::{self, Reading};
use crate::crew::Over;
use crate::fleet::FleetOptions;

const EVERY: Duration = Duration::from_secs(1);

/// Reads the processes of a mesh, also those that start meanwhile, and those named besides.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    dir: Option<PathBuf>,
    also: Vec<(String, u32)>,
}

/// The readings of a run.
#[derive(Default)]
pub(crate) struct Usages(Vec<(f64, Reading)>);

/// A moment in seconds from the begin of the run, and the value there, if there is one.
type Point = (f64, Option<f64>);

/// What a process used over a run, for a report.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct UsageLine {
    process: String,
    /// At which second, and how much of one core since the reading before, in percent; nothing after a restart.
    cpu_percent: Vec<Point>,
    /// At which second, and how much memory in RAM.
    rss_mib: Vec<Point>,
}

impl Watch {
    pub(crate) fn new(fleet: &FleetOptions) -> Self {
        Self { dir: fleet.dir.clone(), also: fleet.also.clone() }
    }

    pub(crate) fn read(&self) -> Reading {
        // A mesh that has just gone has no processes.
        let mesh = self.dir.as_ref().and_then(|dir| MeshFile::read(dir).ok());
        costs::read(&costs::watched(mesh.as_ref(), &self.also))
    }

    /// Reads once a second until the load is over.
    pub(crate) async fn run(&self, mut over: Over) -> Usages {
        let begin = Instant::now();
        let mut readings = Vec::new();
        if self.dir.is_none() && self.also.is_empty() {
            // Fires when the other end is dropped, which is an error to it.
            let _ = over.await;
            return Usages(readings);
        }
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => readings.push((begin.elapsed().as_secs_f64(), self.read())),
                _ = &mut over => return Usages(readings),
            }
        }
    }
}

impl Usages {
    /// The last reading before a moment, in seconds from the first.
    pub(crate) fn before(&self, seconds: f64) -> Option<&Reading> {
        Some(&self.0.iter().rev().find(|(at, _)| *at < seconds)?.1)
    }

    pub(crate) fn lines(&self) -> Vec<UsageLine> {
        let mut names: Vec<&str> = self.0.iter().flat_map(|(_, reading)| reading.names()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.line(name)).collect()
    }

    fn line(&self, name: &str) -> UsageLine {
        let (mut cpu_percent, mut rss_mib) = (Vec::new(), Vec::new());
        let mut earlier: Option<(f64, BTreeMap<u32, f64>)> = None;
        for (at, reading) in &self.0 {
            let usages: Vec<_> = reading.of(name).collect();
            let cpu: BTreeMap<u32, f64> = usages.iter().map(|(pid, usage)| (*pid, usage.cpu_seconds)).collect();
            if let Some((before, cpu_before)) = &earlier {
                let both: Vec<f64> =
                    cpu.iter().filter_map(|(pid, seconds)| Some(seconds - cpu_before.get(pid)?)).collect();
                let percent = both.iter().sum::<f64>() * 100.0 / (at - before);
                cpu_percent.push((rounded(*at), (!both.is_empty()).then(|| rounded(percent))));
            }
            let rss_kib: u64 = usages.iter().map(|(_, usage)| usage.rss_kib).sum();
            rss_mib.push((rounded(*at), (!usages.is_empty()).then(|| rounded(rss_kib as f64 / 1024.0))));
            earlier = Some((*at, cpu));
        }
        UsageLine { process: name.to_owned(), cpu_percent, rss_mib }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Group;

    /// Name, number, CPU seconds and KiB of a process.
    type Process = (&'static str, u32, f64, u64);

    fn readings(readings: &[(f64, &[Process])]) -> Usages {
        let reading = |usages: &[Process]| {
            let usages = usages.iter().map(|(name, pid, cpu, rss)| (*name, Group::Nodes, *pid, *cpu, *rss));
            Reading::of_test(Instant::now(), &usages.collect::<Vec<_>>())
        };
        Usages(readings.iter().map(|(at, usages)| (*at, reading(usages))).collect())
    }

    #[test]
    fn the_share_of_a_core_is_the_growth_since_the_reading_before() {
        let usages = readings(&[(0.0, &[("n", 1, 5.0, 1_024)]), (2.0, &[("n", 1, 6.0, 2_048)])]);

        let lines = usages.lines();

        assert_eq!(lines[0].cpu_percent, [(2.0, Some(50.0))]);
        assert_eq!(lines[0].rss_mib, [(0.0, Some(1.0)), (2.0, Some(2.0))]);
    }

    #[test]
    fn a_process_that_starts_anew_has_a_gap_and_no_share_below_nothing() {
        let usages = readings(&[(0.0, &[("b", 1, 5.0, 1_024)]), (1.0, &[]), (2.0, &[("b", 2, 0.1, 512)])]);

        let lines = usages.lines();

        assert_eq!(lines[0].cpu_percent, [(1.0, None), (2.0, None)]);
        assert_eq!(lines[0].rss_mib, [(0.0, Some(1.0)), (1.0, None), (2.0, Some(0.5))]);
    }

    #[test]
    fn processes_of_one_name_are_one_line() {
        let usages = readings(&[(0.0, &[("nginx", 1, 0.0, 1_024), ("nginx", 2, 0.0, 1_024)])]);

        assert_eq!(usages.lines()[0].rss_mib, [(0.0, Some(2.0))]);
    }
}
