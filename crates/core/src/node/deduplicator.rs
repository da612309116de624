//! Deduplication of batches from other nodes. [`Peers`](super::peers::Peers) answers a retry
//! without carrying it out again.

use rustc_hash::FxHashMap;
use signaling_protocol::NodeId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{EnvelopeOutcome, Header};
use signaling_wire::{Incarnation, Origin};

use super::lane::QueuedOutcome;

/// The sender of a batch.
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

/// The last batch of one lane, with the answer for a retry.
#[derive(Debug)]
struct Last {
    incarnation: Incarnation,
    number: u64,
    answer: Vec<u8>,
    /// Outcomes in the answer. They are under way until the lane's next batch shows that the answer
    /// arrived.
    outcomes: Vec<QueuedOutcome>,
}

/// The last batch of each lane of each node.
#[derive(Debug, Default)]
pub(super) struct BatchDeduplicator {
    last_by_lane: FxHashMap<(NodeId, u8), Last>,
}

/// Status of a received batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchStatus {
    New,
    /// The last batch again. Contains its answer.
    Retry(Vec<u8>),
    /// Older than the last batch. The peer does not wait for its answer.
    Stale,
}

impl BatchDeduplicator {
    pub(super) fn status(&self, sender: &NodeId, header: &Header<'_>) -> BatchStatus {
        match self.last_by_lane.get(&(sender.clone(), header.lane)) {
            Some(last) if last.incarnation == header.incarnation && last.number == header.number => {
                BatchStatus::Retry(last.answer.clone())
            }
            Some(last) if last.incarnation == header.incarnation && last.number > header.number => BatchStatus::Stale,
            _ => BatchStatus::New,
        }
    }

    pub(super) fn answered(
        &mut self,
        sender: &NodeId,
        header: &Header<'_>,
        answer: &[u8],
        outcomes: Vec<QueuedOutcome>,
    ) {
        let last = Last { incarnation: header.incarnation, number: header.number, answer: answer.to_vec(), outcomes };
        self.last_by_lane.insert((sender.clone(), header.lane), last);
    }

    /// Returns the outcome of a message that is under way in an answer.
    pub(super) fn outcome_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let outcomes = self.last_by_lane.values().flat_map(|last| &last.outcomes);
        outcomes
            .filter(|outcome| outcome.message == Some(message))
            .map(|outcome| outcome.outcome)
            .find(|outcome| outcome.is_final())
    }

    /// Forgets unknown nodes.
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
    fn retry_is_distinguished_from_a_new_batch_or_incarnation() {
        let a = NodeId::new("a").unwrap();
        let mut received = BatchDeduplicator::default();
        let sender = sender();
        let header = sender.header(0, 5);
        assert_eq!(received.status(&a, &header), BatchStatus::New);
        received.answered(&a, &header, b"answer", Vec::new());
        assert_eq!(received.status(&a, &header), BatchStatus::Retry(b"answer".to_vec()));
        assert_eq!(received.status(&a, &sender.header(0, 4)), BatchStatus::Stale);
        assert_eq!(received.status(&a, &sender.header(0, 6)), BatchStatus::New);
        assert_eq!(received.status(&a, &sender.header(1, 5)), BatchStatus::New);
        let restarted = Header { incarnation: Incarnation([2; 8]), ..header };
        assert_eq!(received.status(&a, &restarted), BatchStatus::New);
        received.retain(|_| false);
        assert_eq!(received.status(&a, &header), BatchStatus::New);
    }
}
