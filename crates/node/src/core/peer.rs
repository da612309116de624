//! What waits for other nodes, and what they sent before.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use signaling_edge::core::Wants;
use signaling_protocol::forward::{self, Header, Item};
use signaling_protocol::{Incarnation, NodeId, limits};

/// Requests to one peer that may be under way at once. Order holds within a lane.
pub const LANES: usize = 2;
/// Most bytes that wait in a lane; past this envelopes are left to their senders' repeats.
const MAX_WAITING: usize = 8 * 1024 * 1024;
/// A batch unanswered for so long means that the lane stands: repeats into it would only pile up.
const STANDS_AFTER: Duration = Duration::from_secs(1);

/// One ordered way to a peer.
#[derive(Debug, Default)]
pub(super) struct Lane {
    items: Vec<u8>,
    /// Fates and notes: they wait for company, a little.
    lazy: Vec<u8>,
    under_way_since: Option<Instant>,
}

impl Lane {
    /// Adds an envelope. Says whether there was room.
    pub(super) fn push(&mut self, item: &Item<'_>) -> bool {
        if self.items.len() >= MAX_WAITING {
            return false;
        }
        item.append(&mut self.items);
        true
    }

    pub(super) fn push_lazy(&mut self, item: &Item<'_>) {
        if self.lazy.len() < MAX_WAITING {
            item.append(&mut self.lazy);
        }
    }

    pub(super) fn stands(&self, now: Instant) -> bool {
        self.under_way_since.is_some_and(|since| now.saturating_duration_since(since) >= STANDS_AFTER)
    }
}

/// Another node of the view.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: NodeId,
    pub(super) lanes: [Lane; LANES],
    incarnation: Option<Incarnation>,
}

impl Peer {
    pub(super) fn new(id: NodeId) -> Self {
        Self { id, lanes: Default::default(), incarnation: None }
    }

    /// Notes which incarnation speaks. Says whether it is another than before.
    pub(super) fn met(&mut self, incarnation: Incarnation) -> bool {
        self.incarnation.replace(incarnation).is_some_and(|before| before != incarnation)
    }

    pub(super) fn wants(&self, lane: usize) -> Wants {
        match self.lanes.get(lane) {
            Some(lane) if lane.under_way_since.is_some() => Wants::Nothing,
            Some(lane) if !lane.items.is_empty() => Wants::Now,
            Some(lane) if !lane.lazy.is_empty() => Wants::Soon,
            _ => Wants::Nothing,
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
        let lane = self.lanes.get_mut(index)?;
        if lane.under_way_since.is_some() || (lane.items.is_empty() && lane.lazy.is_empty()) {
            return None;
        }
        lane.under_way_since = Some(now);
        *batches += 1;
        let mut batch = Vec::with_capacity(lane.items.len() + lane.lazy.len() + 64);
        forward::start(&mut batch, &sender.header(index, *batches));
        batch.append(&mut lane.items);
        batch.append(&mut lane.lazy);
        lane.items.shrink_to(limits::BATCH_TARGET_BYTES);
        lane.lazy.shrink_to(limits::BATCH_TARGET_BYTES);
        Some(batch)
    }

    /// The batch under way was answered, or given up.
    pub(super) fn ended(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.under_way_since = None;
        }
    }

    /// Takes the fates that wait, for an answer to carry.
    pub(super) fn take_lazy(&mut self, answer: &mut Vec<u8>) {
        for lane in &mut self.lanes {
            answer.append(&mut lane.lazy);
        }
    }
}

/// Who sends a batch.
#[derive(Debug)]
pub(super) struct Sender<'a> {
    pub(super) id: &'a str,
    pub(super) incarnation: Incarnation,
    pub(super) view: u64,
}

impl Sender<'_> {
    pub(super) fn header(&self, lane: usize, number: u64) -> Header<'_> {
        let Self { id, incarnation, view } = *self;
        Header { sender: id, incarnation, lane: u8::try_from(lane).unwrap_or(u8::MAX), number, view }
    }
}

/// The last batch of one lane of a sender, with its answer in case it comes again.
#[derive(Debug)]
struct Last {
    incarnation: Incarnation,
    number: u64,
    answer: Vec<u8>,
}

