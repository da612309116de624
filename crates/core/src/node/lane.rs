//! One ordered stream of batches to a peer: queued items and the batch in flight.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::edge::FlushUrgency;
use rustc_hash::FxHashSet;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{self, Envelope, EnvelopeOutcome, Item, QueueId, Recipient};
use signaling_wire::limits;
use signaling_wire::{MessageNumber, Origin};

use super::deadline::Deadline;
use super::deduplicator::Sender;

/// Maximum bytes queued in a lane. Beyond it envelopes depend on retransmissions.
pub(super) const MAX_WAITING: usize = 8 * 1024 * 1024;
/// A lane is stalled when its batch has no answer for this time. Retransmissions would only pile up
/// in it.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Bytes that an envelope takes in addition to its payload.
const OVERHEAD: usize = 160;
/// Maximum outcomes queued in a lane. Beyond it they depend on retransmissions.
const MAX_OUTCOMES: usize = 128 * 1024;
/// Usual bytes of an outcome in a batch.
const OUTCOME_BYTES: usize = 16;

/// A queued envelope. Each try encodes it anew, with its remaining TTL.
#[derive(Debug, Clone)]
pub(super) struct QueuedEnvelope {
    pub(super) to: ClientId,
    pub(super) origin: Origin,
    pub(super) prev_pending: MessageNumber,
    pub(super) deadline: Deadline,
    pub(super) retransmitted: bool,
    pub(super) queue_id: QueueId,
    pub(super) via: Box<[NodeId]>,
    pub(super) payload: Rc<[u8]>,
}

impl QueuedEnvelope {
    fn cost(&self) -> usize {
        self.payload.len() + OVERHEAD
    }

    /// Returns `true` if `other` is the same message to another client. Both are then encoded as
    /// one.
    fn is_copied_by(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.payload, &other.payload)
            && (self.origin, self.deadline, self.retransmitted) == (other.origin, other.deadline, other.retransmitted)
            && self.via == other.via
    }

    /// Encodes a message once for all its recipients.
    fn append(same: &[Self], now: Instant, out: &mut Vec<u8>) {
        let Some((Self { to, origin, prev_pending, deadline, retransmitted, queue_id, via, payload }, others)) =
            same.split_first()
        else {
            return;
        };
        let via = via.iter().map(NodeId::as_str).collect();
        let (to, ttl, may_hold) = (to.as_str(), deadline.ttl(now), deadline.may_hold);
        let (origin, prev_pending, retransmitted, queue_id) = (*origin, *prev_pending, *retransmitted, *queue_id);
        let envelope = Envelope { to, origin, prev_pending, ttl, may_hold, retransmitted, queue_id, via, payload };
        if others.is_empty() {
            return Item::Envelope(envelope).append(out);
        }
        let others = others.iter();
        let others = others.map(|other| Recipient {
            to: other.to.as_str(),
            prev_pending: other.prev_pending,
            queue_id: other.queue_id,
        });
        let others = others.collect();
        Item::Copies { envelope, others }.append(out);
    }
}

/// An outcome for the sender's node. Until the peer has it, it answers retransmissions of the
/// message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueuedOutcome {
    /// The message and the hash of its recipient. `None` at nodes that do not expect the recipient.
    pub(super) message: Option<(Origin, KeyHash)>,
    pub(super) queue_id: QueueId,
    pub(super) number: MessageNumber,
    pub(super) outcome: EnvelopeOutcome,
    /// Nodes behind the peer, starting with the sender's node.
    pub(super) via: Box<[NodeId]>,
}

impl QueuedOutcome {
    fn append(&self, out: &mut Vec<u8>) {
        let Self { queue_id, number, outcome, .. } = *self;
        let via = self.via.iter().map(NodeId::as_str).collect();
        Item::Outcome { queue_id, number, outcome, via }.append(out);
    }
}

