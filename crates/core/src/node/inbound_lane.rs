//! The lane from one peer node: its present exchange, executed batches, and acknowledgements.
//!
//! A lane is the ordered stream of numbered batches between two nodes. An exchange is one HTTP
//! request with batches, and its response with acknowledgements. In the next exchange the peer
//! sends the batches without an acknowledgement again. `peers` has one inbound lane per peer.

use std::time::{Duration, Instant};

use signaling_wire::lane::Acknowledgement;
use signaling_wire::{BatchNumber, Elapsed, ExchangeNumber, Incarnation};

use crate::lateness::{Lateness, TooLate};

/// Maximum delay of an acknowledgement: half of the time after which the peer's lane is stalled.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(500);
/// Interval of repeated acknowledgements while no batch arrives. They show that this node is alive.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_secs(1);
/// Received batches, and bytes of them, that are acknowledged at once: a quarter of the window,
/// which limits a peer's batches without an acknowledgement.
const PROMPT_BATCHES: usize = signaling_wire::limits::MAX_WINDOW_BATCHES / 4;
const PROMPT_BYTES: usize = signaling_wire::limits::MAX_WINDOW_BYTES / 4;

/// The lane from one peer.
#[derive(Debug, Default)]
pub(super) struct InboundLane {
    /// Random id of the peer's process. `None`: no exchange was opened yet.
    incarnation: Option<Incarnation>,
    /// Number of the last exchange of this incarnation.
    exchange: ExchangeNumber,
    is_open: bool,
    /// `None`: no exchange was opened yet.
    lateness: Option<Lateness>,
    /// The last executed batch of this incarnation. 0: none.
    last: BatchNumber,
    /// Batches received since the last acknowledgement, their bytes, and the time of the first one.
    /// Duplicates count too.
    batches: usize,
    bytes: usize,
    since: Option<Instant>,
    /// `true` if the peer's lane was idle: its batch without items is acknowledged at once.
    is_beat: bool,
    /// Time of the last acknowledgement that named the peer. `None`: never.
    named: Option<Instant>,
    /// Time of the last acknowledgement. `None`: none in this exchange.
    acknowledged: Option<Instant>,
}

impl InboundLane {
    /// Opens an exchange in place of the last one. A new incarnation of the peer starts its batch
    /// numbers again. Returns `false` and changes nothing if this or a later exchange of the same
    /// incarnation was opened.
    pub(super) fn open(&mut self, now: Instant, incarnation: Incarnation, exchange: ExchangeNumber) -> bool {
        let is_known = self.incarnation == Some(incarnation);
        if is_known && exchange <= self.exchange {
            return false;
        }
        let last = if is_known { self.last } else { BatchNumber::default() };
        let named = self.named;
        *self = Self { incarnation: Some(incarnation), exchange, is_open: true, last, named, ..Self::default() };
        self.lateness = Some(Lateness::new(now));
        true
    }

    /// Returns `true` if this exchange is open.
    pub(super) fn has(&self, incarnation: Incarnation, exchange: ExchangeNumber) -> bool {
        self.is_open && self.incarnation == Some(incarnation) && self.exchange == exchange
    }

    /// Returns `true` if an exchange is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Ends the exchange. The number of the last executed batch stays.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Measures a batch with this time. Returns how late it is.
    ///
    /// # Errors
    /// If it is more than 5 s late. That closes the exchange, and the next one sends the batch
    /// again.
    pub(super) fn measure(&mut self, now: Instant, elapsed: Elapsed) -> Result<Duration, TooLate> {
        let lateness = self.lateness.get_or_insert_with(|| Lateness::new(now));
        lateness.measure(now, elapsed).inspect_err(|_| self.is_open = false)
    }

    /// Returns the time of the last acknowledgement that named the peer. `None`: never.
    pub(super) fn named(&self) -> Option<Instant> {
        self.named
    }

    /// Makes an acknowledgement due: the peer's lane is idle, and it needs a prompt answer.
    pub(super) fn on_beat(&mut self) {
        self.is_beat = true;
    }

    /// Records a batch of the open exchange, with its bytes. Returns `true` if the caller must
    /// execute it: from then on it counts as executed. Returns `false` if it or a later one has
    /// been executed.
    pub(super) fn receive(&mut self, now: Instant, number: BatchNumber, bytes: usize) -> bool {
        self.batches += 1;
        self.bytes += bytes;
        self.since.get_or_insert(now);
        let is_new = number > self.last;
        self.last = self.last.max(number);
        is_new
    }

