//! One ordered way to a peer: what waits, and what is under way.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_edge::core::Wants;
use signaling_protocol::forward::{self, Envelope, Item, Ticket};
use signaling_protocol::{ClientId, NodeId, Origin, limits};

use super::life::Life;
use super::peer::Sender;

/// Most bytes that wait in a lane; past this envelopes are left to their senders' repeats.
const MAX_WAITING: usize = 8 * 1024 * 1024;
/// A batch unanswered for so long means that the lane stands: repeats into it would only pile up.
const STANDS_AFTER: Duration = Duration::from_secs(1);
/// What an envelope costs beside its payload.
const OVERHEAD: usize = 160;

/// An envelope that waits for its batch. It is written when the batch is sent, each time anew: its life goes on meanwhile.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) to: ClientId,
    pub(super) origin: Origin,
    pub(super) prev: u64,
    pub(super) life: Life,
    pub(super) ticket: Ticket,
    pub(super) via: Box<[NodeId]>,
    pub(super) payload: Rc<[u8]>,
}

impl Outgoing {
    fn cost(&self) -> usize {
        self.payload.len() + OVERHEAD
    }

    fn append(&self, now: Instant, out: &mut Vec<u8>) {
        let Self { to, origin, prev, life, ticket, via, payload } = self;
        let via = via.iter().map(NodeId::as_str).collect();
        let (to, left, waits) = (to.as_str(), life.left(now), life.waits);
        let (origin, prev, ticket) = (*origin, *prev, *ticket);
        Item::Envelope(Envelope { to, origin, prev, left, waits, ticket, via, payload }).append(out);
    }
}

#[derive(Debug)]
struct UnderWay {
    since: Instant,
    number: u64,
    envelopes: Vec<Outgoing>,
    lazy: Vec<u8>,
}

/// What goes to a peer in one order.
#[derive(Debug, Default)]
pub(super) struct Lane {
    envelopes: VecDeque<Outgoing>,
    bytes: usize,
    /// Fates and notes: they wait for company, a little.
    lazy: Vec<u8>,
    under_way: Option<UnderWay>,
}

impl Lane {
    /// Adds an envelope. Says whether there was room.
    pub(super) fn push(&mut self, envelope: Outgoing) -> bool {
        if self.bytes >= MAX_WAITING {
            return false;
        }
        self.bytes += envelope.cost();
        self.envelopes.push_back(envelope);
        true
    }

    /// Adds a fate or note. Says whether there was room.
    pub(super) fn push_lazy(&mut self, item: &Item<'_>) -> bool {
        if self.lazy.len() >= MAX_WAITING {
            return false;
        }
        item.append(&mut self.lazy);
        true
    }

    /// Takes the fates that wait, for an answer to carry.
    pub(super) fn take_lazy(&mut self, answer: &mut Vec<u8>) {
        answer.append(&mut self.lazy);
    }

    pub(super) fn stands(&self, now: Instant) -> bool {
        let stands = |way: &UnderWay| now.saturating_duration_since(way.since) >= STANDS_AFTER;
        self.under_way.as_ref().is_some_and(stands)
    }

    pub(super) fn wants(&self) -> Wants {
        if self.under_way.is_some() {
            Wants::Nothing
        } else if !self.envelopes.is_empty() {
            Wants::Now
        } else if !self.lazy.is_empty() {
            Wants::Soon
        } else {
            Wants::Nothing
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
        if self.wants() == Wants::Nothing {
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
        let lazy = std::mem::take(&mut self.lazy);
        self.under_way = Some(UnderWay { since: now, number: *batches, envelopes, lazy });
        self.batch_again(now, index, sender)
    }

    /// The batch under way once more.
    pub(super) fn batch_again(&self, now: Instant, index: usize, sender: &Sender<'_>) -> Option<Vec<u8>> {
        let UnderWay { number, envelopes, lazy, .. } = self.under_way.as_ref()?;
        let bytes: usize = envelopes.iter().map(Outgoing::cost).sum();
        let mut batch = Vec::with_capacity(bytes + lazy.len() + 64);
        forward::start(&mut batch, &sender.header(index, *number));
        envelopes.iter().for_each(|envelope| envelope.append(now, &mut batch));
        batch.extend_from_slice(lazy);
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
    use signaling_protocol::forward::EnvelopeFate;
    use signaling_protocol::{Incarnation, SessionId};

    use super::*;

    const SENDER: Sender<'static> = Sender { id: "a", incarnation: Incarnation([1; 8]), view: 7 };

    fn fate(number: u64) -> Item<'static> {
        Item::Fate { ticket: Ticket(1), number, fate: EnvelopeFate::Written, via: vec![] }
    }

    fn envelope(number: u64, expires: Instant) -> Outgoing {
        Outgoing {
            to: ClientId::new("bob").unwrap(),
            origin: Origin { session: SessionId([1; 16]), number },
            prev: 0,
            life: Life { expires, waits: true },
            ticket: Ticket(1),
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
        assert!(lane.push_lazy(&fate(1)));
        assert_eq!(lane.wants(), Wants::Soon);
        assert!(lane.push(envelope(2, now)));
        assert_eq!(lane.wants(), Wants::Now);
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        let (number, items) = items(&batch);
        assert!(matches!(items[..], [Item::Envelope(_), Item::Fate { .. }]));
        assert_eq!((number, batches), (5, 5));
        assert!(lane.push(envelope(3, now)));
        assert_eq!(lane.wants(), Wants::Nothing);
        assert_eq!(lane.take_batch(now, 0, &SENDER, &mut batches), None);
        assert!(lane.stands(now + STANDS_AFTER));
        lane.ended();
        assert_eq!(lane.wants(), Wants::Now);
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
    fn a_batch_has_an_end_however_much_waits() {
        let (now, mut batches, mut lane) = (Instant::now(), 0, Lane::default());
        let payload: Rc<[u8]> = Rc::from(&[b'x'; 64 * 1024][..]);
        (1..=10)
            .for_each(|number| assert!(lane.push(Outgoing { payload: Rc::clone(&payload), ..envelope(number, now) })));
        let batch = lane.take_batch(now, 0, &SENDER, &mut batches).unwrap();
        assert!(batch.len() <= limits::MAX_BATCH_BYTES, "{}", batch.len());
        lane.ended();
        assert_eq!(lane.wants(), Wants::Now);
    }
}
