//! Where a message goes: down a trunk here, to another node, or it waits.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use rustc_hash::FxHashSet;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{EnvelopeOutcome, Item, QueueId};
use signaling_wire::limits::MAX_HOPS;
use signaling_wire::trunk::ToEdge;
use slotmap::{Key, KeyData};

use super::hold::{InboundMessage, ReturnPath};
use super::lane::QueuedEnvelope;
use super::outbox::{Copy, Destination};
use super::{ChainKey, NodeCore, PeerKey, SessionKey};

impl NodeCore {
    /// Where a client's messages go by all that this node knows.
    pub(super) fn destination(&self, to: &str, key: KeyHash) -> Destination {
        if self.directory.attached(to).is_some() {
            return Destination::Here;
        }
        if let Some(peer) = self.location(to) {
            return Destination::Peer(peer);
        }
        self.peers.owner(key).map_or(Destination::Here, Destination::Peer)
    }

    pub(super) fn queue_id(&self, chain: ChainKey) -> QueueId {
        QueueId(chain.data().as_ffi() ^ self.ticket_salt)
    }

    pub(super) fn chain_of(&self, queue_id: QueueId) -> Option<ChainKey> {
        let key = ChainKey::from(KeyData::from_ffi(queue_id.0 ^ self.ticket_salt));
        self.chains.contains_key(key).then_some(key)
    }

    /// Sends one envelope of a chain to where the chain goes. If there is no room on the way, a repeat brings it.
    pub(super) fn send(&mut self, now: Instant, chain_key: ChainKey, copy: Copy) {
        let queue_id = self.queue_id(chain_key);
        let Some(chain) = self.chains.get(chain_key) else { return };
        let (to, Copy { origin, prev, life, repeat, payload }) = (chain.to.clone(), copy);
        match chain.destination {
            Destination::Here => {
                let (back, key) = (ReturnPath::Here, chain.key);
                let parcel =
                    InboundMessage { origin, to: key, prev, life, repeat, shared: false, queue_id, back, payload };
                self.deliver_or_hold(now, &to, parcel);
            }
            Destination::Peer(peer) => {
                let (hash, via) = (chain.key.get(), Box::default());
                let envelope = QueuedEnvelope { to, origin, prev, life, repeat, queue_id, via, payload };
                let sent = self.peers.push(peer, hash, envelope);
                self.counts.forwarded += u64::from(sent);
                self.counts.dropped += u64::from(!sent);
            }
        }
    }

    /// Sends everything of a chain again, unless the way there stands.
    pub(super) fn repeat(&mut self, now: Instant, chain_key: ChainKey) {
        let Some(chain) = self.chains.get_mut(chain_key) else { return };
        if let Destination::Peer(peer) = chain.destination
            && self.peers.is_stalled(now, peer, chain.key.get())
        {
            chain.put_off(now);
            return;
        }
        for copy in chain.repeat(now) {
            self.counts.resends += 1;
            self.send(now, chain_key, copy);
        }
    }

    /// Sends each chain whose recipient is elsewhere now to its new destination.
    pub(super) fn redirect(&mut self, now: Instant) {
        let (mut moving, mut some_wait) = (Vec::new(), false);
        for (chain_key, chain) in &self.chains {
            if self.directory.has_superseded(chain.to.as_str()) {
                some_wait = true;
                continue;
            }
            let destination = self.destination(chain.to.as_str(), chain.key);
            if destination != chain.destination {
                moving.push((chain_key, destination));
            }
        }
        self.routes_dirty |= some_wait;
        self.forget_in_lanes(moving.iter().map(|(chain_key, _)| *chain_key));
        for (chain_key, destination) in moving {
            self.send_elsewhere(now, chain_key, destination);
            self.repeat(now, chain_key);
        }
    }

    /// Removes unsent envelopes of these chains from the lanes. Reads each lane once for all chains.
    fn forget_in_lanes(&mut self, chains: impl Iterator<Item = ChainKey>) {
        let mut tickets_by_peer: BTreeMap<PeerKey, FxHashSet<QueueId>> = BTreeMap::new();
        for chain_key in chains {
            if let Some(Destination::Peer(peer)) = self.chains.get(chain_key).map(|chain| chain.destination) {
                tickets_by_peer.entry(peer).or_default().insert(self.queue_id(chain_key));
            }
        }
        for (peer, tickets) in tickets_by_peer {
            self.peers.forget(peer, &tickets);
        }
    }

