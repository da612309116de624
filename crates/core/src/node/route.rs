//! Routes of messages from `request`, `batch` and `sweep`: down a trunk, to a peer, or into a hold.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;

use rustc_hash::FxHashSet;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::Counter;
use signaling_wire::forward::{EnvelopeOutcome, Item, QueueId};
use signaling_wire::limits::MAX_HOPS;
use signaling_wire::trunk::ToEdge;

use super::envelope_queue::QueuedEnvelope;
use super::hold::{InboundMessage, ReturnPath};
use super::outbound::{Destination, Message};
use super::session::Session;
use super::trunks::Trunks;
use super::{NodeCore, PeerKey, QueueKey, SessionKey};

/// The next step of a message to one client: the first variant that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The client is attached here. The message goes down to its edge.
    Attached(SessionKey),
    /// This peer reported that it has the client, or got it from here by a handoff. It answers, and
    /// the message goes there.
    Located(PeerKey),
    /// This peer owns the client, or stands in for its suspect owner. The message goes there.
    Owner(PeerKey),
    /// This node stands in for a suspect owner. It holds the message, and sends copies to
    /// candidates for the client. This peer is the first one.
    Detour(PeerKey),
    /// This node holds the message: it owns the client, stands in without another candidate, or has
    /// no view.
    Hold,
}

impl Route {
    /// Returns the destination of an outbound queue whose messages have this route.
    pub(super) fn destination(self) -> Destination {
        match self {
            Self::Located(peer) | Self::Owner(peer) => Destination::Peer(peer),
            Self::Attached(_) | Self::Detour(_) | Self::Hold => Destination::Here,
        }
    }
}

impl NodeCore {
    /// Returns the route to a client. `key` is the hash of the client's id.
    pub(super) fn route(&self, to: &str, key: KeyHash) -> Route {
        if let Some(session) = self.directory.attached(to) {
            return Route::Attached(session);
        }
        if let Some(peer) = self.directory.location(to, &self.peers) {
            return Route::Located(peer);
        }
        if let Some(peer) = self.peers.owner(key) {
            return Route::Owner(peer);
        }
        self.peers.detour(key, |_| false).map_or(Route::Hold, Route::Detour)
    }

    /// Sends one message of a queue to the queue's destination. Ignores a queue that is closed. If
    /// a lane has no room, a later retransmission sends it.
    pub(super) fn send(&mut self, now: Instant, queue_key: QueueKey, sent: Message) {
        let queue_id = self.custody.id(queue_key);
        let Some(queue) = self.custody.queues.get(queue_key) else { return };
        let to = queue.to.clone();
        match queue.destination {
            Destination::Here => {
                let key = queue.key;
                let back = ReturnPath::Here;
                let message =
                    InboundMessage { sent, to: key, may_have_copies: false, queue_id, back, reserved_for: None };
                self.deliver_or_hold(now, to.as_str(), message);
            }
            Destination::Peer(peer) => {
                let is_bulk = queue.is_bulk;
                let envelope = QueuedEnvelope { to, sent, queue_id, via: Box::default(), is_bulk };
                let is_queued = self.peers.push(peer, envelope);
                self.counts.forwarded += u64::from(is_queued);
                self.counts.dropped += u64::from(!is_queued);
            }
        }
    }

    /// Retransmits all messages of a queue. If its lane is stalled, postpones that by
    /// `min_retransmit_interval`. Ignores a queue that is closed.
    pub(super) fn retransmit(&mut self, now: Instant, queue_key: QueueKey) {
        let Some(queue) = self.custody.queues.get_mut(queue_key) else { return };
        if let Destination::Peer(peer) = queue.destination
            && self.peers.is_stalled(now, peer)
        {
            queue.postpone(now);
            return;
        }
        for message in queue.retransmit(now) {
            self.counts.retransmissions += 1;
            self.send(now, queue_key, message);
        }
    }

    /// Redirects and retransmits each queue whose route has another destination now. A queue keeps
    /// its destination while the edge of the recipient's former socket may still confirm.
    pub(super) fn redirect(&mut self, now: Instant) {
        let some_wait = Cell::new(false);
        let moving = self.custody.queues_to_redirect(|queue| {
            let to = queue.to.as_str();
            if self.directory.has_superseded(to) {
                some_wait.set(true);
                return queue.destination;
            }
            self.route(to, queue.key).destination()
        });
        if some_wait.get() {
            self.custody.routes_dirty = true;
        }
        self.forget_in_lanes(moving.iter().map(|(queue, _)| *queue));
        for (queue, destination) in moving {
            self.send_elsewhere(now, queue, destination);
            self.retransmit(now, queue);
        }
    }

