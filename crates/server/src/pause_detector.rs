//! Detection of process pauses: the process was stopped or starved, or its machine suspended.
//! [`since_boot`] is the clock. Shells of edges and nodes call [`PauseDetector::beat`] each turn.

use std::time::Duration;

use signaling_wire::limits;

/// Time at which this process last ran, since boot ([`since_boot`]).
#[derive(Debug)]
pub struct PauseDetector(Duration);

impl PauseDetector {
    /// Creates a detector for a process that runs now. `now` is a time of [`since_boot`].
    pub fn new(now: Duration) -> Self {
        Self(now)
    }

    /// Records that the process runs. Returns the time since the last call, or since the creation,
    /// if it is 2 s or more: other servers may have suspected this one. Else `None`.
    pub fn beat(&mut self, now: Duration) -> Option<Duration> {
        let paused = now.saturating_sub(std::mem::replace(&mut self.0, now));
        (paused >= limits::SUSPECT_AFTER).then_some(paused)
    }
}

/// Returns the time since the machine booted. It includes suspension, unlike `Instant` on Linux.
#[cfg(target_os = "linux")]
pub fn since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    // Fails only on kernels without this clock, before 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// Returns the time since its first call, a substitute for the time since boot.
#[cfg(not(target_os = "linux"))]
pub fn since_boot() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_reported_once_when_others_noticed_it() {
        let start = Duration::from_secs(1_000);
        let mut detector = PauseDetector::new(start);
        let soon = start + limits::SUSPECT_AFTER - Duration::from_millis(1);
        assert_eq!(detector.beat(soon), None);
        let late = soon + limits::SUSPECT_AFTER;
        assert_eq!(detector.beat(late), Some(limits::SUSPECT_AFTER));
        assert_eq!(detector.beat(late), None);
    }

    /// A test cannot suspend the machine. A time namespace makes the clocks differ as after a
    /// suspension. Where the system refuses one, the test prints that it is skipped.
    #[cfg(target_os = "linux")]
    #[test]
    fn pause_clock_runs_on_while_the_machine_is_suspended() {
        use std::process::Command;

        use nix::time::{ClockId, clock_gettime};
        const SUSPENDED: Duration = Duration::from_secs(1_000);
        const INSIDE: &str = "SIGNALING_TEST_IN_TIME_NAMESPACE";
        const THIS: &str = "pause_detector::tests::pause_clock_runs_on_while_the_machine_is_suspended";
        let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        if std::env::var_os(INSIDE).is_some() {
            assert!(since_boot() >= monotonic + SUSPENDED);
            return;
        }
        assert!(monotonic > Duration::ZERO && since_boot() >= monotonic);
        let unshare = || {
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", "--time", "--boottime"]).arg(SUSPENDED.as_secs().to_string());
            unshare
        };
        if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
            println!("skipped: this system does not permit a time namespace");
            return;
        }
        let this = std::env::current_exe().unwrap();
        let output = unshare().arg(this).args(["--exact", THIS]).env(INSIDE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
