//! What a reliable client was sent on its socket, and how much of it the client has said `received` for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use signaling_protocol::server::write_receipt_tail;
use signaling_wire::Origin;

use super::output::{Output, Pool};
use crate::ws::encode;

/// Maximum messages without a receipt: what several nodes in a row may have down at once.
const MAX_UNSAID: usize = 4096;

/// A message that the client has not said `received` for.
#[derive(Debug)]
struct Unacknowledged {
    origin: Origin,
    /// The client's output must have been written up to here.
    end: u64,
    written: Option<Instant>,
}

/// Why a `received` makes no sense: nothing with this number was sent yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotSent;

/// The numbers `n` of one socket, from 1 on.
#[derive(Debug, Default)]
pub(super) struct ReceivedTracker {
    received: u64,
    /// What came after that, without a gap.
    unsaid: VecDeque<Unacknowledged>,
    /// When the client's last `received` brought news; `None` before the first one.
    progress: Option<Instant>,
    /// The one that was late when somebody looked last.
    late: u64,
}

impl ReceivedTracker {
    /// Queues a message with the next number, and its name, in place of its closing brace.
    pub(super) fn write(&mut self, output: &mut Output, pool: &mut Pool, origin: Origin, payload: &[u8]) {
        let front = payload.strip_suffix(b"}").unwrap_or(payload);
        let mut tail = Vec::with_capacity(64);
        write_receipt_tail(&mut tail, self.sent() + 1, &origin.message_name());
        output.append(pool, |out| encode::text_parts(out, &[front, &tail]));
        self.unsaid.push_back(Unacknowledged { origin, end: output.end(), written: None });
    }

    /// How many were sent.
    pub(super) fn sent(&self) -> u64 {
        self.received + self.unsaid.len() as u64
    }

    /// Returns `true` if no further message may be sent before the client has said `received`.
    pub(super) fn are_many(&self) -> bool {
        self.unsaid.len() >= MAX_UNSAID
    }

    /// How many of them the client has.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// How many the client must have before it has this message, which it was sent before.
    pub(super) fn needed_for(&self, origin: Origin) -> u64 {
        let at = self.unsaid.iter().rposition(|unsaid| unsaid.origin == origin);
        at.map_or(self.received, |at| self.received + 1 + at as u64)
    }

    /// How many messages wait for the client's word.
    pub(super) fn unsaid(&self) -> usize {
        self.unsaid.len()
    }

    /// The client's output has been written up to `end`: for what is in it, the client's time runs.
    pub(super) fn wrote(&mut self, now: Instant, end: u64) {
        let from = self.unsaid.partition_point(|unsaid| unsaid.written.is_some());
        for unsaid in self.unsaid.range_mut(from..).take_while(|unsaid| unsaid.end <= end) {
            unsaid.written = Some(now);
        }
    }

    /// The client says that it has everything up to `n`.
    pub(super) fn say(&mut self, now: Instant, n: u64) -> Result<(), NotSent> {
        if n > self.sent() {
            return Err(NotSent);
        }
        if n > self.received {
            self.progress = Some(now);
        }
        while self.received < n {
            self.received += 1;
            self.unsaid.pop_front();
        }
        if self.unsaid.is_empty() {
            self.unsaid = VecDeque::new();
        }
        Ok(())
    }

    /// The client was not read until now: what it said, nobody has heard.
    pub(super) fn not_read(&mut self, now: Instant) {
        self.unsaid.iter_mut().filter_map(|unsaid| unsaid.written.as_mut()).for_each(|written| *written = now);
    }

