//! What waits for other nodes, and what they sent before.

use std::num::NonZeroUsize;
use std::time::Instant;

use crate::FailureDetector;
use rustc_hash::FxHashMap;
use signaling_protocol::NodeId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{EnvelopeOutcome, Header};
use signaling_wire::{Incarnation, Origin};

use super::lane::{Lane, QueuedOutcome};

/// Another node of the view.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: NodeId,
    /// Order holds within each.
    pub(super) lanes: Box<[Lane]>,
    pub(super) trust: FailureDetector,
    /// When it last answered.
    pub(super) heard: Instant,
    incarnation: Option<Incarnation>,
}

impl Peer {
    pub(super) fn new(now: Instant, id: NodeId, lanes: NonZeroUsize) -> Self {
        let lanes = std::iter::repeat_with(Lane::default).take(lanes.get()).collect();
        Self { id, lanes, trust: FailureDetector::new(now), heard: now, incarnation: None }
    }

    /// The lane of all that must keep its order with what has the same hash.
    pub(super) fn lane(&mut self, hash: u64) -> &mut Lane {
        let lane = (hash % self.lanes.len() as u64) as usize;
        &mut self.lanes[lane]
    }

    /// Has it asked for a sign of life, unless it is asked something already.
    pub(super) fn ping(&mut self) {
        self.lane(0).ping();
    }

    /// Notes which incarnation speaks. Says whether it is another than before.
    pub(super) fn met(&mut self, incarnation: Incarnation) -> bool {
        self.incarnation.replace(incarnation).is_some_and(|before| before != incarnation)
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
    /// The fates in the answer: on their way until the next batch of the lane says that it has come.
    fates: Vec<QueuedOutcome>,
}

/// What other nodes sent before, so that a retry is told from news.
#[derive(Debug, Default)]
pub(super) struct Received {
    last_by_lane: FxHashMap<(NodeId, u8), Last>,
}

/// What a batch is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchStatus {
    New,
    /// It was answered so.
    Retry(Vec<u8>),
    /// Older than the last one: nobody waits for its answer.
    Stale,
}

impl Received {
    pub(super) fn novelty(&self, sender: &NodeId, header: &Header<'_>) -> BatchStatus {
        match self.last_by_lane.get(&(sender.clone(), header.lane)) {
            Some(last) if last.incarnation == header.incarnation && last.number == header.number => {
                BatchStatus::Retry(last.answer.clone())
            }
            Some(last) if last.incarnation == header.incarnation && last.number > header.number => BatchStatus::Stale,
            _ => BatchStatus::New,
        }
    }

    pub(super) fn answered(&mut self, sender: &NodeId, header: &Header<'_>, answer: &[u8], fates: Vec<QueuedOutcome>) {
        let last = Last { incarnation: header.incarnation, number: header.number, answer: answer.to_vec(), fates };
        self.last_by_lane.insert((sender.clone(), header.lane), last);
    }

    /// The fate of a message that is on its way back in an answer.
    pub(super) fn fate_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let fates = self.last_by_lane.values().flat_map(|last| &last.fates);
        fates.filter(|fate| fate.message == Some(message)).map(|fate| fate.fate).find(|fate| fate.is_final())
    }

    /// Forgets nodes that are not in the view any more.
    pub(super) fn retain(&mut self, known: impl Fn(&NodeId) -> bool) {
        self.last_by_lane.retain(|(sender, _), _| known(sender));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sender() -> Sender<'static> {
        Sender { id: "a", incarnation: Incarnation([1; 8]), view: 7 }
    }

    #[test]
    fn a_retry_is_told_from_news_and_from_a_new_incarnation() {
        let a = NodeId::new("a").unwrap();
        let mut received = Received::default();
        let sender = sender();
        let header = sender.header(0, 5);
        assert_eq!(received.novelty(&a, &header), BatchStatus::New);
        received.answered(&a, &header, b"answer", Vec::new());
        assert_eq!(received.novelty(&a, &header), BatchStatus::Retry(b"answer".to_vec()));
        assert_eq!(received.novelty(&a, &sender.header(0, 4)), BatchStatus::Stale);
        assert_eq!(received.novelty(&a, &sender.header(0, 6)), BatchStatus::New);
        assert_eq!(received.novelty(&a, &sender.header(1, 5)), BatchStatus::New);
        let restarted = Header { incarnation: Incarnation([2; 8]), ..header };
        assert_eq!(received.novelty(&a, &restarted), BatchStatus::New);
        received.retain(|_| false);
        assert_eq!(received.novelty(&a, &header), BatchStatus::New);
    }

    #[test]
    fn a_restart_is_seen_by_the_incarnation() {
        let mut peer = Peer::new(Instant::now(), NodeId::new("b").unwrap(), NonZeroUsize::MIN);
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(peer.met(Incarnation([2; 8])));
    }
}
