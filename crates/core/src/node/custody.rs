//! Messages in this node's custody: outbound queues of sessions, messages held for absent clients.
//! Custody is the duty to keep and retransmit a message until its outcome is known.
//!
//! [`NodeCore`](super::NodeCore) adds messages and routes them. A message leaves its outbound queue
//! with its outcome, when it is overdue, or when its sender's session is handed off. It leaves a
//! hold queue when it goes to its recipient or another node, expires, or has its outcome. It also
//! leaves it when the sender's node redirects the outbound queue.

use std::time::Instant;

use signaling_wire::MessageNumber;
use signaling_wire::forward::{EnvelopeOutcome, QueueId};
use slotmap::{Key, KeyData, SlotMap};

use super::hold::HoldQueues;
use super::outbound::{Destination, OutboundMessage, OutboundQueue};
use super::{PeerKey, QueueKey, Settings};

/// All messages in this node's custody.
#[derive(Debug)]
pub(super) struct Custody {
    /// Outbound queues, each from one session to one recipient. A queue is removed when it closes:
    /// when it is empty, or its session is handed off.
    pub(super) queues: SlotMap<QueueKey, OutboundQueue>,
    /// Messages held here for absent recipients, and for attached ones whose edge has yet to
    /// confirm earlier messages.
    pub(super) holds: HoldQueues,
    /// Random number of this process. It is combined with each queue's key into the queue's id, so
    /// that outcomes for an earlier process find no queue.
    id_salt: u64,
    /// `true` if a route may have changed: a client attached here or detached, its location at
    /// another node changed, or a queue waits for the confirms of a former socket's edge. The next
    /// sweep resets it and routes all queues again.
    pub(super) routes_dirty: bool,
}

impl Custody {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            queues: SlotMap::with_key(),
            holds: HoldQueues::new(settings.hold_limits),
            id_salt: u64::from_le_bytes(settings.incarnation.0),
            routes_dirty: false,
        }
    }

    /// Returns `true` if there is no outbound queue and no held message.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.holds.bytes() == 0
    }

    /// Returns the id of the queue in envelopes, outcomes and held messages.
    pub(super) fn id(&self, queue: QueueKey) -> QueueId {
        QueueId(queue.data().as_ffi() ^ self.id_salt)
    }

    /// Returns the key of the queue with an id. `None`: it is closed, or of an earlier process.
    pub(super) fn key(&self, id: QueueId) -> Option<QueueKey> {
        let key = QueueKey::from(KeyData::from_ffi(id.0 ^ self.id_salt));
        self.queues.contains_key(key).then_some(key)
    }

    /// Returns the keys of the queues that `wanted` accepts.
    pub(super) fn queues_where(&self, wanted: impl Fn(&OutboundQueue) -> bool) -> Vec<QueueKey> {
        self.queues.iter().filter(|(_, queue)| wanted(queue)).map(|(key, _)| key).collect()
    }

    /// Returns each queue for which `route` returns another destination than its present one, with
    /// this new destination.
    pub(super) fn queues_to_redirect(
        &self,
        route: impl Fn(&OutboundQueue) -> Destination,
    ) -> Vec<(QueueKey, Destination)> {
        let routed = self.queues.iter().map(|(key, queue)| (key, queue, route(queue)));
        routed.filter(|(_, queue, to)| queue.destination != *to).map(|(key, _, to)| (key, to)).collect()
    }

    /// Changes a queue's destination and makes the retransmission of all its messages due at once.
    /// Returns the former destination if it was a peer. The caller has that peer forget the
    /// messages.
    ///
    /// `None`: the destination was this node, or is the same, or the queue is closed. Messages held
    /// at this node are forgotten here.
    pub(super) fn redirect(&mut self, now: Instant, key: QueueKey, destination: Destination) -> Option<PeerKey> {
        let id = self.id(key);
        let queue = self.queues.get_mut(key).filter(|queue| queue.destination != destination)?;
        let former = std::mem::replace(&mut queue.destination, destination);
        queue.redirected(now);
        match former {
            Destination::Here => {
                self.holds.forget(queue.to.as_str(), |message| message.queue_id == id);
                None
            }
            Destination::Peer(peer) => Some(peer),
        }
    }

    /// Records that a queue's destination holds messages, or lacks room for them. The first such
    /// report delays the retransmission. Later ones have no effect until the oldest message ends or
    /// the destination changes. Ignores an unknown queue.
    pub(super) fn mark_held(&mut self, now: Instant, id: QueueId) {
        if let Some(queue) = self.key(id).and_then(|key| self.queues.get_mut(key)) {
            queue.on_held(now);
        }
    }

    /// Applies the outcome of a message. Returns the message and its queue if its custody ends. The
    /// queue stays, even if it is empty: the caller closes it.
    ///
    /// `None`: the message is not in custody, or its custody goes on. The latter follows a request
    /// to retransmit, and an expiry while another node or a hold may still deliver the message.
    #[inline]
    pub(super) fn apply_outcome(
        &mut self,
        now: Instant,
        id: QueueId,
        number: MessageNumber,
        outcome: EnvelopeOutcome,
    ) -> Option<(QueueKey, OutboundMessage)> {
        let key = QueueKey::from(KeyData::from_ffi(id.0 ^ self.id_salt));
        let queue = self.queues.get_mut(key)?;
        let ended = match outcome {
            EnvelopeOutcome::Written | EnvelopeOutcome::Skipped => queue.remove(now, number),
            EnvelopeOutcome::Expired => queue.expired(now, number),
            EnvelopeOutcome::Retransmit => {
                queue.on_retransmit_request(now, number);
                None
            }
        }?;
        self.holds.forget(queue.to.as_str(), |message| message.is(id, number));
        Some((key, ended))
    }
}