    /// Whether the client has said nothing for `silence` while a message waits for its word, or
    /// nothing of this message for `longest`, and still has not when asked again: when this process
    /// was paused, what the client said meanwhile has not been read at the first look.
    pub(super) fn is_late(&mut self, now: Instant, silence: Duration, longest: Duration) -> bool {
        let Some(written) = self.unsaid.front().and_then(|unsaid| unsaid.written) else { return false };
        // Behind a slow link, what the kernel took may be on its way for long.
        let silent = now.saturating_duration_since(self.progress.map_or(written, |progress| progress.max(written)));
        if silent < silence && now.saturating_duration_since(written) < longest {
            return false;
        }
        std::mem::replace(&mut self.late, self.received + 1) == self.received + 1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use signaling_wire::SessionId;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(20);

    fn origin(number: u64) -> Origin {
        Origin { session: SessionId([1; 16]), number }
    }

    /// Of these numbers of one sender, all written to the socket at `now`.
    fn sent(now: Instant, numbers: &[u64]) -> ReceivedTracker {
        let (mut receipts, mut output, mut pool) = (ReceivedTracker::default(), Output::default(), Pool::default());
        numbers.iter().for_each(|number| receipts.write(&mut output, &mut pool, origin(*number), b"{}"));
        receipts.wrote(now, output.end());
        receipts
    }

    #[test]
    fn each_message_carries_its_number_on_the_socket_and_its_name() {
        let (mut receipts, mut output, mut pool) = (ReceivedTracker::default(), Output::default(), Pool::default());
        receipts.write(&mut output, &mut pool, origin(10), br#"{"type":"signal"}"#);
        let text = br#"{"type":"signal","n":1,"m":"AQEBAQEBAQEBAQEBAQEBAQ-a"}"#;
        assert_eq!(output.pending().split_at(2), (&[0x81, text.len() as u8][..], &text[..]));
    }

    #[test]
    fn one_receipt_does_for_all_below_it_and_an_older_one_changes_nothing() {
        let now = Instant::now();
        let mut receipts = sent(now, &[7, 8, 9]);
        assert_eq!((receipts.received(), receipts.needed_for(origin(8))), (0, 2));
        assert_eq!(receipts.say(now, 2), Ok(()));
        assert_eq!(receipts.say(now, 1), Ok(()));
        assert_eq!((receipts.received(), receipts.sent()), (2, 3));
        assert_eq!(receipts.needed_for(origin(8)), 2, "it has been received");
        assert_eq!(receipts.needed_for(origin(9)), 3);
        assert_eq!(receipts.say(now, 4), Err(NotSent));
        assert_eq!(receipts.received(), 2);
    }

    #[test]
    fn who_says_nothing_in_time_is_late_at_the_second_look() {
        let now = Instant::now();
        let mut receipts = sent(now, &[1, 2]);
        assert!(!receipts.is_late(now + Duration::from_millis(4999), LIMIT, LONGEST));
        assert!(!receipts.is_late(now + LIMIT, LIMIT, LONGEST), "what it said may still be unread");
        receipts.say(now, 1).unwrap();
        assert!(!receipts.is_late(now + LIMIT, LIMIT, LONGEST), "another message, another look");
        assert!(receipts.is_late(now + LIMIT, LIMIT, LONGEST));
        receipts.say(now + LIMIT, 2).unwrap();
        assert!(!receipts.is_late(now + 9 * LIMIT, LIMIT, LONGEST), "nothing is unsaid");
    }

    #[test]
    fn client_is_not_late_while_it_says_received_now_and_then() {
        let now = Instant::now();
        let mut receipts = sent(now, &[1, 2, 3, 4, 5, 6]);
        for second in [4, 8, 12, 16] {
            let now = now + Duration::from_secs(second);
            assert!([0, 1].map(|_| receipts.is_late(now, LIMIT, LONGEST)) == [false, false], "after {second} s");
            receipts.say(now, second / 4).unwrap();
        }
        let late = now + LONGEST;
        assert_eq!([0, 1].map(|_| receipts.is_late(late, LIMIT, LONGEST)), [false, true], "the fifth is too old");
    }

    #[test]
    fn a_clients_time_does_not_run_before_its_socket_took_the_message() {
        let now = Instant::now();
        let (mut receipts, mut output, mut pool) = (ReceivedTracker::default(), Output::default(), Pool::default());
        receipts.write(&mut output, &mut pool, origin(1), b"{}");
        receipts.wrote(now, output.end() - 1);
        assert!((0..2).all(|_| !receipts.is_late(now + 2 * LIMIT, LIMIT, LONGEST)));
        receipts.wrote(now + LIMIT, output.end());
        assert_eq!([0, 1].map(|_| receipts.is_late(now + 2 * LIMIT, LIMIT, LONGEST)), [false, true]);
    }
}
