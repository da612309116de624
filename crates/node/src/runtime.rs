//! The runtime that a node runs on.

use std::cell::RefCell;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::gather::Gather;

thread_local! {
    static GATHER: RefCell<Option<Gather>> = const { RefCell::new(None) };
}

/// A runtime of one thread, which lets input gather for so long when it is busy. It is entered from the thread that made it.
///
/// # Errors
/// If the system refuses what it takes.
pub fn runtime(gather: Duration) -> io::Result<Runtime> {
    GATHER.set(Some(Gather::new(Instant::now(), gather)));
    Builder::new_current_thread().enable_all().on_thread_park(rest).on_thread_unpark(resume).build()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the whole thread is to sleep: no task of it has anything to do, but for what gathers"
)]
fn rest() {
    let wait = GATHER.with_borrow_mut(|gather| gather.as_mut()?.rests(Instant::now()));
    if let Some(wait) = wait {
        sleep(wait);
    }
}

fn resume() {
    GATHER.with_borrow_mut(|gather| {
        if let Some(gather) = gather {
            gather.resumes(Instant::now());
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// How often it gets to work within a fifth of a second, if it works for a millisecond and rests for one.
    fn turns(gather: Duration) -> usize {
        let mut turns = 0;
        runtime(gather).unwrap().block_on(async {
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
        let turns = turns(Duration::from_millis(10));
        assert!(turns < 40, "{turns}: some before it is known to be busy, and then at most one in 10 ms");
    }
}
