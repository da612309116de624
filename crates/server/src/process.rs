//! What the operating system says of this process, for the page of metrics. What it does not say is left out.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use signaling_metrics::Metric;

/// Names and meaning are those that all programs share which Prometheus asks.
pub const METRICS: &[Metric] = &[CPU, RESIDENT, OPEN_FDS, MAX_FDS, STARTED];

const CPU: Metric = Metric::counter("process_cpu_seconds_total", "User and system CPU time.");
const RESIDENT: Metric = Metric::gauge("process_resident_memory_bytes", "Resident memory.");
const OPEN_FDS: Metric = Metric::gauge("process_open_fds", "Open file descriptors.");
const MAX_FDS: Metric = Metric::gauge("process_max_fds", "How many there may be.");
const STARTED: Metric =
    Metric::gauge("process_start_time_seconds", "When the process was started, in seconds since 1970.");

/// Appends what this process uses. `started` is the time since 1970.
pub fn render(page: &mut String, started: Duration) {
    let values = [
        (CPU, cpu().map(|time| time.as_secs_f64())),
        (RESIDENT, resident_bytes().map(|bytes| bytes as f64)),
        (OPEN_FDS, open_descriptors().map(|count| count as f64)),
        (MAX_FDS, getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(limit, _)| limit as f64)),
        (STARTED, Some(started.as_secs_f64())),
    ];
    for (Metric { name, kind, help, .. }, value) in values {
        if let Some(value) = value {
            let kind = kind.as_str();
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        }
    }
}

/// User and system CPU time that this process has used.
#[must_use]
pub fn cpu() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// Resident memory of this process, where the system has `/proc`.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    parse_resident(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_resident(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn open_descriptors() -> Option<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    // Newer kernels tell the count as the directory's size; listing ten thousand sockets would hold up the data plane.
    match fs::metadata(DIRECTORY).ok()?.len() {
        0 => Some(fs::read_dir(DIRECTORY).ok()?.count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn resident_memory_is_read_in_kibibytes() {
        assert_eq!(parse_resident("VmPeak:\t   99 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        assert_eq!(parse_resident("VmRSS: x kB"), None);
        assert_eq!(parse_resident(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_page_tells_of_this_process() {
        let (before, memory) = (open_descriptors().unwrap(), resident_bytes().unwrap());
        assert!(before >= 3 && memory > 100_000, "{before} {memory}");
        let mut page = String::new();
        render(&mut page, Duration::from_secs(1));
        for Metric { name, .. } in METRICS {
            assert!(page.contains(&format!("\n{name} ")), "{page}");
        }
    }
}
