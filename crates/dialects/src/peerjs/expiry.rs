//! A client's messages without an outcome, and recipients reported as not reached (`EXPIRE`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Messages without an outcome at which the edge stops reading. Equal to the edge's own limit.
const FULL: usize = 256;
/// Maximum messages without an outcome. A further one is not sent.
const MAX_SENT: usize = 512;
/// Maximum remembered reports. Further ones may repeat.
const MAX_REPORTS: usize = 256;
/// Maximum bytes of a remembered recipient.
const MAX_REPORT_BYTES: usize = 512;
/// Time in which a recipient is reported once.
const QUIET: Duration = Duration::from_secs(1);

/// One client's messages without an outcome, and the latest reports to it.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// Recipients of messages without an outcome, by request id.
    sent: BTreeMap<u64, String>,
    /// Recipients with the times of their reports.
    reports: BTreeMap<String, Instant>,
}

impl Expiry {
    /// Remembers a message until its outcome. `false`: 512 have none, and it must not be sent.
    pub(super) fn sent(&mut self, id: u64, to: &str) -> bool {
        if self.sent.len() >= MAX_SENT {
            return false;
        }
        self.sent.insert(id, to.to_owned());
        true
    }

    /// Forgets a message that has its outcome, and returns its recipient. `None`: the message was
    /// not remembered, or had its outcome before.
    pub(super) fn outcome(&mut self, id: u64) -> Option<String> {
        self.sent.remove(&id)
    }

    /// Returns `true` if the recipient was not reported within the last second. This counts as a
    /// report, unless 256 are remembered or `to` has over 512 bytes.
    pub(super) fn may_report(&mut self, now: Instant, to: &str) -> bool {
        self.reports.retain(|_, reported| now.saturating_duration_since(*reported) < QUIET);
        if self.reports.contains_key(to) {
            return false;
        }
        if self.reports.len() < MAX_REPORTS && to.len() <= MAX_REPORT_BYTES {
            self.reports.insert(to.to_owned(), now);
        }
        true
    }

    /// Returns `true` if the edge must not read further messages: 256 have no outcome.
    pub(super) fn is_full(&self) -> bool {
        self.sent.len() >= FULL
    }

    /// Returns the size of the recipients, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let reports = self.reports.keys().map(|to| to.len() + size_of::<Instant>());
        let sent = self.sent.values().map(|to| to.len() + size_of::<u64>());
        sent.chain(reports).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_recipients_are_bounded() {
        let (mut expiry, now) = (Expiry::default(), Instant::now());
        for n in 0..10_000 {
            assert!(expiry.may_report(now, &n.to_string()));
            assert_eq!(expiry.sent(n, "x"), n < 512);
        }
        assert!(expiry.may_report(now, &"x".repeat(100_000)));
        assert!(expiry.is_full() && expiry.bytes() < 20_000);
        assert_eq!((expiry.outcome(3).as_deref(), expiry.outcome(3)), (Some("x"), None));
    }
}