/// What other nodes sent before, so that a retry is told from news.
#[derive(Debug, Default)]
pub(super) struct Received {
    last_by_lane: HashMap<(NodeId, u8), Last>,
}

/// What a batch is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    New,
    /// It was answered so.
    Retry(Vec<u8>),
    /// Older than the last one: nobody waits for its answer.
    Stale,
}

impl Received {
    pub(super) fn novelty(&self, sender: &NodeId, header: &Header<'_>) -> Novelty {
        match self.last_by_lane.get(&(sender.clone(), header.lane)) {
            Some(last) if last.incarnation == header.incarnation && last.number == header.number => {
                Novelty::Retry(last.answer.clone())
            }
            Some(last) if last.incarnation == header.incarnation && last.number > header.number => Novelty::Stale,
            _ => Novelty::New,
        }
    }

    pub(super) fn answered(&mut self, sender: &NodeId, header: &Header<'_>, answer: &[u8]) {
        let last = Last { incarnation: header.incarnation, number: header.number, answer: answer.to_vec() };
        self.last_by_lane.insert((sender.clone(), header.lane), last);
    }

    /// Forgets nodes that are not in the view any more.
    pub(super) fn retain(&mut self, known: impl Fn(&NodeId) -> bool) {
        self.last_by_lane.retain(|(sender, _), _| known(sender));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use signaling_protocol::forward::{EnvelopeFate, Ticket};

    use super::*;

    fn sender() -> Sender<'static> {
        Sender { id: "a", incarnation: Incarnation([1; 8]), view: 7 }
    }

    fn fate(number: u64) -> Item<'static> {
        Item::Fate { ticket: Ticket(1), number, fate: EnvelopeFate::Written, via: vec![] }
    }

    #[test]
    fn one_batch_of_a_lane_is_under_way_at_a_time() {
        let (now, mut batches) = (Instant::now(), 0);
        let mut peer = Peer::new(NodeId::new("b").unwrap());
        assert_eq!(peer.take_batch(now, 0, &sender(), &mut batches), None);
        peer.lanes[0].push_lazy(&fate(1));
        assert_eq!(peer.wants(0), Wants::Soon);
        assert!(peer.lanes[0].push(&fate(2)));
        assert_eq!(peer.wants(0), Wants::Now);
        let batch = peer.take_batch(now, 0, &sender(), &mut batches).unwrap();
        let mut rest = &batch[..];
        assert_eq!(forward::open(&mut rest).unwrap(), sender().header(0, 1));
        assert_eq!(Item::take(&mut rest).unwrap(), fate(2), "fates ride behind");
        assert_eq!(Item::take(&mut rest).unwrap(), fate(1));
        assert!(peer.lanes[0].push(&fate(3)));
        assert_eq!(peer.wants(0), Wants::Nothing);
        assert_eq!(peer.take_batch(now, 0, &sender(), &mut batches), None);
        assert!(peer.lanes[0].stands(now + STANDS_AFTER));
        peer.ended(0);
        assert_eq!(peer.wants(0), Wants::Now);
    }

    #[test]
    fn a_retry_is_told_from_news_and_from_a_new_incarnation() {
        let a = NodeId::new("a").unwrap();
        let mut received = Received::default();
        let sender = sender();
        let header = sender.header(0, 5);
        assert_eq!(received.novelty(&a, &header), Novelty::New);
        received.answered(&a, &header, b"answer");
        assert_eq!(received.novelty(&a, &header), Novelty::Retry(b"answer".to_vec()));
        assert_eq!(received.novelty(&a, &sender.header(0, 4)), Novelty::Stale);
        assert_eq!(received.novelty(&a, &sender.header(0, 6)), Novelty::New);
        assert_eq!(received.novelty(&a, &sender.header(1, 5)), Novelty::New);
        let restarted = Header { incarnation: Incarnation([2; 8]), ..header };
        assert_eq!(received.novelty(&a, &restarted), Novelty::New);
        received.retain(|_| false);
        assert_eq!(received.novelty(&a, &header), Novelty::New);
    }

    #[test]
    fn a_restart_is_seen_by_the_incarnation() {
        let mut peer = Peer::new(NodeId::new("b").unwrap());
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(peer.met(Incarnation([2; 8])));
    }
}
