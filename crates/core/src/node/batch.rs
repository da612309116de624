//! Batches of other nodes, and their answers.

use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_rooms::Stamp;
use signaling_wire::forward::{self, Envelope, Item, Recipient};
use signaling_wire::{DecodeError, Incarnation};

use super::deadline::Deadline;
use super::hold::{InboundMessage, ReturnPath};
use super::outbound::Destination;
use super::rooms::change_from_wire;
use super::{NodeCore, PeerKey};

impl NodeCore {
    /// Carries out a batch of another node once, and returns the answer. A retry gets the same
    /// answer.
    ///
    /// # Errors
    /// If the bytes are no batch of this version. Items before the fault have been carried out.
    pub fn batch(&mut self, now: Instant, mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let header = forward::open(&mut bytes)?;
        let sender = NodeId::new(header.sender).map_err(|error| DecodeError::new(error.to_string()))?;
        if let Some(answer) = self.peers.answer_again(&sender, &header) {
            return Ok(answer);
        }
        let peer = self.peers.known(now, &sender);
        self.met(now, peer, header.incarnation);
        while !bytes.is_empty() {
            self.item(now, peer, &sender, &Item::take(&mut bytes)?);
        }
        Ok(self.peers.answer(peer, &sender, &header))
    }

    fn item(&mut self, now: Instant, peer: PeerKey, sender: &NodeId, item: &Item<'_>) {
        match item {
            Item::Envelope(envelope) => self.envelope(now, sender, envelope, &Rc::from(envelope.payload)),
            Item::Copies { envelope, others } => {
                let payload = Rc::from(envelope.payload);
                self.envelope(now, sender, envelope, &payload);
                for &Recipient { to, prev_pending, queue_id } in others {
                    self.envelope(now, sender, &Envelope { to, prev_pending, queue_id, ..envelope.clone() }, &payload);
                }
            }
            Item::Outcome { .. } | Item::Held { .. } => self.returned(now, item),
            Item::Forget { to, queue_id } => self.custody.holds_mut().forget(to, *queue_id),
            Item::Located { client_id, session, accepted_at_us, here } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.located(now, peer, client, (*session, *accepted_at_us), *here);
                }
            }
            Item::RequestSession { client_id, session, accepted_at_us } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.hand_over_wanted(now, peer, &client, (*session, *accepted_at_us));
                }
            }
            Item::Lingering { client_id, session, accepted_at_us, seq, ttl } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.counts.lingering_moved += 1;
                    self.lingering_comes(now, &client, (*session, *accepted_at_us, *seq), ttl.as_duration());
                }
            }
            Item::Seats { client_id, session, accepted_at_us, seats } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.merge_seats(now, &client, (*session, *accepted_at_us), seats);
                }
            }
            Item::RoomChanged { room, incarnation, version, changes, queue_moved } => {
                if let Ok(room) = RoomName::new(room) {
                    let at = Stamp { incarnation: *incarnation, version: *version };
                    match changes.iter().map(change_from_wire).collect() {
                        Some(changes) => self.room_changed(now, &room, at, changes, *queue_moved),
                        None => self.counts.dropped += 1,
                    }
                }
            }
        }
    }

    /// Takes in a peer's answer to a lane's batch. The lane is free then.
    ///
    /// # Errors
    /// If the answer is damaged; the lane is free all the same.
    pub fn lane_answered(
        &mut self,
        now: Instant,
        peer: PeerKey,
        lane: usize,
        mut answer: &[u8],
    ) -> Result<(), DecodeError> {
        self.peers.batch_ended(peer, lane);
        let header = forward::open(&mut answer)?;
        let Some(sender) = self.peers.id(peer).cloned() else { return Ok(()) };
        if self.peers.answered(now, peer) {
            self.rehouse(now);
            self.tell_all_owners(now);
        }
        self.met(now, peer, header.incarnation);
        while !answer.is_empty() {
            self.item(now, peer, &sender, &Item::take(&mut answer)?);
        }
        Ok(())
    }

    /// Sends messages and locations again to a restarted peer.
    fn met(&mut self, now: Instant, key: PeerKey, incarnation: Incarnation) {
        if self.peers.met(key, incarnation) {
            for queue in self.custody.queues(|queue| queue.destination == Destination::Peer(key)) {
                self.retransmit(now, queue);
            }
            self.tell_all_owners(now);
        }
    }

    fn envelope(&mut self, now: Instant, sender: &NodeId, envelope: &Envelope<'_>, payload: &Rc<[u8]>) {
        let Envelope { to, origin, prev_pending, ttl, may_hold, retransmitted, queue_id, ref via, .. } = *envelope;
        let Ok(via) = via.iter().map(|node| NodeId::new(node)).collect() else {
            self.counts.dropped += 1;
            return;
        };
        let deadline = Deadline { expires: now + ttl.as_duration(), may_hold };
        let back = ReturnPath::Through { node: sender.clone(), via };
        let (key, payload) = (KeyHash::of(to), Rc::clone(payload));
        let message = InboundMessage {
            origin,
            to: key,
            prev_pending,
            deadline,
            retransmitted,
            may_have_copies: false,
            queue_id,
            back,
            payload,
        };
        if retransmitted && let Some(outcome) = self.peers.outcome_on_its_way((origin, key)) {
            return self.return_outcome(now, &message, outcome);
        }
        self.deliver_or_hold(now, to, message);
    }
}
