//! Figures of this process from the operating system, for `/metrics` and the mesh status, and its
//! limit of open files, which both servers raise at their start.

use std::time::Duration;
use std::{fs, io};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use signaling_metrics::{FloatCounter, Gauge, Publish, metrics, publish_seconds};

metrics! {
    /// Metrics with the standard names of Prometheus clients.
    pub struct ProcessMetrics {
        cpu: FloatCounter = "process_cpu_seconds_total", "User and system CPU time of this process";
        resident: Gauge = "process_resident_memory_bytes", "Resident memory of this process";
        open_fds: Gauge = "process_open_fds", "Open file descriptors of this process";
        max_fds: Gauge = "process_max_fds", "Maximum open file descriptors of this process";
    }
}

/// Raises the limit of open files of this process to the hard limit, and returns that number of
/// descriptors. Each client takes one.
///
/// # Errors
/// If the system refuses. The limit then stays.
pub fn raise_open_files() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// Updates the metrics of this process. A figure that the system does not report becomes 0.
pub(crate) fn publish() {
    publish_seconds(&METRICS.cpu, cpu().unwrap_or_default());
    METRICS.resident.publish(resident_bytes().unwrap_or_default());
    METRICS.open_fds.publish(open_descriptors().unwrap_or_default());
    METRICS.max_fds.publish(getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(limit, _)| limit));
}

/// Returns the user and system CPU time of this process since its start; `None` if unavailable.
pub fn cpu() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// Returns the resident memory of this process in bytes; `None` if `/proc` does not report it.
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
    // Newer kernels report the count as the directory's size: no long list delays the data plane.
    match fs::metadata(DIRECTORY).ok()?.len() {
        0 => Some(fs::read_dir(DIRECTORY).ok()?.count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_kibibytes() {
        assert_eq!(parse_resident("VmPeak:\t   99 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        assert_eq!(parse_resident("VmRSS: x kB"), None);
        assert_eq!(parse_resident(""), None);
    }

    #[test]
    fn limit_in_force_becomes_the_highest_allowed() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(raise_open_files().unwrap(), hard);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn page_has_the_figures_of_this_process() {
        publish();
        assert!(METRICS.open_fds.get() >= 3 && METRICS.resident.get() > 100_000, "{METRICS:?}");
        assert!(signaling_metrics::encode().contains("\nprocess_cpu_seconds_total "));
    }
}
