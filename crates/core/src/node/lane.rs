//! One ordered way to a peer: what waits, and what is under way.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::edge::FlushUrgency;
use rustc_hash::FxHashSet;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::Origin;
use signaling_wire::forward::{self, Envelope, EnvelopeOutcome, Item, QueueId, Recipient};
use signaling_wire::limits;

use super::deadline::Deadline;
use super::deduplicator::Sender;

/// Most bytes that wait in a lane; past this envelopes are left to their senders' repeats.
pub(super) const MAX_WAITING: usize = 8 * 1024 * 1024;
/// A batch unanswered for so long means that the lane stands: repeats into it would only pile up.
const STANDS_AFTER: Duration = Duration::from_secs(1);
/// What an envelope costs beside its payload.
const OVERHEAD: usize = 160;
/// Most fates that wait in a lane; past this they are left to their senders' repeats.
const MAX_FATES: usize = 128 * 1024;
/// What a fate usually takes in a batch.
const FATE_BYTES: usize = 16;

/// An envelope that waits for its batch. It is written when the batch is sent, each time anew: its life goes on meanwhile.
#[derive(Debug, Clone)]
pub(super) struct QueuedEnvelope {
    pub(super) to: ClientId,
    pub(super) origin: Origin,
    pub(super) prev: u64,
    pub(super) life: Deadline,
    pub(super) repeat: bool,
    pub(super) queue_id: QueueId,
    pub(super) via: Box<[NodeId]>,
    pub(super) payload: Rc<[u8]>,
}

impl QueuedEnvelope {
    fn cost(&self) -> usize {
        self.payload.len() + OVERHEAD
    }

    /// Whether the other is the same message to somebody else: both then travel as one.
    fn is_copied_by(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.payload, &other.payload)
            && (self.origin, self.life, self.repeat) == (other.origin, other.life, other.repeat)
            && self.via == other.via
    }

    /// Writes a message, once for all its recipients.
    fn append(same: &[Self], now: Instant, out: &mut Vec<u8>) {
        let Some((Self { to, origin, prev, life, repeat, queue_id, via, payload }, others)) = same.split_first() else {
            return;
        };
        let via = via.iter().map(NodeId::as_str).collect();
        let (to, left, waits) = (to.as_str(), life.left(now), life.waits);
        let (origin, prev, repeat, queue_id) = (*origin, *prev, *repeat, *queue_id);
        let envelope = Envelope { to, origin, prev, left, waits, repeat, queue_id, via, payload };
        if others.is_empty() {
            return Item::Envelope(envelope).append(out);
        }
        let others = others.iter();
        let others =
            others.map(|other| Recipient { to: other.to.as_str(), prev: other.prev, queue_id: other.queue_id });
        let others = others.collect();
        Item::Copies { envelope, others }.append(out);
    }
}

/// A fate on its way back. It is kept until the peer is known to have it: meanwhile it answers repeats of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueuedOutcome {
    /// The message and who it is for, if that one is or should be here; none on its further way.
    pub(super) message: Option<(Origin, KeyHash)>,
    pub(super) queue_id: QueueId,
    pub(super) number: u64,
    pub(super) fate: EnvelopeOutcome,
    /// Nodes still ahead behind the peer, the sender's own first.
    pub(super) via: Box<[NodeId]>,
}

impl QueuedOutcome {
    fn append(&self, out: &mut Vec<u8>) {
        let Self { queue_id, number, fate, .. } = *self;
        let via = self.via.iter().map(NodeId::as_str).collect();
        Item::Outcome { queue_id, number, fate, via }.append(out);
    }
}

#[derive(Debug)]
struct InFlightBatch {
    since: Instant,
    number: u64,
    envelopes: Vec<QueuedEnvelope>,
    fates: Vec<QueuedOutcome>,
    notes: Vec<u8>,
}

/// What goes to a peer in one order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    envelopes: VecDeque<QueuedEnvelope>,
    bytes: usize,
    /// These and notes wait for company, a little.
    fates: Vec<QueuedOutcome>,
    notes: Vec<u8>,
    ping: bool,
    under_way: Option<InFlightBatch>,
}

