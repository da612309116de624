//! The end of a run: what is still under way gets time to arrive.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;

/// After the last message, how long a repeat of one may take to show.
const QUIET: Duration = Duration::from_millis(300);
/// How often to look whether all has arrived.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks every so often until all is settled, at most so long, and waits a little more for repeats.
pub(crate) async fn settle(at_most: Duration, look_every: Duration, mut is_settled: impl FnMut() -> bool) {
    let give_up = Instant::now() + at_most;
    while !is_settled() && Instant::now() < give_up {
        sleep(look_every).await;
    }
    sleep(QUIET).await;
}

/// Tells a run's messages from those of an earlier one that were held for clients of the same names.
pub(crate) fn run_mark() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn it_ends_once_all_is_settled_and_repeats_had_their_time() {
        let (begin, looks) = (Instant::now(), Cell::new(0));
        let is_settled = || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        };

        settle(Duration::from_secs(25), LOOK_EVERY, is_settled).await;

        assert!((2 * LOOK_EVERY + QUIET..Duration::from_secs(20)).contains(&begin.elapsed()));
        assert_eq!(looks.get(), 3);
    }

    #[tokio::test]
    async fn it_gives_up_in_time() {
        let begin = Instant::now();

        settle(Duration::from_millis(30), LOOK_EVERY, || false).await;

        assert!(begin.elapsed() >= Duration::from_millis(30) + QUIET);
    }
}
