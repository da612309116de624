//! The lane to a peer: queued items, and a window of batches without an acknowledgement. Items
//! other than envelopes and outcomes are notes.
//!
//! A lane sends its batches in one exchange after another. When an exchange ends, the next one
//! sends the whole window again, with the same numbers and the present TTLs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::edge::FlushUrgency;
use crate::lateness::BEAT_INTERVAL;
use rustc_hash::FxHashSet;
use signaling_protocol::NodeId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{self, EnvelopeOutcome, Item, QueueId};
use signaling_wire::{BatchNumber, Batches, Elapsed, ExchangeNumber, MessageNumber, Origin, lane, limits};

use super::envelope_queue::{EnvelopeQueue, QueuedEnvelope};

/// Bytes of queued envelopes at which a lane takes no further one, which then depends on
/// retransmissions. Notes have the same limit of their own.
pub(super) const MAX_WAITING: usize = 8 * 1024 * 1024;
/// As [`MAX_WAITING`], for envelopes of broadcasts: they leave room for those to one client.
const MAX_WAITING_BULK: usize = MAX_WAITING / 2;
/// A lane is stalled if it has had no open exchange for this time, or its oldest batch has had no
/// acknowledgement. Retransmissions would only pile up in it.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Time without progress after which a lane's exchange ends.
const CUT_AFTER: Duration = Duration::from_secs(2);
/// Maximum outcomes queued in a lane. Beyond it they depend on retransmissions.
const MAX_OUTCOMES: usize = 128 * 1024;
/// Maximum outcomes of a batch.
const BATCH_OUTCOMES: usize = 4096;
/// Usual bytes of an outcome in a batch.
const OUTCOME_BYTES: usize = 16;

/// An outcome for the sender's node. Until the peer has it, it answers retransmissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueuedOutcome {
    /// The message and the hash of its recipient. `None` at nodes that do not expect the recipient.
    pub(super) message: Option<(Origin, KeyHash)>,
    /// The message's outbound queue, at the sender's node.
    pub(super) queue_id: QueueId,
    /// The message's number in its sender's session.
    pub(super) number: MessageNumber,
    pub(super) outcome: EnvelopeOutcome,
    /// Nodes after the peer on the way back, starting with the sender's node.
    pub(super) via: Box<[NodeId]>,
}

impl QueuedOutcome {
    fn append(&self, out: &mut Vec<u8>) {
        let Self { queue_id, number, outcome, .. } = *self;
        let via = self.via.iter().map(NodeId::as_str).collect();
        Item::Outcome { queue_id, number, outcome, via }.append(out);
    }
}

/// A batch without an acknowledgement.
#[derive(Debug)]
struct SentBatch {
    number: BatchNumber,
    /// Time at which it was first sent.
    first_sent: Instant,
    /// The same, later by pauses of this process.
    since: Instant,
    /// Bytes of its last frame. 0: it had none.
    bytes: usize,
    envelopes: Vec<QueuedEnvelope>,
    outcomes: Vec<QueuedOutcome>,
    notes: Vec<u8>,
}

impl SentBatch {
    fn is_empty(&self) -> bool {
        self.envelopes.is_empty() && self.outcomes.is_empty() && self.notes.is_empty()
    }

    /// Returns the frame of the batch with the present TTLs, for an exchange with this start.
    /// `expected`: about its bytes.
    fn frame(&self, start: Instant, now: Instant, expected: usize) -> Vec<u8> {
        lane::frame(expected, |out| {
            forward::start(out, self.number, Elapsed::between(start, now));
            let same = self.envelopes.chunk_by(QueuedEnvelope::is_copied_by);
            same.for_each(|same| QueuedEnvelope::append(same, now, out));
            self.outcomes.iter().for_each(|outcome| outcome.append(out));
            out.extend_from_slice(&self.notes);
        })
    }
}

/// The present exchange of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    None,
    /// The peer has answered.
    Open,
    /// It has to end: the shell still has it.
    Cut,
}

