//! What the operating system says of this process, for the page of metrics. What it does not say is left out.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Appends `process_cpu_seconds_total`, `process_resident_memory_bytes` and `process_open_fds`.
pub fn render(page: &mut String) {
    if let Some(cpu) = cpu() {
        append(page, "process_cpu_seconds_total", "counter", "User and system CPU time.", cpu.as_secs_f64());
    }
    if let Some(bytes) = resident_bytes() {
        append(page, "process_resident_memory_bytes", "gauge", "Resident memory.", bytes as f64);
    }
    if let Some(count) = open_descriptors() {
        append(page, "process_open_fds", "gauge", "Open file descriptors.", count as f64);
    }
}

fn append(page: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
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
        render(&mut page);
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(page.contains(&format!("\n{name} ")), "{page}");
        }
    }
}
