//! The runtime of a server.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::coalescer::Coalescer;

/// Builds a runtime of one thread that coalesces input when busy. The calling thread must enter it.
///
/// # Errors
/// If the system refuses the resources.
pub fn runtime(coalescer: &Coalescer) -> io::Result<Runtime> {
    let (idle, wake) = (coalescer.clone(), coalescer.clone());
    let mut builder = Builder::new_current_thread();
    builder.enable_all().on_thread_unpark(move || wake.on_wake()).on_thread_park(move || {
        idle.on_idle();
    });
    builder.build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{Duration, Instant};

    use super::*;
    use crate::coalescer::BusyThresholds;

    /// Returns the turns within 200 ms of a task that works for 1 ms and sleeps for 1 ms.
    fn turns(max_delay: Duration) -> usize {
        let mut turns = 0;
        let busy = BusyThresholds { enter: 15, exit: 7, full_delay_percent: 15 };
        runtime(&Coalescer::new(max_delay, busy)).unwrap().block_on(async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(200) {
                let turn = Instant::now();
                while turn.elapsed() < Duration::from_millis(1) {}
                turns += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        turns
    }

    #[test]
    fn busy_runtime_coalesces_input() {
        let (immediate, coalesced) = (turns(Duration::ZERO), turns(Duration::from_millis(10)));
        assert!(coalesced * 3 / 2 < immediate, "{coalesced} turns instead of {immediate}");
    }

    #[test]
    fn runtime_that_waits_for_timers_is_idle() {
        let coalescer =
            Coalescer::new(Duration::from_millis(1), BusyThresholds { enter: 50, exit: 50, full_delay_percent: 50 });
        runtime(&coalescer).unwrap().block_on(async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        assert!(!coalescer.coalesce_now());
    }
}