#[derive(Debug)]
struct InFlightBatch {
    since: Instant,
    number: u64,
    envelopes: Vec<QueuedEnvelope>,
    outcomes: Vec<QueuedOutcome>,
    notes: Vec<u8>,
}

/// Queued items for a peer, in order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    envelopes: VecDeque<QueuedEnvelope>,
    bytes: usize,
    /// Outcomes and notes wait up to the flush delay.
    outcomes: Vec<QueuedOutcome>,
    notes: Vec<u8>,
    ping: bool,
    in_flight: Option<InFlightBatch>,
}

impl Lane {
    /// Adds an envelope. Returns `false` if there is no room.
    pub(super) fn push(&mut self, envelope: QueuedEnvelope) -> bool {
        if self.bytes >= MAX_WAITING {
            return false;
        }
        self.bytes += envelope.cost();
        self.envelopes.push_back(envelope);
        true
    }

    /// Adds an outcome. Returns `false` if there is no room.
    pub(super) fn push_outcome(&mut self, outcome: QueuedOutcome) -> bool {
        let room = self.outcomes.len() < MAX_OUTCOMES;
        if room {
            self.outcomes.push(outcome);
        }
        room
    }

    /// Adds an item that is neither envelope nor outcome. Returns `false` if there is no room.
    pub(super) fn note(&mut self, note: &Item<'_>) -> bool {
        let room = self.notes.len() < MAX_WAITING;
        if room {
            note.append(&mut self.notes);
        }
        room
    }

    /// Adds a note that may be sent later. It leaves half of the room to other items. Returns
    /// `false` if it has to wait.
    pub(super) fn note_if_roomy(&mut self, note: &Item<'_>) -> bool {
        self.notes.len() < MAX_WAITING / 2 && self.note(note)
    }

    /// Adds encoded items that belong together. Returns `false` if there is no room.
    pub(super) fn note_bytes(&mut self, notes: &[u8]) -> bool {
        let room = self.notes.len() < MAX_WAITING;
        if room {
            self.notes.extend_from_slice(notes);
        }
        room
    }

    /// Sends the next batch even if it is empty, as a keep-alive.
    pub(super) fn ping(&mut self) {
        self.ping = true;
    }

    /// Takes the queued outcomes and notes, to send them with an answer.
    pub(super) fn take_lazy(&mut self, answer: &mut Vec<u8>) -> Vec<QueuedOutcome> {
        let outcomes = std::mem::take(&mut self.outcomes);
        outcomes.iter().for_each(|outcome| outcome.append(answer));
        answer.append(&mut self.notes);
        outcomes
    }