    /// Gives a chain another destination. The old one is told to forget what it has not sent down, once
    /// it can be. [`Self::forget_in_lanes`] has removed what waits for it in a lane.
    fn send_elsewhere(&mut self, now: Instant, chain_key: ChainKey, destination: Destination) {
        let queue_id = self.queue_id(chain_key);
        let Some(chain) = self.chains.get_mut(chain_key).filter(|chain| chain.destination != destination) else {
            return;
        };
        let to = chain.to.as_str();
        match std::mem::replace(&mut chain.destination, destination) {
            Destination::Here => self.holds.forget(to, queue_id),
            Destination::Peer(peer) => {
                self.peers.note(Some(peer), chain.key.get(), &Item::Forget { to, queue_id });
            }
        }
        chain.redirected(now);
    }

    /// The last leg: to the client if it is attached here, on to another node if it is known or owned there and the
    /// sender's node is another too, else it waits.
    pub(super) fn deliver_or_hold(&mut self, now: Instant, to: &ClientId, parcel: InboundMessage) {
        if let Some(session) = self.directory.attached(to.as_str()) {
            return self.down(now, session, parcel);
        }
        if let ReturnPath::Through { node, via } = &parcel.back
            && let Some(known) = self.directory.location(to.as_str())
            && self.peers.id(known.peer).is_some_and(|id| id == node || via.contains(id))
        {
            // Another copy will tell.
            self.doubt_location(now, to);
            if !parcel.life.is_over(now) {
                return self.fate_of(now, &parcel, EnvelopeOutcome::Retransmit);
            }
        }
        if let Destination::Peer(peer) = self.destination(to.as_str(), KeyHash::of(to.as_str())) {
            match &parcel.back {
                // The edge of its former socket has not said yet what it wrote.
                ReturnPath::Here if self.directory.has_superseded(to.as_str()) => {}
                // This node has custody: the chain itself takes the other way.
                ReturnPath::Here => {
                    if let Some(chain) = self.chain_of(parcel.queue_id) {
                        self.forget_in_lanes(std::iter::once(chain));
                        self.send_elsewhere(now, chain, Destination::Peer(peer));
                    }
                    return;
                }
                ReturnPath::Through { node, via } => {
                    if self.pass_on(to, peer, &parcel, node, via) {
                        return;
                    }
                }
            }
        }
        self.keep(now, to.as_str(), parcel);
    }

    /// Passes a parcel of another node on. Not to a node where it has been, and not for ever.
    fn pass_on(
        &mut self,
        to: &ClientId,
        peer: PeerKey,
        parcel: &InboundMessage,
        node: &NodeId,
        via: &[NodeId],
    ) -> bool {
        let is_new = self.peers.id(peer).is_some_and(|id| id != node && !via.contains(id));
        if via.len() + 2 > MAX_HOPS || !is_new {
            return false;
        }
        let hash = KeyHash::of(to.as_str()).get();
        let via = via.iter().chain([node]).cloned().collect();
        let (to, payload) = (to.clone(), Rc::clone(&parcel.payload));
        let InboundMessage { origin, prev, life, repeat, queue_id, .. } = *parcel;
        let envelope = QueuedEnvelope { to, origin, prev, life, repeat, queue_id, via, payload };
        let passed = self.peers.push(peer, hash, envelope);
        self.counts.passed_on += u64::from(passed);
        passed
    }

    /// Keeps a parcel for an absent recipient, as long as it lives.
    fn keep(&mut self, now: Instant, to: &str, parcel: InboundMessage) {
        if self.peers.is_draining() && self.peers.owner_by_view(KeyHash::of(to)).is_some() {
            // Whom it should go to has sent it here, and knows better by now, or soon.
            return self.fate_of(now, &parcel, EnvelopeOutcome::Retransmit);
        }
        let parcel = self.send_round(to, parcel);
        if parcel.life.is_over(now) || !parcel.life.waits {
            self.holds.forget_copies(to, parcel.origin);
            return self.expired(now, &parcel);
        }
        let note = parcel.clone();
        self.counts.dropped += u64::from(!self.holds.push(to, parcel));
        // Even if there was no room: repeats make none.
        self.say_held(now, &note);
    }