    /// Removes unsent envelopes of these queues from the lanes, and reads each lane once.
    fn forget_in_lanes(&mut self, queues: impl Iterator<Item = QueueKey>) {
        let mut ids_by_peer: BTreeMap<PeerKey, FxHashSet<QueueId>> = BTreeMap::new();
        for queue in queues {
            if let Some(Destination::Peer(peer)) = self.custody.queues.get(queue).map(|queue| queue.destination) {
                ids_by_peer.entry(peer).or_default().insert(self.custody.id(queue));
            }
        }
        for (peer, ids) in ids_by_peer {
            self.peers.forget(peer, &ids);
        }
    }

    /// Changes a queue's destination. The former peer receives a `Forget` for messages that it has
    /// not sent down. [`Self::forget_in_lanes`] has removed the queued envelopes.
    fn send_elsewhere(&mut self, now: Instant, key: QueueKey, destination: Destination) {
        let queue_id = self.custody.id(key);
        if let Some(former) = self.custody.redirect(now, key, destination)
            && let Some(queue) = self.custody.queues.get(key)
        {
            let to = queue.to.as_str();
            self.peers.note(Some(former), &Item::Forget { to, queue_id });
        }
    }

    /// Moves a message along its [`Route`]: down to its recipient, to a peer, or into a hold. For a
    /// peer, a message of this node redirects its whole queue. A message of another node is
    /// relayed, or held if that is impossible. One that has been at its recipient's location, or
    /// that a draining node would hold for another owner, is requested again instead.
    pub(super) fn deliver_or_hold(&mut self, now: Instant, to: &str, message: InboundMessage) {
        let mut route = self.route(to, message.to);
        if let Route::Attached(session) = route {
            return self.down(now, session, message);
        }
        if self.has_been_at_location(to, &message) {
            // Another copy gets the outcome.
            self.doubt_location(now, to);
            if !message.sent.deadline.is_over(now) {
                return self.return_outcome(now, &message, EnvelopeOutcome::Retransmit);
            }
            route = self.route(to, message.to);
        }
        if let Destination::Peer(peer) = route.destination() {
            match &message.back {
                // The edge of the client's former socket has yet to confirm what it wrote.
                ReturnPath::Here if self.directory.has_superseded(to) => {}
                // This node has custody, so the queue itself goes elsewhere.
                ReturnPath::Here => {
                    if let Some(queue) = self.custody.key(message.queue_id) {
                        self.forget_in_lanes(std::iter::once(queue));
                        self.send_elsewhere(now, queue, Destination::Peer(peer));
                    }
                    return;
                }
                ReturnPath::Through { node, via } => {
                    if self.relay(to, peer, &message, node, via) {
                        return;
                    }
                }
            }
        }
        self.hold(now, to, message);
    }

    /// Returns `true` if a message of another node was already at its recipient's location.
    fn has_been_at_location(&self, to: &str, message: &InboundMessage) -> bool {
        let ReturnPath::Through { node, via } = &message.back else { return false };
        let location = self.directory.locations.get(to).and_then(|known| self.peers.id(known.peer));
        location.is_some_and(|id| id == node || via.contains(id))
    }

    /// Relays a message of another node, over at most [`MAX_HOPS`] lanes in all and never to a node
    /// where it has been. Returns `false` if the message stays here, also for lack of room.
    fn relay(&mut self, to: &str, peer: PeerKey, message: &InboundMessage, node: &NodeId, via: &[NodeId]) -> bool {
        let is_new = self.peers.id(peer).is_some_and(|id| id != node && !via.contains(id));
        if via.len() + 2 > MAX_HOPS || !is_new {
            return false;
        }
        let via = via.iter().chain([node]).cloned().collect();
        let relayed = self.forward_copy(to, peer, message, via);
        self.counts.relayed += u64::from(relayed);
        relayed
    }

    /// Sends a copy of a message to a peer. Returns `false` if there is no room.
    fn forward_copy(&mut self, to: &str, peer: PeerKey, message: &InboundMessage, via: Box<[NodeId]>) -> bool {
        let Ok(to) = ClientId::new(to) else { return false };
        let (sent, queue_id) = (message.sent.clone(), message.queue_id);
        self.peers.push(peer, QueuedEnvelope { to, sent, queue_id, via, is_bulk: false })
    }