    /// Takes the acknowledgement that is due: the number of the last executed batch, or 0 if none
    /// was executed. It acknowledges all batches up to this number. `names_you`: the view has the
    /// peer.
    ///
    /// It is due at once in a new exchange and after a batch without items, and 1 s after the last
    /// acknowledgement. With batches it is due 0.5 s after the first one, or at 64 batches or 256
    /// KiB. `None`: it is not due, or no exchange is open.
    pub(super) fn take_acknowledgement(&mut self, now: Instant, names_you: bool) -> Option<Acknowledgement> {
        let is_over =
            |since: Option<Instant>, limit| since.is_some_and(|since| now.saturating_duration_since(since) >= limit);
        let is_due = self.batches >= PROMPT_BATCHES
            || self.bytes >= PROMPT_BYTES
            || self.is_beat
            || is_over(self.since, ACKNOWLEDGE_AFTER)
            || self.acknowledged.is_none()
            || is_over(self.acknowledged, ACKNOWLEDGE_INTERVAL);
        if !self.is_open || !is_due {
            return None;
        }
        (self.batches, self.bytes, self.since, self.acknowledged) = (0, 0, None, Some(now));
        self.is_beat = false;
        if names_you {
            self.named = Some(now);
        }
        Some(Acknowledgement { number: self.last, names_you })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Incarnation = Incarnation([1; 8]);
    const B: Incarnation = Incarnation([2; 8]);

    fn acknowledged(lane: &mut InboundLane, now: Instant) -> Option<BatchNumber> {
        lane.take_acknowledgement(now, true).map(|of| of.number)
    }

    fn opened(now: Instant) -> InboundLane {
        let mut lane = InboundLane::default();
        assert!(lane.open(now, A, ExchangeNumber(1)));
        assert_eq!(acknowledged(&mut lane, now), Some(BatchNumber(0)), "it shows at once that the node is alive");
        lane
    }

    #[test]
    fn only_the_latest_exchange_of_an_incarnation_is_open() {
        let now = Instant::now();
        let mut lane = opened(now);
        assert!(lane.open(now, A, ExchangeNumber(3)));
        assert!(!lane.open(now, A, ExchangeNumber(2)));
        assert!(lane.has(A, ExchangeNumber(3)) && !lane.has(A, ExchangeNumber(1)));
        assert!(lane.open(now, B, ExchangeNumber(1)));
        assert!(!lane.has(A, ExchangeNumber(3)));
        lane.close();
        assert!(!lane.has(B, ExchangeNumber(1)));
    }

    #[test]
    fn batch_is_executed_once_in_all_exchanges_of_an_incarnation() {
        let now = Instant::now();
        let mut lane = opened(now);
        assert!(lane.receive(now, BatchNumber(5), 9));
        assert!(lane.open(now, A, ExchangeNumber(2)));
        assert!(!lane.receive(now, BatchNumber(5), 9));
        assert!(lane.receive(now, BatchNumber(6), 9));
        assert!(lane.open(now, B, ExchangeNumber(1)));
        assert!(lane.receive(now, BatchNumber(1), 9), "a restarted node counts from 1");
    }

    #[test]
    fn acknowledgement_waits_for_more_batches_and_repeats_when_idle() {
        let now = Instant::now();
        let mut lane = opened(now);
        lane.receive(now, BatchNumber(1), 9);
        assert_eq!(acknowledged(&mut lane, now + ACKNOWLEDGE_AFTER / 2), None);
        assert_eq!(acknowledged(&mut lane, now + ACKNOWLEDGE_AFTER), Some(BatchNumber(1)));
        assert_eq!(acknowledged(&mut lane, now + ACKNOWLEDGE_INTERVAL), None);
        assert_eq!(acknowledged(&mut lane, now + ACKNOWLEDGE_INTERVAL + ACKNOWLEDGE_AFTER), Some(BatchNumber(1)));
        for number in 2..2 + PROMPT_BATCHES as u64 {
            lane.receive(now, BatchNumber(number), 9);
        }
        assert_eq!(acknowledged(&mut lane, now), Some(BatchNumber(1 + PROMPT_BATCHES as u64)));
        lane.receive(now, BatchNumber(999), PROMPT_BYTES);
        assert_eq!(acknowledged(&mut lane, now), Some(BatchNumber(999)));
        lane.close();
        assert_eq!(acknowledged(&mut lane, now + ACKNOWLEDGE_INTERVAL * 9), None);
    }

    #[test]
    fn batch_without_items_is_acknowledged_at_once() {
        let now = Instant::now();
        let mut lane = opened(now);
        lane.receive(now, BatchNumber(1), 9);
        assert_eq!(acknowledged(&mut lane, now), None);
        lane.on_beat();
        assert_eq!([(); 2].map(|()| acknowledged(&mut lane, now)), [Some(BatchNumber(1)), None]);
    }

    #[test]
    fn time_of_the_last_name_outlives_the_exchange() {
        let now = Instant::now();
        let mut lane = opened(now);
        assert!(lane.open(now, A, ExchangeNumber(2)));
        assert_eq!(lane.named(), Some(now));
        lane.take_acknowledgement(now + ACKNOWLEDGE_INTERVAL, false);
        assert_eq!(lane.named(), Some(now), "the view has lost the peer");
    }
}