    /// Also sends copies to the next candidates if this node keeps the parcel only because it cannot rely on the owner.
    fn send_round(&mut self, to: &str, parcel: InboundMessage) -> InboundMessage {
        let key = KeyHash::of(to);
        let came_by: Box<[NodeId]> = match &parcel.back {
            ReturnPath::Here => Box::default(),
            ReturnPath::Through { node, via } => via.iter().chain([node]).cloned().collect(),
        };
        let Ok(to) = ClientId::new(to) else { return parcel };
        let (mut asked, mut shared): (Vec<NodeId>, _) = (Vec::new(), parcel.shared);
        while asked.len() < self.settings.rules.detours
            && came_by.len() < MAX_HOPS
            && let Some(peer) = self.peers.detour(key, |id| came_by.contains(id) || asked.contains(id))
            && let Some(id) = self.peers.id(peer)
        {
            asked.push(id.clone());
            let (to, via, payload) = (to.clone(), came_by.clone(), Rc::clone(&parcel.payload));
            let InboundMessage { origin, prev, life, repeat, queue_id, .. } = parcel;
            let envelope = QueuedEnvelope { to, origin, prev, life, repeat, queue_id, via, payload };
            let sent = self.peers.push(peer, key.get(), envelope);
            self.counts.detours += u64::from(sent);
            self.counts.dropped += u64::from(!sent);
            shared |= sent;
        }
        InboundMessage { shared, ..parcel }
    }

    /// A parcel's time is over here. Where others may have it, its sender's node decides.
    pub(super) fn expired(&mut self, now: Instant, parcel: &InboundMessage) {
        if !parcel.shared {
            self.fate_of(now, parcel, EnvelopeOutcome::Expired);
        }
    }

    /// Sends what waits behind a full window down, as far as there is room now.
    pub(super) fn refill(&mut self, now: Instant, session_key: SessionKey) {
        while let Some(session) = self.directory.get_mut(session_key)
            && session.has_backlog
            && session.takes(&self.settings.rules)
        {
            match self.holds.take_first(session.client_id.as_str()) {
                Some(parcel) => self.send_down(now, session_key, parcel),
                None => session.has_backlog = false,
            }
        }
    }

    /// Sends a parcel down to its recipient's edge, or lets it wait behind those that are on their way there.
    pub(super) fn down(&mut self, now: Instant, session_key: SessionKey, parcel: InboundMessage) {
        let Some(session) = self.directory.get_mut(session_key) else { return };
        let former = session.waits_for;
        if session.awaits(&parcel, &self.settings.rules) || former.is_some_and(|former| self.awaits(former, &parcel)) {
            return;
        }
        let Some(session) = self.directory.get_mut(session_key) else { return };
        if !session.has_backlog && session.takes(&self.settings.rules) {
            return self.send_down(now, session_key, parcel);
        }
        // Of one that is over by now the sender's node knows itself.
        if !parcel.life.is_over(now) && self.holds.push(session.client_id.as_str(), parcel) {
            session.has_backlog = true;
        } else {
            self.counts.dropped += 1;
        }
    }

    fn awaits(&mut self, session: SessionKey, parcel: &InboundMessage) -> bool {
        self.directory.get_mut(session).is_some_and(|session| session.awaits(parcel, &self.settings.rules))
    }

    /// Sends a parcel down, and keeps it until the edge confirms.
    fn send_down(&mut self, now: Instant, session_key: SessionKey, parcel: InboundMessage) {
        let Some(session) = self.directory.get_mut(session_key) else { return };
        let d = session.next_d();
        let (origin, prev, left) = (Some(parcel.origin), parcel.prev, parcel.life.left(now));
        let down = ToEdge::Down { slot: session.slot, d, origin, prev, left, payload: &parcel.payload };
        self.trunks.send(session.trunk, &down);
        session.went_down(d, parcel);
    }
}
