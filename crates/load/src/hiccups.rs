//! When the machine itself stood still. The host of a virtual machine may stop its cores for many milliseconds, and `/proc/stat` need
//! not count that as stolen. As jHiccup does it: who sleeps, and is the most urgent of all, can only be woken late by the machine.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::clock::Clock;

/// How long each sleep is: a shorter one finds more, and disturbs more who is measured.
const SLEEP_US: u64 = 4_000;
/// Who is woken no later than this may have waited for an interrupt to be served; the heaviest load makes nobody later.
const MIN_LATE_US: u64 = 500;
/// This thread itself, to the calls that ask whose cores are meant.
const SELF: Pid = Pid::from_raw(0);

/// Watches all cores that this process may use, a thread for each.
pub(crate) struct HiccupMeter {
    watchers: Vec<Watcher>,
}

struct Watcher {
    thread: JoinHandle<Option<Vec<Range<u64>>>>,
    /// The thread ends with it.
    _running: SyncSender<()>,
}

/// For each core, when it stood still, in the order of time: microseconds of the clock that was given to the meter.
struct Hiccups {
    by_core: Vec<Vec<Range<u64>>>,
}

impl HiccupMeter {
    /// # Errors
    /// When the system has no threads left.
    pub(crate) fn start(clock: Clock) -> Result<Self> {
        let cores = sched_getaffinity(SELF).context("cannot read which cores may be used")?;
        let cores = (0..CpuSet::count()).filter(|core| cores.is_set(*core).unwrap_or(false));
        let watchers = cores.map(|core| watcher(core, clock)).collect::<io::Result<_>>();
        Ok(Self { watchers: watchers.context("cannot start a thread")? })
    }

    /// The share of the machine's time within `time_us` in which its cores stood still, at least, in percent; `None` where the system
    /// lets nobody be that urgent, which takes root or `CAP_SYS_NICE`.
    pub(crate) fn finish(self, time_us: &Range<u64>) -> Option<f64> {
        let threads: Vec<_> = self.watchers.into_iter().map(|watcher| watcher.thread).collect();
        let by_core = threads.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Option<_>>()?;
        Some(Hiccups { by_core }.percent(time_us))
    }
}

/// A line for people; empty where nothing is known.
pub(crate) fn line(stood_percent: Option<f64>) -> String {
    stood_percent.map_or_else(String::new, |percent| format!("machine     stood still {percent:.2}% of the time\n"))
}

fn watcher(core: usize, clock: Clock) -> io::Result<Watcher> {
    let (running, end) = sync_channel(1);
    let thread = thread::Builder::new().name(format!("hiccups-{core}")).spawn(move || watch(core, clock, &end))?;
    Ok(Watcher { thread, _running: running })
}

fn watch(core: usize, clock: Clock, end: &Receiver<()>) -> Option<Vec<Range<u64>>> {
    let mut own = CpuSet::new();
    own.set(core).ok()?;
    sched_setaffinity(SELF, &own).ok()?;
    let first_in_first_out = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Max, first_in_first_out).ok()?;
    let mut hiccups = Vec::new();
    let mut due_us = clock.now_us() + SLEEP_US;
    while end.recv_timeout(Duration::from_micros(SLEEP_US)) == Err(RecvTimeoutError::Timeout) {
        let now_us = clock.now_us();
        hiccups.extend(hiccup(due_us, now_us));
        due_us = now_us + SLEEP_US;
    }
    Some(hiccups)
}

/// The time in which a core stood still whose watcher was to be woken at `due_us`, and was at `woken_us`.
fn hiccup(due_us: u64, woken_us: u64) -> Option<Range<u64>> {
    (woken_us > due_us + MIN_LATE_US).then_some(due_us..woken_us)
}

impl Hiccups {
    /// The share of all cores' time within `time_us` in which they stood still, in percent. It was at least that: how long a core had
    /// stood when its watcher was to be woken is not known.
    fn percent(&self, time_us: &Range<u64>) -> f64 {
        let overlap = |it: &Range<u64>| it.end.min(time_us.end).saturating_sub(it.start.max(time_us.start));
        let stood_us: u64 = self.by_core.iter().flatten().map(overlap).sum();
        let all_us = time_us.end.saturating_sub(time_us.start) * self.by_core.len() as u64;
        if all_us == 0 { 0.0 } else { stood_us as f64 * 100.0 / all_us as f64 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn who_is_woken_a_little_late_has_seen_nothing() {
        assert_eq!(hiccup(10_000, 9_000), None);
        assert_eq!(hiccup(10_000, 10_500), None);
        assert_eq!(hiccup(10_000, 10_501), Some(10_000..10_501));
    }

    #[test]
    fn what_counts_is_the_share_of_all_cores_within_the_time_asked_for() {
        let hiccups = Hiccups { by_core: vec![vec![0..5_000, 90_000..110_000], vec![100_000..103_000]] };

        assert_eq!(hiccups.percent(&(100_000..200_000)), 6.5);
        assert_eq!(hiccups.percent(&(200_000..300_000)), 0.0);
        assert_eq!(hiccups.percent(&(100_000..100_000)), 0.0);
    }

    #[test]
    fn people_are_told_what_is_known() {
        assert_eq!(line(Some(0.254)), "machine     stood still 0.25% of the time\n");
        assert_eq!(line(None), "");
    }

    #[test]
    fn a_meter_watches_every_core_and_ends() {
        let clock = Clock::start();
        let meter = HiccupMeter::start(clock).unwrap();
        assert_eq!(meter.watchers.len(), thread::available_parallelism().unwrap().get());
        thread::park_timeout(Duration::from_millis(20));

        let percent = meter.finish(&(0..clock.now_us()));

        assert!(percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{percent:?}");
    }
}