    /// Returns the final outcome of a message that is queued or in flight.
    pub(super) fn outcome_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let outcomes = self.outcomes.iter().chain(self.in_flight.iter().flat_map(|way| &way.outcomes));
        outcomes
            .filter(|outcome| outcome.message == Some(message))
            .map(|outcome| outcome.outcome)
            .find(|outcome| outcome.is_final())
    }

    /// Removes the envelopes of redirected queues. It reads the whole lane, so one call handles all
    /// queues.
    pub(super) fn forget(&mut self, queues: &FxHashSet<QueueId>) {
        let Self { envelopes, bytes, in_flight, .. } = self;
        envelopes.retain(|envelope| {
            let stays = !queues.contains(&envelope.queue_id);
            *bytes -= if stays { 0 } else { envelope.cost() };
            stays
        });
        if let Some(way) = in_flight {
            way.envelopes.retain(|envelope| !queues.contains(&envelope.queue_id));
        }
    }

    /// Returns the queued bytes without the batch in flight.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes + self.notes.len()
    }

    /// Returns `true` if no items are queued or in flight.
    pub(super) fn is_idle(&self) -> bool {
        let says_nothing =
            |way: &InFlightBatch| way.envelopes.is_empty() && way.outcomes.is_empty() && way.notes.is_empty();
        self.in_flight.as_ref().is_none_or(says_nothing)
            && self.envelopes.is_empty()
            && self.outcomes.is_empty()
            && self.notes.is_empty()
    }

    pub(super) fn is_stalled(&self, now: Instant) -> bool {
        let is_old = |way: &InFlightBatch| now.saturating_duration_since(way.since) >= STALLED_AFTER;
        self.in_flight.as_ref().is_some_and(is_old)
    }

    pub(super) fn wants(&self) -> FlushUrgency {
        if self.in_flight.is_some() {
            FlushUrgency::Idle
        } else if !self.envelopes.is_empty() || self.ping {
            FlushUrgency::Immediate
        } else if !self.outcomes.is_empty() || !self.notes.is_empty() {
            FlushUrgency::Delayed
        } else {
            FlushUrgency::Idle
        }
    }

    /// Takes the next batch. It is in flight until its answer. `batches` counts it.
    pub(super) fn take_batch(
        &mut self,
        now: Instant,
        index: usize,
        sender: &Sender<'_>,
        batches: &mut u64,
    ) -> Option<Vec<u8>> {
        if self.wants() == FlushUrgency::Idle {
            return None;
        }
        *batches += 1;
        let mut envelopes = Vec::with_capacity(self.envelopes.len());
        let mut bytes = 0;
        while bytes < limits::BATCH_TARGET_BYTES
            && let Some(envelope) = self.envelopes.pop_front()
        {
            bytes += envelope.cost();
            envelopes.push(envelope);
        }
        self.bytes -= bytes;
        self.ping = false;
        let (outcomes, notes) = (std::mem::take(&mut self.outcomes), std::mem::take(&mut self.notes));
        self.in_flight = Some(InFlightBatch { since: now, number: *batches, envelopes, outcomes, notes });
        self.batch_again(now, index, sender)
    }

    /// Encodes the batch in flight again.
    pub(super) fn batch_again(&self, now: Instant, index: usize, sender: &Sender<'_>) -> Option<Vec<u8>> {
        let InFlightBatch { number, envelopes, outcomes, notes, .. } = self.in_flight.as_ref()?;
        let bytes: usize = envelopes.iter().map(QueuedEnvelope::cost).sum();
        let mut batch = Vec::with_capacity(bytes + outcomes.len() * OUTCOME_BYTES + notes.len() + 64);
        forward::start(&mut batch, &sender.header(index, *number));
        envelopes.chunk_by(QueuedEnvelope::is_copied_by).for_each(|same| QueuedEnvelope::append(same, now, &mut batch));
        outcomes.iter().for_each(|outcome| outcome.append(&mut batch));
        batch.extend_from_slice(notes);
        Some(batch)
    }

    /// Ends the batch in flight, after its answer or as given up.
    pub(super) fn ended(&mut self) {
        self.in_flight = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use signaling_wire::{Incarnation, MessageNumber, SessionId};

    use super::*;

    const SENDER: Sender<'static> = Sender { id: "a", incarnation: Incarnation([1; 8]), view: 7 };

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
        QueuedEnvelope {
            to: ClientId::new("bob").unwrap(),
            origin: Origin { session: SessionId([1; 16]), number: MessageNumber(number) },
            prev_pending: MessageNumber::NONE,
            deadline: Deadline { expires, may_hold: true },
            retransmitted: false,
            queue_id: QueueId(1),
            via: Box::default(),
            payload: Rc::from(&b"{}"[..]),
        }
    }

    fn items(mut batch: &[u8]) -> (u64, Vec<Item<'_>>) {
        let header = forward::open(&mut batch).unwrap();
        let mut items = Vec::new();
        while !batch.is_empty() {
            items.push(Item::take(&mut batch).unwrap());
        }
        (header.number, items)
    }

    fn lives(batch: &[u8]) -> Vec<Duration> {
        let envelope = |item: &Item<'_>| match item {
            Item::Envelope(envelope) => envelope.ttl.as_duration(),
            other => panic!("{other:?}"),
        };
        items(batch).1.iter().map(envelope).collect()
    }

    #[test]
    fn one_batch_is_in_flight_and_outcomes_follow_envelopes() {
        let (now, mut batches, mut lane) = (Instant::now(), 4, Lane::default());
        assert_eq!(lane.take_batch(now, 0, &SENDER, &mut batches), None);
        assert!(lane.push_outcome(outcome(1)));
        assert_eq!(lane.wants(), FlushUrgency::Delayed);
        assert!(lane.push(envelope(2, now)));
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        let (number, items) = items(&batch);
        assert!(matches!(items[..], [Item::Envelope(_), Item::Outcome { .. }]));
        assert_eq!((number, batches), (5, 5));
        assert!(lane.push(envelope(3, now)));
        assert_eq!(lane.wants(), FlushUrgency::Idle);
        assert_eq!(lane.take_batch(now, 0, &SENDER, &mut batches), None);
        assert!(lane.is_stalled(now + STALLED_AFTER));
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
    }

    #[test]
    fn ttl_runs_while_a_message_waits_and_while_it_is_retried() {
        let (start, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let second = Duration::from_secs(1);
        assert!(lane.push(envelope(1, start + 5 * second)));
        let first = lane.take_batch(start + 2 * second, 0, &SENDER, &mut batches).unwrap();
        assert_eq!(lives(&first), [3 * second]);
        let again = lane.batch_again(start + 4 * second, 0, &SENDER).unwrap();
        assert_eq!((lives(&again), items(&again).0), (vec![second], 1));
        let late = lane.batch_again(start + 9 * second, 0, &SENDER).unwrap();
        assert_eq!(lives(&late), [Duration::ZERO]);
    }

    #[test]
    fn outcome_answers_retransmissions_until_acknowledged() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let message = outcome(1).message.unwrap();
        assert!(lane.push_outcome(outcome(1)));
        assert_eq!(lane.outcome_on_its_way(message), Some(EnvelopeOutcome::Written));
        lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert_eq!(lane.outcome_on_its_way(message), Some(EnvelopeOutcome::Written));
        let to_another = (message.0, KeyHash::of("carol"));
        assert_eq!(
            lane.outcome_on_its_way(to_another),
            None,
            "the same broadcast has an outcome for each of its recipients"
        );
        lane.ended();
        assert_eq!(lane.outcome_on_its_way(message), None);
        assert!(lane.push_outcome(QueuedOutcome { outcome: EnvelopeOutcome::Retransmit, ..outcome(1) }));
        assert_eq!(lane.outcome_on_its_way(message), None, "it asks for a retransmission");
    }

    #[test]
    fn ping_is_an_empty_batch() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        lane.ping();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert_eq!(items(&batch).1, []);
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Idle);
    }

    #[test]
    fn redirected_messages_leave_the_retried_batch() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        assert!(lane.push(envelope(1, now)));
        lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert!(lane.push(envelope(2, now)));
        assert!(lane.push(QueuedEnvelope { queue_id: QueueId(2), ..envelope(3, now) }));
        lane.forget(&FxHashSet::from_iter([QueueId(1)]));
        assert_eq!(lane.waiting_bytes(), envelope(3, now).cost(), "those of another queue stay");
        lane.forget(&FxHashSet::from_iter([QueueId(2)]));
        assert_eq!(items(&lane.batch_again(now, 0, &SENDER).unwrap()).1, []);
        lane.ended();
        assert!(lane.is_idle());
    }

    #[test]
    fn batch_size_is_bounded_when_much_waits() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let payload: Rc<[u8]> = Rc::from(&[b'x'; 64 * 1024][..]);
        (1..=10).for_each(|number| {
            assert!(lane.push(QueuedEnvelope { payload: Rc::clone(&payload), ..envelope(number, now) }));
        });
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert!(batch.len() <= limits::MAX_BATCH_BYTES, "{}", batch.len());
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
    }
}