    /// Holds a message for an absent recipient until its deadline. Reserves it for a lingering
    /// session with a credential.
    fn hold(&mut self, now: Instant, to: &str, mut message: InboundMessage) {
        if let Some(credential) = self.directory.lingering.get(to).and_then(|lingering| lingering.credential) {
            message.reserved_for.get_or_insert_with(|| Box::new(credential));
        }
        if self.peers.is_draining() && self.peers.owner_by_view(message.to).is_some() {
            // The sender's node has the new owner in its view now or soon.
            return self.return_outcome(now, &message, EnvelopeOutcome::Retransmit);
        }
        let message = self.send_detours(to, message);
        if message.sent.deadline.is_over(now) || !message.sent.deadline.may_hold {
            self.custody.holds.forget(to, |copy| copy.sent.origin == message.sent.origin);
            return self.give_up(now, &message, EnvelopeOutcome::Expired);
        }
        let note = message.clone();
        self.counts.dropped += u64::from(!self.custody.holds.push(to, message));
        // The report is sent even without room: a retransmission would not make room.
        self.report_held(now, &note);
    }

    /// Sends copies to the next candidates if the owner is suspect.
    fn send_detours(&mut self, to: &str, message: InboundMessage) -> InboundMessage {
        let came_by: Box<[NodeId]> = match &message.back {
            ReturnPath::Here => Box::default(),
            ReturnPath::Through { node, via } => via.iter().chain([node]).cloned().collect(),
        };
        let (mut asked, mut may_have_copies): (Vec<NodeId>, _) = (Vec::new(), message.may_have_copies);
        while asked.len() < self.settings.rules.detours
            && came_by.len() < MAX_HOPS
            && let Some(peer) = self.peers.detour(message.to, |id| came_by.contains(id) || asked.contains(id))
            && let Some(id) = self.peers.id(peer)
        {
            asked.push(id.clone());
            let sent = self.forward_copy(to, peer, &message, came_by.clone());
            self.counts.detours += u64::from(sent);
            self.counts.dropped += u64::from(!sent);
            may_have_copies |= sent;
        }
        InboundMessage { may_have_copies, ..message }
    }

    /// Returns the outcome of a message that expired here, or is reserved for another credential.
    /// Does nothing if other nodes may have the message: the sender's node decides.
    pub(super) fn give_up(&mut self, now: Instant, message: &InboundMessage, outcome: EnvelopeOutcome) {
        if !message.may_have_copies {
            self.return_outcome(now, message, outcome);
        }
    }

    /// Sends held messages of a session's client down, until its edge has its maximum of
    /// unconfirmed ones. Ignores an ended session.
    pub(super) fn refill(&mut self, now: Instant, session_key: SessionKey) {
        while let Some(session) = self.directory.get_mut(session_key)
            && session.has_backlog
            && session.takes(&self.settings.rules)
        {
            match self.custody.holds.take_first(session.client_id.as_str()) {
                Some(message) if message.is_for(session.credential.as_deref()) => {
                    Self::send_down((&mut self.trunks, &self.counter), session, now, message);
                }
                Some(message) => self.give_up(now, &message, EnvelopeOutcome::Skipped),
                None => session.has_backlog = false,
            }
        }
    }

    /// Sends a message down to its recipient's edge, or holds it after the queued ones. Ignores a
    /// copy of an unconfirmed message, and an ended session. Gives up a message that is reserved
    /// for another credential. Drops a message that cannot go down now and is expired or does not
    /// fit into the hold. Its sender's node keeps custody of it.
    pub(super) fn down(&mut self, now: Instant, session_key: SessionKey, message: InboundMessage) {
        let Some(session) = self.directory.get_mut(session_key) else { return };
        if !message.is_for(session.credential.as_deref()) {
            return self.give_up(now, &message, EnvelopeOutcome::Skipped);
        }
        let former = session.waits_for;
        let rules = &self.settings.rules;
        if session.awaits(&message, rules)
            || former.and_then(|it| self.directory.get_mut(it)).is_some_and(|it| it.awaits(&message, rules))
        {
            return;
        }
        let Some(session) = self.directory.get_mut(session_key) else { return };
        if !session.has_backlog && session.takes(&self.settings.rules) {
            return Self::send_down((&mut self.trunks, &self.counter), session, now, message);
        }
        // The sender's node notices an expired message itself.
        if !message.sent.deadline.is_over(now) && self.custody.holds.push(session.client_id.as_str(), message) {
            session.has_backlog = true;
        } else {
            self.counts.dropped += 1;
        }
    }

    /// Sends a message down, and keeps it until the edge confirms.
    fn send_down(
        (trunks, counter): (&mut Trunks, &Counter),
        session: &mut Session,
        now: Instant,
        message: InboundMessage,
    ) {
        let down_seq = session.next_down_seq();
        let (origin, prev_pending, ttl) =
            (Some(message.sent.origin), message.sent.prev_pending, message.sent.deadline.ttl(now));
        let down =
            ToEdge::Down { slot: session.slot, down_seq, origin, prev_pending, ttl, payload: &message.sent.payload };
        trunks.send_timed(now, counter, session.trunk, &down);
        session.went_down(down_seq, message);
    }
}
