use std::fs;

/// The kernel counts CPU time in these towards programs, on every architecture that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all its threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory in RAM, in KiB.
    pub(crate) rss_kib: u64,
}

/// Reads what a process has used so far; `None` when there is no such process.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Usage { cpu_seconds: cpu_seconds(&stat)?, rss_kib: number(&status, "VmRSS:")? })
}

/// User and system time that this process has used so far, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    usage(std::process::id()).map_or(0.0, |usage| usage.cpu_seconds)
}

/// What the time of the machine's cores went to, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreTicks {
    all: u64,
    /// A core of ours had work, and the host gave its time to others.
    stolen: u64,
}

/// Reads what went so far; zeros where the kernel does not tell.
pub(crate) fn core_ticks() -> CoreTicks {
    fs::read_to_string("/proc/stat").ok().and_then(|stat| CoreTicks::read(&stat)).unwrap_or_default()
}

impl CoreTicks {
    /// Of `proc_stat(5)`, whose first line is the sum of all cores. Its ninth and tenth figure are in others already.
    fn read(stat: &str) -> Option<Self> {
        let figures = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().take(8);
        let ticks = figures.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// The share of all time since `before` that was stolen, in percent.
    pub(crate) fn stolen_percent_since(self, before: Self) -> f64 {
        let (all, stolen) = (self.all.saturating_sub(before.all), self.stolen.saturating_sub(before.stolen));
        if all == 0 { 0.0 } else { stolen as f64 * 100.0 / all as f64 }
    }
}

/// A process and all that descend from it.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    parents.sort_unstable();
    let mut members = vec![pid];
    let mut next = 0;
    while let Some(parent) = members.get(next).copied() {
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    members
}

/// The fields behind the program's name, which may itself contain spaces and parentheses.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().collect())
}

fn parent(stat: &str) -> Option<u32> {
    fields(stat)?.get(1)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields = fields(stat)?;
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(f64::from(ticks(11)?.saturating_add(ticks(12)?)) / TICKS_PER_SECOND)
}

fn number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_a_name_with_spaces_and_parentheses() {
        let stat = "77 (my (odd) name) S 4 77 77 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 3 0 1 2 3";

        assert_eq!(cpu_seconds(stat), Some(1.75));
        assert_eq!(parent(stat), Some(4));
    }

    #[test]
    fn memory_is_read_from_the_status() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmRSS:\t   5120 kB\n";

        assert_eq!(number(status, "VmRSS:"), Some(5_120));
    }

    #[test]
    fn what_was_stolen_is_a_share_of_all_time_of_all_cores() {
        let read = |stat: &str| CoreTicks::read(stat).unwrap();
        let before = read("cpu  1000 0 500 8000 0 0 100 10 700 0\ncpu0 500 0 250 4000 0 0 50 5 0 0\n");
        let after = read("cpu  1040 0 510 8038 0 0 110 12 740 0\ncpu0 520 0 255 4018 0 0 55 7 0 0\n");

        assert_eq!(after.stolen_percent_since(before), 2.0);
        assert_eq!(before.stolen_percent_since(after), 0.0);
        assert_eq!(CoreTicks::read("cpu  1000 0 500 8000\n"), None);
    }

    #[test]
    fn our_own_process_uses_something_and_one_that_is_not_there_has_nothing() {
        let own = usage(std::process::id()).unwrap();
        assert!(own.rss_kib > 0);
        assert_eq!(usage(u32::MAX), None);
    }

    #[test]
    fn a_child_belongs_to_the_family() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();

        let family = family(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();

        assert!(family.contains(&child.id()));
    }
}