impl Lane {
    /// Adds an envelope. Says whether there was room.
    pub(super) fn push(&mut self, envelope: QueuedEnvelope) -> bool {
        if self.bytes >= MAX_WAITING {
            return false;
        }
        self.bytes += envelope.cost();
        self.envelopes.push_back(envelope);
        true
    }

    /// Adds a fate. Says whether there was room.
    pub(super) fn push_fate(&mut self, fate: QueuedOutcome) -> bool {
        let room = self.fates.len() < MAX_FATES;
        if room {
            self.fates.push(fate);
        }
        room
    }

    /// Adds what is neither envelope nor fate. Says whether there was room.
    pub(super) fn note(&mut self, note: &Item<'_>) -> bool {
        let room = self.notes.len() < MAX_WAITING;
        if room {
            note.append(&mut self.notes);
        }
        room
    }

    /// Adds a note that may also be sent later: it leaves half of the room to others. Returns `false`
    /// if it has to wait.
    pub(super) fn note_if_roomy(&mut self, note: &Item<'_>) -> bool {
        self.notes.len() < MAX_WAITING / 2 && self.note(note)
    }

    /// Adds several that belong together, as they stand in a batch. Says whether there was room.
    pub(super) fn note_bytes(&mut self, notes: &[u8]) -> bool {
        let room = self.notes.len() < MAX_WAITING;
        if room {
            self.notes.extend_from_slice(notes);
        }
        room
    }

    /// Asks the peer for a sign of life, by an empty batch if there is nothing else to say.
    pub(super) fn ping(&mut self) {
        self.ping = true;
    }

    /// Takes the fates and notes that wait, for an answer to carry.
    pub(super) fn take_lazy(&mut self, answer: &mut Vec<u8>) -> Vec<QueuedOutcome> {
        let fates = std::mem::take(&mut self.fates);
        fates.iter().for_each(|fate| fate.append(answer));
        answer.append(&mut self.notes);
        fates
    }

