//! Messages sent to a reliable client without `received`. The edge's inputs and sweep call it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use signaling_protocol::server::write_receipt_tail;
use signaling_wire::Origin;

use super::output::{Output, Pool};
use crate::ws::encode;

/// Maximum messages without `received`: covers downlink messages of several successive nodes.
const MAX_UNACKNOWLEDGED: usize = 4096;

#[derive(Debug)]
struct Unacknowledged {
    origin: Origin,
    /// Offset of its end in the client's output.
    end: u64,
    written: Option<Instant>,
}

/// The numbers `n` of one socket, from 1 on.
#[derive(Debug, Default)]
pub(super) struct ReceivedTracker {
    received: u64,
    /// Consecutive messages after `received`.
    unacknowledged: VecDeque<Unacknowledged>,
    /// Time of the last `received` with a higher number. `None`: there was none.
    progress: Option<Instant>,
    /// The message that was late at the last check.
    late: u64,
}

impl ReceivedTracker {
    /// Queues a message, with the next number and its name in place of the closing brace.
    pub(super) fn write(&mut self, output: &mut Output, pool: &mut Pool, origin: Origin, payload: &[u8]) {
        let front = payload.strip_suffix(b"}").unwrap_or(payload);
        let mut tail = Vec::with_capacity(64);
        write_receipt_tail(&mut tail, self.sent() + 1, &origin.message_name());
        output.append(pool, |out| encode::text_parts(out, &[front, &tail]));
        self.unacknowledged.push_back(Unacknowledged { origin, end: output.end(), written: None });
    }

    /// Returns the number `n` of the last queued message. 0: none.
    pub(super) fn sent(&self) -> u64 {
        self.received + self.unacknowledged.len() as u64
    }

    /// Returns `true` if the client must send `received` before it gets more messages of clients.
    pub(super) fn is_full(&self) -> bool {
        self.unacknowledged.len() >= MAX_UNACKNOWLEDGED
    }

    /// Returns the number `n` of the last `received`. 0: none.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the value of [`Self::received`] at which the client has the message of this name. If
    /// none waits under the name, that is the present value.
    pub(super) fn needed_for(&self, origin: Origin) -> u64 {
        let at = self.unacknowledged.iter().rposition(|unacknowledged| unacknowledged.origin == origin);
        at.map_or(self.received, |at| self.received + 1 + at as u64)
    }

    /// Returns the number of messages without `received`.
    pub(super) fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Records that the output is written up to the offset `end`. The time to acknowledge starts.
    pub(super) fn wrote(&mut self, now: Instant, end: u64) {
        let from = self.unacknowledged.partition_point(|unacknowledged| unacknowledged.written.is_some());
        let written = self.unacknowledged.range_mut(from..).take_while(|it| it.end <= end);
        written.for_each(|it| it.written = Some(now));
    }

    /// Handles `received` up to `n`. Returns `false` if `n` was not sent.
    pub(super) fn acknowledge(&mut self, now: Instant, n: u64) -> bool {
        if n > self.sent() {
            return false;
        }
        if n > self.received {
            self.progress = Some(now);
        }
        while self.received < n {
            self.received += 1;
            self.unacknowledged.pop_front();
        }
        if self.unacknowledged.is_empty() {
            self.unacknowledged = VecDeque::new();
        }
        true
    }

    /// Restarts the client's time to acknowledge, since its messages were not read until now.
    pub(super) fn not_read(&mut self, now: Instant) {
        self.unacknowledged.iter_mut().filter_map(|it| it.written.as_mut()).for_each(|written| *written = now);
    }

    /// Returns `true` if the client is late at two checks in a row. One check is not enough, since
    /// messages are unread after a process pause.
    ///
    /// A client is late if it was silent for `silence` with a message pending, or has not
    /// acknowledged that message for `longest`.
    pub(super) fn is_late(&mut self, now: Instant, silence: Duration, longest: Duration) -> bool {
        let Some(written) = self.unacknowledged.front().and_then(|it| it.written) else { return false };
        // On a slow link, bytes from the kernel's buffer need long.
        let silent = now.saturating_duration_since(self.progress.map_or(written, |progress| progress.max(written)));
        if silent < silence && now.saturating_duration_since(written) < longest {
            return false;
        }
        std::mem::replace(&mut self.late, self.received + 1) == self.received + 1
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::{MessageNumber, SessionId};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(20);

    /// A tracker with this many messages of one sender, all written to the socket at `now`.
    fn sent(now: Instant, count: u64) -> ReceivedTracker {
        let (mut tracker, mut output, mut pool) = (ReceivedTracker::default(), Output::default(), Pool::default());
        let origin = |number| Origin { session: SessionId([1; 16]), number: MessageNumber(number) };
        (1..=count).for_each(|number| tracker.write(&mut output, &mut pool, origin(number), b"{}"));
        tracker.wrote(now, output.end());
        tracker
    }

    #[test]
    fn client_without_received_is_late_at_the_second_check() {
        let now = Instant::now();
        let mut tracker = sent(now, 2);
        assert!(!tracker.is_late(now + Duration::from_millis(4999), LIMIT, LONGEST));
        assert!(!tracker.is_late(now + LIMIT, LIMIT, LONGEST), "its `received` may still be unread");
        assert!(tracker.acknowledge(now, 1));
        assert!(!tracker.is_late(now + LIMIT, LIMIT, LONGEST), "the next message needs two checks too");
        assert!(tracker.is_late(now + LIMIT, LIMIT, LONGEST));
        assert!(tracker.acknowledge(now + LIMIT, 2));
        assert!(!tracker.is_late(now + 9 * LIMIT, LIMIT, LONGEST), "nothing is unacknowledged");
    }

    #[test]
    fn client_is_not_late_while_it_says_received_now_and_then() {
        let now = Instant::now();
        let mut tracker = sent(now, 6);
        for second in [4, 8, 12, 16] {
            let now = now + Duration::from_secs(second);
            assert!([0, 1].map(|_| tracker.is_late(now, LIMIT, LONGEST)) == [false, false], "after {second} s");
            assert!(tracker.acknowledge(now, second / 4));
        }
        let late = now + LONGEST;
        assert_eq!([0, 1].map(|_| tracker.is_late(late, LIMIT, LONGEST)), [false, true], "the fifth is too old");
    }
}