/// Queued items for a peer, in order, and batches without an acknowledgement.
#[derive(Debug)]
pub(super) struct Lane {
    exchange: Exchange,
    /// While the exchange is open: time of the peer's answer or of its last useful acknowledgement.
    /// Otherwise: end of the last open exchange, or the creation of the lane.
    since: Instant,
    /// Number of the last exchange.
    last_exchange: ExchangeNumber,
    /// Start of the last exchange. The peer has its opening later.
    start: Instant,
    /// Time of the last frame.
    sent_at: Instant,
    /// `true` if a batch without items is due, so that the peer can measure the delay.
    is_beat_due: bool,
    envelopes: EnvelopeQueue,
    /// Envelopes of broadcasts. One broadcast may fill several batches, so others pass them.
    bulk: EnvelopeQueue,
    /// Outcomes and notes wait up to the flush delay.
    outcomes: VecDeque<QueuedOutcome>,
    notes: Batches,
    /// `true` if a note must not wait for the flush delay.
    has_urgent_note: bool,
    window: VecDeque<SentBatch>,
    window_bytes: usize,
    /// Batches of the window that the present exchange has sent.
    sent: usize,
}

impl Lane {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            exchange: Exchange::None,
            since: now,
            last_exchange: ExchangeNumber::default(),
            start: now,
            sent_at: now,
            is_beat_due: false,
            envelopes: EnvelopeQueue::default(),
            bulk: EnvelopeQueue::default(),
            outcomes: VecDeque::new(),
            notes: Batches::default(),
            has_urgent_note: false,
            window: VecDeque::new(),
            window_bytes: 0,
            sent: 0,
        }
    }

    /// Starts the next exchange and returns its number. Earlier ones have no effect any more.
    /// `exchanges`: number of the last exchange in any lane.
    pub(super) fn open(&mut self, now: Instant, exchanges: &mut ExchangeNumber) -> ExchangeNumber {
        self.ended(now);
        *exchanges = exchanges.plus(1);
        (self.last_exchange, self.start) = (*exchanges, now);
        self.last_exchange
    }

    /// Handles the peer's answer to the opening. The window is sent again.
    pub(super) fn opened(&mut self, now: Instant) {
        (self.exchange, self.since, self.sent) = (Exchange::Open, now, 0);
    }

    /// Returns `true` if this is the lane's last exchange.
    pub(super) fn is_current(&self, exchange: ExchangeNumber) -> bool {
        self.last_exchange == exchange
    }

    /// Handles the end of the exchange.
    pub(super) fn ended(&mut self, now: Instant) {
        if self.exchange == Exchange::Open {
            self.since = now;
        }
        self.exchange = Exchange::None;
    }

    /// Ends an open exchange. The shell has to end its request. No effect without one.
    pub(super) fn cut(&mut self, now: Instant) {
        if self.exchange == Exchange::Open {
            (self.exchange, self.since) = (Exchange::Cut, now);
        }
    }

    /// Discounts a pause of this process from the peer's silence.
    pub(super) fn discount(&mut self, now: Instant, pause: Duration) {
        let batches = self.window.iter_mut().map(|batch| &mut batch.since);
        batches.chain([&mut self.since]).for_each(|since| *since = now.min(*since + pause));
    }

    /// Cuts an open exchange that has made no progress for 2 s. Returns `true` if it cut one.
    pub(super) fn cut_if_stuck(&mut self, now: Instant) -> bool {
        let is_stuck = self.exchange == Exchange::Open && now.saturating_duration_since(self.since) >= CUT_AFTER;
        if is_stuck {
            self.cut(now);
        }
        is_stuck
    }

    /// Makes a batch due after 0.5 s without one. Returns `true` if it did.
    pub(super) fn beat(&mut self, now: Instant) -> bool {
        let is_due = !self.is_beat_due && now.saturating_duration_since(self.sent_at) >= BEAT_INTERVAL;
        self.is_beat_due |= is_due;
        is_due
    }

    /// Returns `true` if the shell has to end the exchange.
    pub(super) fn is_cut(&self) -> bool {
        self.exchange == Exchange::Cut
    }

    /// Removes the batches up to `number` from the window: the peer has executed them. Returns the
    /// latest time that is known to be before the acknowledgement: it may have been delayed.
    pub(super) fn acknowledged(&mut self, now: Instant, number: BatchNumber) -> Instant {
        let mut sent_before = self.start;
        if self.exchange == Exchange::Open && self.window.front().is_none_or(|oldest| oldest.number <= number) {
            self.since = now;
        }
        while let Some(batch) = self.window.pop_front_if(|oldest| oldest.number <= number) {
            self.window_bytes -= batch.bytes;
            self.sent = self.sent.saturating_sub(1);
            sent_before = sent_before.max(batch.first_sent);
        }
        sent_before
    }

    /// Returns the start of the last exchange.
    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// Adds an envelope. Returns `false` if 8 MiB are queued, or 4 MiB for a bulk one.
    pub(super) fn push(&mut self, envelope: QueuedEnvelope) -> bool {
        let queued = self.envelopes.bytes() + self.bulk.bytes();
        let (queue, limit) = match envelope.is_bulk {
            true => (&mut self.bulk, MAX_WAITING_BULK),
            false => (&mut self.envelopes, MAX_WAITING),
        };
        let room = queued < limit;
        if room {
            queue.push(envelope);
        }
        room
    }

    /// Adds an outcome. Returns `false` if 131,072 are queued.
    pub(super) fn push_outcome(&mut self, outcome: QueuedOutcome) -> bool {
        let room = self.outcomes.len() < MAX_OUTCOMES;
        if room {
            self.outcomes.push_back(outcome);
        }
        room
    }

    /// Adds the items that `append` encodes, other than envelopes and outcomes. They share a batch.
    /// Returns `false` and adds none if `limit` bytes of notes are queued.
    pub(super) fn note(&mut self, limit: usize, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let room = self.notes.bytes() < limit;
        if room {
            self.notes.add(append);
        }
        room
    }

    /// Adds an encoded item, also above the limit. `is_urgent`: it does not wait for the flush
    /// delay.
    pub(super) fn note_encoded(&mut self, item: &[u8], is_urgent: bool) {
        self.notes.add(|out| out.extend_from_slice(item));
        self.has_urgent_note |= is_urgent;
    }

    /// Returns the bytes of queued items other than envelopes and outcomes.
    pub(super) fn queued_notes(&self) -> usize {
        self.notes.bytes()
    }

    /// Returns the final outcome of a message that is queued or in the window. `None`: none is.
    pub(super) fn outcome_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let mut outcomes = self.outcomes.iter().chain(self.window.iter().flat_map(|batch| &batch.outcomes));
        outcomes.find(|it| it.message == Some(message) && it.outcome.is_final()).map(|it| it.outcome)
    }

    /// Removes the envelopes of redirected queues: one call for all, as it reads the whole lane.
    pub(super) fn forget(&mut self, queues: &FxHashSet<QueueId>) {
        self.envelopes.forget(queues);
        self.bulk.forget(queues);
        self.window
            .iter_mut()
            .for_each(|batch| batch.envelopes.retain(|envelope| !queues.contains(&envelope.queue_id)));
    }

    /// Returns the bytes of queued envelopes and notes, and of batches without an acknowledgement.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.envelopes.bytes() + self.bulk.bytes() + self.notes.bytes() + self.window_bytes
    }

    /// Returns `true` if no item is queued, and none in the window lacks an acknowledgement.
    pub(super) fn is_idle(&self) -> bool {
        self.window.iter().all(SentBatch::is_empty)
            && !self.has_envelopes()
            && self.outcomes.is_empty()
            && self.notes.is_empty()
    }

    fn has_envelopes(&self) -> bool {
        !self.envelopes.is_empty() || !self.bulk.is_empty()
    }

    /// Returns `true` without an open exchange for 1 s, or if the oldest batch has no
    /// acknowledgement 1 s after it was first sent. Do not retransmit then.
    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        let since = match self.exchange {
            Exchange::None | Exchange::Cut => Some(self.since),
            Exchange::Open => self.window.front().map(|oldest| oldest.since),
        };
        since.is_some_and(|since| now.saturating_duration_since(since) >= STALLED_AFTER)
    }

    /// Returns the urgency of the next frame, or `Immediate` if the shell has to end the exchange.
    /// `Idle` without an open exchange, or if the window is full.
    pub(super) fn wants(&self) -> FlushUrgency {
        let is_full = self.window.len() >= limits::MAX_WINDOW_BATCHES || self.window_bytes >= limits::MAX_WINDOW_BYTES;
        match self.exchange {
            Exchange::None => FlushUrgency::Idle,
            Exchange::Cut => FlushUrgency::Immediate,
            Exchange::Open if self.sent < self.window.len() => FlushUrgency::Immediate,
            Exchange::Open if is_full => FlushUrgency::Idle,
            Exchange::Open if self.has_envelopes() || self.has_urgent_note => FlushUrgency::Immediate,
            Exchange::Open if !self.outcomes.is_empty() || !self.notes.is_empty() || self.is_beat_due => {
                FlushUrgency::Delayed
            }
            Exchange::Open => FlushUrgency::Idle,
        }
    }

    /// Takes the next frame: a batch of the window that this exchange has not sent, or a new batch,
    /// which raises `batches`. `None`: nothing to send, or not now.
    pub(super) fn take_frame(&mut self, now: Instant, batches: &mut BatchNumber) -> Option<Vec<u8>> {
        if self.is_cut() || self.wants() == FlushUrgency::Idle {
            return None;
        }
        let mut expected = 0;
        if self.sent == self.window.len() {
            *batches = batches.plus(1);
            let (batch, bytes) = self.next_batch(now, *batches);
            self.window.push_back(batch);
            expected = bytes;
        }
        self.sent += 1;
        (self.sent_at, self.is_beat_due) = (now, false);
        let batch = self.window.get_mut(self.sent - 1)?;
        let frame = batch.frame(self.start, now, expected.max(batch.bytes));
        // The peer counts these bytes too, and acknowledges a quarter of the window at once.
        self.window_bytes = self.window_bytes - batch.bytes + frame.len();
        batch.bytes = frame.len();
        Some(frame)
    }

    /// Returns the next batch, and about the bytes of its frame.
    fn next_batch(&mut self, now: Instant, number: BatchNumber) -> (SentBatch, usize) {
        let mut envelopes = Vec::with_capacity(self.envelopes.len());
        let mut bytes = 0;
        while bytes < limits::BATCH_TARGET_BYTES
            && let Some(envelope) = self.envelopes.pop().or_else(|| self.bulk.pop())
        {
            bytes += envelope.cost_after(envelopes.last());
            envelopes.push(envelope);
        }
        let outcomes: Vec<_> = self.outcomes.drain(..self.outcomes.len().min(BATCH_OUTCOMES)).collect();
        let notes = self.notes.take();
        self.has_urgent_note &= !self.notes.is_empty();
        bytes += outcomes.len() * OUTCOME_BYTES + notes.len() + OUTCOME_BYTES;
        (SentBatch { number, first_sent: now, since: now, bytes: 0, envelopes, outcomes, notes }, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use signaling_protocol::ClientId;
    use signaling_wire::SessionId;

    use super::super::outbound::Message;
    use super::*;

    fn outcome(number: u64) -> QueuedOutcome {
        let origin = Origin { session: SessionId([1; 16]), number: MessageNumber(number) };
        let (queue_id, outcome) = (QueueId(1), EnvelopeOutcome::Written);
        QueuedOutcome {
            message: Some((origin, KeyHash::of("bob"))),
            queue_id,
            number: origin.number,
            outcome,
            via: Box::default(),
        }
    }

    fn envelope(number: u64, expires: Instant) -> QueuedEnvelope {
        let (to, sent) = (ClientId::new("bob").unwrap(), Message::for_test(number, expires, b"{}"));
        QueuedEnvelope { to, sent, queue_id: QueueId(1), via: Box::default(), is_bulk: false }
    }

    fn large_envelope(number: u64, expires: Instant) -> QueuedEnvelope {
        QueuedEnvelope { sent: Message::for_test(number, expires, &[b'x'; 64 * 1024]), ..envelope(number, expires) }
    }

    /// Returns a lane with an open exchange, the time of its opening, and the number of the last
    /// batch in any lane: 0, none.
    fn open_lane() -> (Lane, Instant, BatchNumber) {
        let now = Instant::now();
        let mut lane = Lane::new(now);
        lane.open(now, &mut ExchangeNumber::default());
        lane.opened(now);
        (lane, now, BatchNumber(0))
    }

    /// Returns the number of a batch, its time and its items.
    fn items(frame: &[u8]) -> (u64, Duration, Vec<Item<'_>>) {
        let mut batch = &frame[lane::HEAD_BYTES..];
        let (number, elapsed) = forward::open(&mut batch).unwrap();
        let mut items = Vec::new();
        while !batch.is_empty() {
            items.push(Item::take(&mut batch).unwrap());
        }
        (number.0, elapsed.as_duration(), items)
    }

    /// Takes the frames of all batches that may be sent. Returns their numbers and items.
    fn take(lane: &mut Lane, now: Instant, batches: &mut BatchNumber) -> Vec<(u64, usize)> {
        let frames = std::iter::from_fn(|| lane.take_frame(now, batches));
        frames.map(|frame| (items(&frame).0, items(&frame).2.len())).collect()
    }

    /// Returns the number of a batch of envelopes, its time and their TTLs.
    fn ttls(frame: &[u8]) -> (u64, Duration, Vec<Duration>) {
        let ttl = |item: &Item<'_>| match item {
            Item::Envelope(envelope) => envelope.ttl.as_duration(),
            other => panic!("{other:?}"),
        };
        let (number, time, items) = items(frame);
        (number, time, items.iter().map(ttl).collect())
    }

    #[test]
    fn outcomes_follow_envelopes_and_can_wait() {
        let (mut lane, now, _) = open_lane();
        let mut batches = BatchNumber(4);
        assert_eq!(lane.take_frame(now, &mut batches), None);
        assert!(lane.push_outcome(outcome(1)));
        assert_eq!(lane.wants(), FlushUrgency::Delayed);
        assert!(lane.push(envelope(2, now)));
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
        let frame = lane.take_frame(now, &mut batches).unwrap();
        let (number, _, items) = items(&frame);
        assert!(matches!(items[..], [Item::Envelope(_), Item::Outcome { .. }]));
        assert_eq!((number, batches), (5, BatchNumber(5)));
        assert_eq!(lane.wants(), FlushUrgency::Idle);
    }

    #[test]
    fn nothing_is_sent_before_the_peer_answers_the_opening() {
        let (now, mut batches) = (Instant::now(), BatchNumber(0));
        let mut lane = Lane::new(now);
        assert!(lane.push(envelope(1, now)));
        assert_eq!(lane.open(now, &mut ExchangeNumber::default()), ExchangeNumber(1));
        assert_eq!((lane.wants(), lane.take_frame(now, &mut batches)), (FlushUrgency::Idle, None));
        assert!(lane.is_stalled(now + STALLED_AFTER));
        lane.opened(now + STALLED_AFTER);
        assert!(!lane.is_stalled(now + STALLED_AFTER));
        assert_eq!(take(&mut lane, now, &mut batches), [(1, 1)]);
    }

    #[test]
    fn next_exchange_sends_the_window_with_new_time_and_ttls() {
        let (mut lane, start, mut batches) = open_lane();
        let second = Duration::from_secs(1);
        for number in 1..=3 {
            assert!(lane.push(envelope(number, start + 7 * second)));
            let frame = lane.take_frame(start + 2 * second, &mut batches).unwrap();
            assert_eq!(ttls(&frame), (number, 2 * second, vec![5 * second]));
        }
        lane.acknowledged(start, BatchNumber(1));
        lane.ended(start);
        assert!(lane.push(envelope(4, start + 9 * second)));
        assert_eq!(lane.open(start + 4 * second, &mut ExchangeNumber(1)), ExchangeNumber(2));
        lane.opened(start + 5 * second);
        let again = lane.take_frame(start + 6 * second, &mut batches).unwrap();
        assert_eq!(ttls(&again), (2, 2 * second, vec![second]));
        let late = lane.take_frame(start + 9 * second, &mut batches).unwrap();
        assert_eq!(ttls(&late), (3, 5 * second, vec![Duration::ZERO]));
        assert_eq!(take(&mut lane, start, &mut batches), [(4, 1)]);
        lane.acknowledged(start, BatchNumber(4));
        assert!(lane.is_idle());
    }

    #[test]
    fn idle_lane_sends_an_empty_batch_every_half_second() {
        let (mut lane, start, mut batches) = open_lane();
        assert!(!lane.beat(start + BEAT_INTERVAL - Duration::from_millis(1)));
        assert!(lane.beat(start + BEAT_INTERVAL));
        assert!(!lane.beat(start + BEAT_INTERVAL), "it is due already");
        assert_eq!(lane.wants(), FlushUrgency::Delayed);
        assert_eq!(take(&mut lane, start + BEAT_INTERVAL, &mut batches), [(1, 0)]);
        assert_eq!((lane.wants(), lane.is_idle()), (FlushUrgency::Idle, true));
        assert!(lane.push(envelope(1, start)));
        take(&mut lane, start + BEAT_INTERVAL * 3 / 2, &mut batches);
        assert!(!lane.beat(start + 2 * BEAT_INTERVAL));
        assert!(lane.beat(start + BEAT_INTERVAL * 5 / 2));
    }

    #[test]
    fn full_window_sends_nothing_until_an_acknowledgement() {
        let (mut lane, now, mut batches) = open_lane();
        (1..=40).for_each(|number| assert!(lane.push(large_envelope(number, now))));
        let mut sent = 0;
        while !lane.is_idle() {
            sent += take(&mut lane, now, &mut batches).iter().map(|(_, items)| items).sum::<usize>();
            assert!(lane.window_bytes <= limits::MAX_WINDOW_BYTES + limits::MAX_BATCH_BYTES, "{}", lane.window_bytes);
            assert_eq!(lane.wants(), FlushUrgency::Idle);
            lane.acknowledged(now, batches);
        }
        assert_eq!((sent, batches > BatchNumber(2)), (40, true));

        let (mut lane, now, mut batches) = open_lane();
        for number in 1..=300 {
            assert!(lane.push(envelope(number, now)));
            lane.take_frame(now, &mut batches);
        }
        assert_eq!((lane.window.len(), lane.envelopes.len()), (limits::MAX_WINDOW_BATCHES, 300 - 256));
    }

    #[test]
    fn copies_of_a_message_count_once_with_its_text() {
        let (mut lane, now, mut batches) = open_lane();
        let copy = large_envelope(1, now);
        for number in 0..100 {
            let to = ClientId::new(&format!("client-{number}")).unwrap();
            let sent = Message { payload: Rc::clone(&copy.sent.payload), ..copy.sent.clone() };
            assert!(lane.push(QueuedEnvelope { to, sent, queue_id: QueueId(number), ..copy.clone() }));
        }
        assert!(lane.waiting_bytes() < 100_000, "{}", lane.waiting_bytes());
        lane.forget(&FxHashSet::from_iter([QueueId(0)]));
        assert!(lane.waiting_bytes() > 64 * 1024, "the others have the text");
        let frame = lane.take_frame(now, &mut batches).unwrap();
        assert_eq!((lane.window_bytes, lane.waiting_bytes()), (frame.len(), frame.len()));
        assert!(matches!(&items(&frame).2[..], [Item::Copies { others, .. }] if others.len() == 98));
    }

    #[test]
    fn envelope_to_one_client_passes_those_of_broadcasts() {
        let (mut lane, now, mut batches) = open_lane();
        let bulk = |number| QueuedEnvelope { is_bulk: true, ..large_envelope(number, now) };
        let queued = (1..).take_while(|number| lane.push(bulk(*number))).count();
        assert_eq!(queued, MAX_WAITING_BULK / (64 * 1024));

        assert!(lane.push(envelope(1_000, now)), "they leave room");

        let frame = lane.take_frame(now, &mut batches).unwrap();
        let (_, _, items) = items(&frame);
        let numbers = items.iter().map(|item| match item {
            Item::Envelope(envelope) => envelope.origin.number.0,
            other => panic!("{other:?}"),
        });
        assert_eq!(numbers.take(3).collect::<Vec<_>>(), [1_000, 1, 2]);
        lane.forget(&FxHashSet::from_iter([QueueId(1)]));
        assert_eq!((lane.waiting_bytes() - lane.window_bytes, lane.is_idle()), (0, true));
    }

    #[test]
    fn lane_without_progress_stalls_after_1_s_and_is_cut_after_2_s() {
        let (mut lane, start, mut batches) = open_lane();
        let second = Duration::from_secs(1);
        lane.acknowledged(start + second, BatchNumber(0));
        assert!(!lane.cut_if_stuck(start + 2 * second) && !lane.is_stalled(start + 60 * second), "it is idle");
        assert!(lane.cut_if_stuck(start + 3 * second), "there was no beat");
        lane.open(start, &mut ExchangeNumber::default());
        lane.opened(start);
        (1..=2).for_each(|number| {
            assert!(lane.push(envelope(number, start)));
            lane.take_frame(start, &mut batches);
        });
        lane.acknowledged(start + second, BatchNumber(1));
        lane.acknowledged(start + 2 * second, BatchNumber(1));
        assert!(lane.is_stalled(start + second), "the second batch is as old");
        assert!(!lane.cut_if_stuck(start + 2 * second));
        assert!(lane.cut_if_stuck(start + 3 * second) && lane.is_cut());
        assert_eq!((lane.wants(), lane.take_frame(start, &mut batches)), (FlushUrgency::Immediate, None));
        lane.open(start + 3 * second, &mut ExchangeNumber::default());
        assert!(!lane.is_cut());
    }

    #[test]
    fn outcome_answers_retransmissions_until_acknowledged() {
        let (mut lane, now, mut batches) = open_lane();
        let message = outcome(1).message.unwrap();
        assert!(lane.push_outcome(outcome(1)));
        assert_eq!(lane.outcome_on_its_way(message), Some(EnvelopeOutcome::Written));
        lane.take_frame(now, &mut batches).unwrap();
        assert_eq!(lane.outcome_on_its_way(message), Some(EnvelopeOutcome::Written));
        let to_another = (message.0, KeyHash::of("carol"));
        assert_eq!(lane.outcome_on_its_way(to_another), None, "each recipient of a broadcast has its own outcome");
        lane.acknowledged(now, BatchNumber(1));
        assert_eq!(lane.outcome_on_its_way(message), None);
        assert!(lane.push_outcome(QueuedOutcome { outcome: EnvelopeOutcome::Retransmit, ..outcome(1) }));
        assert_eq!(lane.outcome_on_its_way(message), None, "it asks for a retransmission");
    }

    #[test]
    fn redirected_messages_leave_queue_and_window() {
        let (mut lane, now, mut batches) = open_lane();
        assert!(lane.push(envelope(1, now)));
        lane.take_frame(now, &mut batches).unwrap();
        assert!(lane.push(envelope(2, now)));
        assert!(lane.push(QueuedEnvelope { queue_id: QueueId(2), ..envelope(3, now) }));
        lane.forget(&FxHashSet::from_iter([QueueId(1)]));
        assert_eq!(lane.envelopes.len(), 1, "those of another queue stay");
        lane.forget(&FxHashSet::from_iter([QueueId(2)]));
        assert!(lane.is_idle());
        lane.opened(now);
        assert_eq!(take(&mut lane, now, &mut batches), [(1, 0)], "the number is needed all the same");
    }

    #[test]
    fn frame_size_is_bounded_when_much_waits() {
        let (mut lane, now, mut batches) = open_lane();
        (1..=10).for_each(|number| assert!(lane.push(large_envelope(number, now))));
        (0..200_000).for_each(|number| _ = lane.push_outcome(outcome(number)));
        (0..200).for_each(|_| assert!(lane.note(MAX_WAITING, |out| out.extend_from_slice(&[0; 10_000]))));
        let frame = lane.take_frame(now, &mut batches).unwrap();
        assert!(frame.len() <= lane::MAX_BYTES, "{}", frame.len());
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
    }
}