    /// The fate of a message that has not left, or of which it is not known that it has come.
    pub(super) fn fate_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let fates = self.fates.iter().chain(self.under_way.iter().flat_map(|way| &way.fates));
        fates.filter(|fate| fate.message == Some(message)).map(|fate| fate.fate).find(|fate| fate.is_final())
    }

    /// Removes the envelopes of queues that go elsewhere now. It reads the whole lane, so one call
    /// takes all queues.
    pub(super) fn forget(&mut self, tickets: &FxHashSet<QueueId>) {
        let Self { envelopes, bytes, under_way, .. } = self;
        envelopes.retain(|envelope| {
            let stays = !tickets.contains(&envelope.queue_id);
            *bytes -= if stays { 0 } else { envelope.cost() };
            stays
        });
        if let Some(way) = under_way {
            way.envelopes.retain(|envelope| !tickets.contains(&envelope.queue_id));
        }
    }

    /// Bytes that wait here, those under way left out.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes + self.notes.len()
    }

    /// Whether it has nothing to say, but for pings.
    pub(super) fn is_idle(&self) -> bool {
        let says_nothing =
            |way: &InFlightBatch| way.envelopes.is_empty() && way.fates.is_empty() && way.notes.is_empty();
        self.under_way.as_ref().is_none_or(says_nothing)
            && self.envelopes.is_empty()
            && self.fates.is_empty()
            && self.notes.is_empty()
    }

    pub(super) fn stands(&self, now: Instant) -> bool {
        let stands = |way: &InFlightBatch| now.saturating_duration_since(way.since) >= STANDS_AFTER;
        self.under_way.as_ref().is_some_and(stands)
    }

    pub(super) fn wants(&self) -> FlushUrgency {
        if self.under_way.is_some() {
            FlushUrgency::Idle
        } else if !self.envelopes.is_empty() || self.ping {
            FlushUrgency::Immediate
        } else if !self.fates.is_empty() || !self.notes.is_empty() {
            FlushUrgency::Delayed
        } else {
            FlushUrgency::Idle
        }
    }

    /// Takes what waits as one batch, which is under way until it is answered. `batches` counts it.
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
        let (fates, notes) = (std::mem::take(&mut self.fates), std::mem::take(&mut self.notes));
        self.under_way = Some(InFlightBatch { since: now, number: *batches, envelopes, fates, notes });
        self.batch_again(now, index, sender)
    }

    /// The batch under way once more.
    pub(super) fn batch_again(&self, now: Instant, index: usize, sender: &Sender<'_>) -> Option<Vec<u8>> {
        let InFlightBatch { number, envelopes, fates, notes, .. } = self.under_way.as_ref()?;
        let bytes: usize = envelopes.iter().map(QueuedEnvelope::cost).sum();
        let mut batch = Vec::with_capacity(bytes + fates.len() * FATE_BYTES + notes.len() + 64);
        forward::start(&mut batch, &sender.header(index, *number));
        envelopes.chunk_by(QueuedEnvelope::is_copied_by).for_each(|same| QueuedEnvelope::append(same, now, &mut batch));
        fates.iter().for_each(|fate| fate.append(&mut batch));
        batch.extend_from_slice(notes);
        Some(batch)
    }

    /// The batch under way was answered, or given up.
    pub(super) fn ended(&mut self) {
        self.under_way = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use signaling_wire::{Incarnation, SessionId};

    use super::*;

    const SENDER: Sender<'static> = Sender { id: "a", incarnation: Incarnation([1; 8]), view: 7 };

    fn fate(number: u64) -> QueuedOutcome {
        let origin = Origin { session: SessionId([1; 16]), number };
        let (queue_id, fate) = (QueueId(1), EnvelopeOutcome::Written);
        QueuedOutcome { message: Some((origin, KeyHash::of("bob"))), queue_id, number, fate, via: Box::default() }
    }

    fn envelope(number: u64, expires: Instant) -> QueuedEnvelope {
        QueuedEnvelope {
            to: ClientId::new("bob").unwrap(),
            origin: Origin { session: SessionId([1; 16]), number },
            prev: 0,
            life: Deadline { expires, waits: true },
            repeat: false,
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
            Item::Envelope(envelope) => envelope.left.as_duration(),
            other => panic!("{other:?}"),
        };
        items(batch).1.iter().map(envelope).collect()
    }

    #[test]
    fn one_batch_is_under_way_at_a_time_and_fates_ride_behind() {
        let (now, mut batches, mut lane) = (Instant::now(), 4, Lane::default());
        assert_eq!(lane.take_batch(now, 0, &SENDER, &mut batches), None);
        assert!(lane.push_fate(fate(1)));
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
        assert!(lane.stands(now + STANDS_AFTER));
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
    }

    #[test]
    fn a_messages_life_runs_on_while_it_waits_and_while_its_batch_is_tried_again() {
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
    fn a_fate_answers_repeats_until_it_is_known_to_have_come() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let message = fate(1).message.unwrap();
        assert!(lane.push_fate(fate(1)));
        assert_eq!(lane.fate_on_its_way(message), Some(EnvelopeOutcome::Written));
        lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert_eq!(lane.fate_on_its_way(message), Some(EnvelopeOutcome::Written));
        let to_another = (message.0, KeyHash::of("carol"));
        assert_eq!(lane.fate_on_its_way(to_another), None, "the same broadcast has a fate for each of its recipients");
        lane.ended();
        assert_eq!(lane.fate_on_its_way(message), None);
        assert!(lane.push_fate(QueuedOutcome { fate: EnvelopeOutcome::Retransmit, ..fate(1) }));
        assert_eq!(lane.fate_on_its_way(message), None, "a repeat is what it asks for");
    }

    #[test]
    fn a_ping_is_an_empty_batch() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        lane.ping();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert_eq!(items(&batch).1, []);
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Idle);
    }

    #[test]
    fn what_goes_elsewhere_is_taken_out_of_the_batch_that_is_tried_again() {
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
    fn a_batch_has_an_end_however_much_waits() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let payload: Rc<[u8]> = Rc::from(&[b'x'; 64 * 1024][..]);
        (1..=10).for_each(|number| {
            assert!(lane.push(QueuedEnvelope { payload: Rc::clone(&payload), ..envelope(number, now) }))
        });
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert!(batch.len() <= limits::MAX_BATCH_BYTES, "{}", batch.len());
        lane.ended();
        assert_eq!(lane.wants(), FlushUrgency::Immediate);
    }
}
