//! Envelopes that wait in a lane, in order. Pure.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use rustc_hash::FxHashSet;
use signaling_protocol::{ClientId, NodeId};
use signaling_wire::forward::{Envelope, Item, QueueId, Recipient};

use super::outbound::{Message, OVERHEAD};

/// A queued envelope. Each try encodes it anew, with its remaining TTL.
#[derive(Debug, Clone)]
pub(super) struct QueuedEnvelope {
    /// Id of the recipient.
    pub(super) to: ClientId,
    pub(super) sent: Message,
    pub(super) queue_id: QueueId,
    /// Nodes before this one, the sender's node first.
    pub(super) via: Box<[NodeId]>,
    /// `true` if it waits until no other envelope does.
    pub(super) is_bulk: bool,
}

impl QueuedEnvelope {
    /// Returns its bytes with overhead, behind another envelope: a copy shares the text.
    pub(super) fn cost_after(&self, previous: Option<&Self>) -> usize {
        let is_copy = previous.is_some_and(|previous| previous.is_copied_by(self));
        if is_copy { OVERHEAD } else { self.sent.cost() }
    }

    /// Returns `true` if `other` is the same message to another client. Both are then encoded as
    /// one.
    pub(super) fn is_copied_by(&self, other: &Self) -> bool {
        let (one, other, via) = (&self.sent, &other.sent, &other.via);
        Rc::ptr_eq(&one.payload, &other.payload)
            && (one.origin, one.deadline, one.retransmitted) == (other.origin, other.deadline, other.retransmitted)
            && self.via == *via
    }

    /// Encodes a message once for all its recipients.
    pub(super) fn append(same: &[Self], now: Instant, out: &mut Vec<u8>) {
        let Some((Self { to, sent, queue_id, via, .. }, others)) = same.split_first() else { return };
        let Message { origin, prev_pending, deadline, retransmitted, ref payload } = *sent;
        let via = via.iter().map(NodeId::as_str).collect();
        let (to, ttl, may_hold, queue_id) = (to.as_str(), deadline.ttl(now), deadline.may_hold, *queue_id);
        let envelope = Envelope { to, origin, prev_pending, ttl, may_hold, retransmitted, queue_id, via, payload };
        if others.is_empty() {
            return Item::Envelope(envelope).append(out);
        }
        let others = others.iter().map(|Self { to, sent, queue_id, .. }| Recipient {
            to: to.as_str(),
            prev_pending: sent.prev_pending,
            queue_id: *queue_id,
        });
        Item::Copies { envelope, others: others.collect() }.append(out);
    }
}

/// Envelopes in order, with their bytes.
#[derive(Debug, Default)]
pub(super) struct EnvelopeQueue {
    /// Each with the bytes that it counts for.
    queue: VecDeque<(QueuedEnvelope, usize)>,
    bytes: usize,
}

impl EnvelopeQueue {
    pub(super) fn push(&mut self, envelope: QueuedEnvelope) {
        let bytes = envelope.cost_after(self.queue.back().map(|(last, _)| last));
        self.bytes += bytes;
        self.queue.push_back((envelope, bytes));
    }

    pub(super) fn pop(&mut self) -> Option<QueuedEnvelope> {
        let (envelope, bytes) = self.queue.pop_front()?;
        self.bytes -= bytes;
        Some(envelope)
    }

    /// Removes the envelopes whose outbound queue is in `queues`.
    pub(super) fn forget(&mut self, queues: &FxHashSet<QueueId>) {
        self.queue.retain(|(envelope, _)| !queues.contains(&envelope.queue_id));
        // The first one of a broadcast's copies may have gone, which counted with the text.
        let mut last = None;
        self.bytes = 0;
        for (envelope, bytes) in &mut self.queue {
            *bytes = envelope.cost_after(last);
            self.bytes += *bytes;
            last = Some(&*envelope);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
