//! The runtime that a server runs on.

use std::cell::RefCell;
use std::io;
use std::thread::sleep;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use crate::gather::Coalescer;

thread_local! {
    static GATHER: RefCell<Option<Coalescer>> = const { RefCell::new(None) };
}

/// A runtime of one thread, which lets input gather when it is busy. It is entered from the thread that made it.
///
/// # Errors
/// If the system refuses what it takes.
pub fn runtime(gather: Coalescer) -> io::Result<Runtime> {
    GATHER.set(Some(gather));
    Builder::new_current_thread().enable_all().on_thread_park(rest).on_thread_unpark(resume).build()
}

/// Lets input gather now, if this thread would do so once it has nothing left to do. Says whether it did.
#[must_use]
pub fn let_gather() -> bool {
    let rested = rests();
    resume();
    rested
}

fn rest() {
    rests();
}

#[expect(
    clippy::disallowed_methods,
    reason = "the whole thread is to sleep: no task of it has anything to do, but for what gathers"
)]
fn rests() -> bool {
    let wait = with(|gather| gather.rests(Instant::now())).flatten();
    if let Some(wait) = wait {
        sleep(wait);
    }
    wait.is_some()
}

fn resume() {
    with(|gather| gather.resumes(Instant::now()));
}

/// None on a thread that has made no such runtime.
fn with<R>(tell: impl FnOnce(&mut Coalescer) -> R) -> Option<R> {
    GATHER.with_borrow_mut(|gather| gather.as_mut().map(tell))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::gather::BusyThresholds;

    /// How often it gets to work within a fifth of a second, if it works for a millisecond and rests for one.
    fn turns(gather: Duration) -> usize {
        let mut turns = 0;
        runtime(Coalescer::new(Instant::now(), gather, BusyThresholds { from: 15, until: 7, whole: 15 }))
            .unwrap()
            .block_on(async {
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
    fn a_busy_one_lets_input_gather() {
        let (at_once, gathering) = (turns(Duration::ZERO), turns(Duration::from_millis(10)));
        assert!(
            gathering * 3 / 2 < at_once,
            "{gathering} turns of {at_once}: at most one in 10 ms once it is known to be busy"
        );
    }

    #[test]
    fn one_that_waits_for_others_is_not_busy() {
        let busy = BusyThresholds { from: 50, until: 50, whole: 50 };
        let runtime = runtime(Coalescer::new(Instant::now(), Duration::from_millis(1), busy)).unwrap();
        runtime.block_on(async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        let now = Instant::now();
        resume();
        assert_eq!(with(|gather| gather.rests(now)), Some(None));
    }
}
