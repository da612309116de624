use procfs::process::{Process, all_processes};
use procfs::{CpuTime, CurrentSI as _, KernelStats, ticks_per_second};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all its threads, in seconds.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_kib: u64,
}

/// Reads the total usage of a process. Returns `None` if there is no such process.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let stat = process.stat().ok()?;
    let cpu_seconds = (stat.utime + stat.stime) as f64 / ticks_per_second() as f64;
    Some(Usage { cpu_seconds, rss_kib: process.status().ok()?.vmrss? })
}

pub(crate) fn own_cpu_seconds() -> f64 {
    usage(std::process::id()).map_or(0.0, |usage| usage.cpu_seconds)
}

/// Time of all cores since the machine started, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreTicks {
    all: u64,
    /// Time in which a core had work, but the host gave it to other machines.
    stolen: u64,
}

/// Reads the time of all cores. Returns zeros if the kernel does not provide it.
pub(crate) fn core_ticks() -> CoreTicks {
    KernelStats::current().map(|stats| CoreTicks::of(&stats.total)).unwrap_or_default()
}

impl CoreTicks {
    fn of(time: &CpuTime) -> Self {
        let stolen = time.steal.unwrap_or(0);
        // The time of guests is part of the user time.
        let others = [time.iowait, time.irq, time.softirq].into_iter().flatten().sum::<u64>();
        Self { all: time.user + time.nice + time.system + time.idle + others + stolen, stolen }
    }

    /// Returns the share of all time since `before` that was stolen, in percent.
    pub(crate) fn stolen_percent_since(self, before: Self) -> f64 {
        let (all, stolen) = (self.all.saturating_sub(before.all), self.stolen.saturating_sub(before.stolen));
        if all == 0 { 0.0 } else { stolen as f64 * 100.0 / all as f64 }
    }
}

pub(crate) fn family(pid: u32) -> Vec<u32> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let (before, after) = (CoreTicks { all: 9_610, stolen: 10 }, CoreTicks { all: 9_710, stolen: 12 });

        assert_eq!(after.stolen_percent_since(before), 2.0);
        assert_eq!(before.stolen_percent_since(after), 0.0);
        assert!(core_ticks().all > 0);
    }

    #[test]
    fn usage_is_known_of_running_processes_only() {
        assert!(usage(std::process::id()).unwrap().rss_kib > 0);
        assert_eq!(usage(u32::MAX), None);
    }

    #[test]
    fn child_belongs_to_the_family() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();

        let family = family(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();

        assert!(family.contains(&child.id()));
    }
}
