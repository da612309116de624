//! Log lines of refused connects: one per reason and address in 10 minutes, and few for all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use signaling_core::edge::{Rate, TokenBucket};
use signaling_protocol::ClientId;
use tracing::info;

use crate::admission::network;

/// Time without a further line of the same reason and address.
const QUIET_TIME: Duration = Duration::from_mins(10);
/// Lines of all reasons and addresses.
const LINES: Rate = Rate { per_second: 1, burst: 20 };
/// Maximum pairs of a reason and an address that are remembered: [`LINES`] in [`QUIET_TIME`].
const MAX_PAIRS: usize = 620;

/// Refusals that were logged.
#[derive(Debug)]
pub(super) struct RefusalLog {
    logged: HashMap<(IpAddr, String), Instant>,
    lines: TokenBucket,
    /// Refusals without a line since the last line.
    unlogged: u64,
}

impl RefusalLog {
    pub(super) fn new(now: Instant) -> Self {
        Self { logged: HashMap::new(), lines: TokenBucket::full(now), unlogged: 0 }
    }

    /// Logs the refusal of a connect, unless this reason and network were logged shortly before, or
    /// too many others were. `client` returns the client id; `None`: it is not known.
    pub(super) fn record(
        &mut self,
        now: Instant,
        address: IpAddr,
        reason: &str,
        client: impl FnOnce() -> Option<ClientId>,
    ) {
        if let Some(unlogged) = self.is_due(now, address, reason) {
            let client = client().map(tracing::field::display);
            info!(%address, client, reason, unlogged, "connect refused");
        }
    }

    /// Returns the number of refusals without a line since the last one. `None`: no line is due.
    fn is_due(&mut self, now: Instant, address: IpAddr, reason: &str) -> Option<u64> {
        let is_quiet = |at: &Instant| now < *at + QUIET_TIME;
        let pair = (network(address), reason.to_owned());
        if self.logged.get(&pair).is_some_and(is_quiet) || !self.lines.take(now, LINES, 1) {
            self.unlogged += 1;
            return None;
        }
        if self.logged.len() >= MAX_PAIRS {
            self.logged.retain(|_, at| is_quiet(at));
        }
        self.logged.insert(pair, now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn refusal_is_logged_once_per_reason_and_address() {
        let start = Instant::now();
        let mut log = RefusalLog::new(start);
        let due = [(1, "a"), (1, "a"), (1, "a"), (1, "b"), (2, "a")].map(|(n, why)| log.is_due(start, address(n), why));
        assert_eq!(due, [Some(0), None, None, Some(2), Some(0)]);
        assert_eq!(log.is_due(start + QUIET_TIME, address(1), "a"), Some(0));
    }

    #[test]
    fn refusals_of_many_addresses_are_logged_at_a_rate() {
        let start = Instant::now();
        let mut log = RefusalLog::new(start);
        let mut lines = 0;
        for second in 0..2_000 {
            let now = start + Duration::from_secs(second);
            lines += (0..100).filter(|n| log.is_due(now, address(n + 100 * second as u32), "a").is_some()).count();
        }
        assert!((2_000..=2_020).contains(&lines), "{lines}");
        assert!(log.logged.len() <= MAX_PAIRS, "{}", log.logged.len());
    }
}
