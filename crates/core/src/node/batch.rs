//! Lanes from other nodes: their openings, batches and acknowledgements, as the shell reads them.
//! Items go to `route`, `outcome`, `location`, `linger` and the rooms.

use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NameError, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_rooms::SeatAttachment;
use signaling_wire::forward::{self, Envelope, Item, Recipient};
use signaling_wire::lane::{Acknowledgement, Opening};
use signaling_wire::{DecodeError, ExchangeNumber, Incarnation};

use super::deadline::Deadline;
use super::delivered_ids::DeliveredIds;
use super::hold::{InboundMessage, ReturnPath};
use super::linger::Lingering;
use super::outbound::{Destination, Message};
use super::{NodeCore, PeerKey};
use crate::lateness::TooLate;

/// An exchange of the lane from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboundExchange {
    /// The sending node.
    pub peer: PeerKey,
    pub(super) incarnation: Incarnation,
    pub(super) exchange: ExchangeNumber,
}

/// Reason why a batch was not executed. Its exchange has to end.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A later exchange replaced this one, it has ended, or the peer is forgotten. A process pause
    /// ends all exchanges.
    #[error("the exchange is over")]
    Over,
    /// A network or a pause held the batch back.
    #[error(transparent)]
    TooLate(#[from] TooLate),
    /// The batch is damaged. Items before the fault have been executed.
    #[error(transparent)]
    Damaged(#[from] DecodeError),
}

impl NodeCore {
    /// Opens an exchange of the lane from a peer in place of the last. `None`: the peer had this or
    /// a later exchange, the sender is this node, or this process was paused until just now.
    ///
    /// # Errors
    /// If the sender's name is invalid.
    pub fn accept_lane(&mut self, now: Instant, opening: &Opening) -> Result<Option<InboundExchange>, NameError> {
        let sender = NodeId::new(&opening.sender)?;
        if sender == self.settings.id || self.peers.has_just_resumed(now) {
            return Ok(None);
        }
        let peer = self.peers.known(now, &sender);
        let Opening { incarnation, exchange, .. } = *opening;
        if !self.peers.inbound(peer).is_some_and(|inbound| inbound.open(now, incarnation, exchange)) {
            return Ok(None);
        }
        self.record_incarnation(now, peer, incarnation);
        Ok(Some(InboundExchange { peer, incarnation, exchange }))
    }

    /// Opens the exchange that a peer forms in the response to this node's exchange `own`, as
    /// [`Self::accept_lane`] does. `None`: the peer is unknown, or had this or a later exchange,
    /// `own` was replaced, or this process was paused until just now.
    pub fn accept_return(
        &mut self,
        now: Instant,
        (peer, own): (PeerKey, ExchangeNumber),
        exchange: ExchangeNumber,
    ) -> Option<InboundExchange> {
        if self.peers.has_just_resumed(now) {
            return None;
        }
        // The opening of `own` has recorded the incarnation of the peer's present process, unless
        // it was replaced.
        self.peers.lane_in(peer, own)?;
        let incarnation = self.peers.incarnation(peer)?;
        let is_new = self.peers.inbound(peer)?.open(now, incarnation, exchange);
        is_new.then_some(InboundExchange { peer, incarnation, exchange })
    }

    /// Starts an exchange to a peer outside the view in the response to its exchange `at`. Returns
    /// its number. `None`: `at` is over, or the view has the peer.
    pub fn open_return(&mut self, now: Instant, at: InboundExchange) -> Option<ExchangeNumber> {
        let exchange = self.peers.open_return(now, at)?;
        self.answered(now, at.peer);
        Some(exchange)
    }

    /// Handles an acknowledgement of batches that returned on an exchange, with the counter of the
    /// peer.
    ///
    /// # Errors
    /// If the counter is damaged.
    pub fn return_acknowledged(
        &mut self,
        now: Instant,
        at: InboundExchange,
        (of, counter): (Acknowledgement, u64),
    ) -> Result<(), BatchError> {
        self.counter.receive(now, counter)?;
        if let Some(lane) = self.peers.return_lane(at) {
            let sent_before = lane.acknowledged(now, of.number);
            self.acknowledged(now, at.peer, sent_before, of.names_you);
        }
        Ok(())
    }

    /// Executes the items of a batch, unless a batch with its number or a later one was executed.
    ///
    /// # Errors
    /// If the exchange is over, or the batch is late by more than 5 s, or damaged. A damaged one is
    /// not executed again.
    pub fn batch(&mut self, now: Instant, at: InboundExchange, mut bytes: &[u8]) -> Result<(), BatchError> {
        let sender = self.peers.id(at.peer).cloned();
        let (Some(inbound), Some(sender)) = (self.peers.inbound_of(at), sender) else { return Err(BatchError::Over) };
        let length = bytes.len();
        let (number, elapsed) = forward::open(&mut bytes)?;
        let late = inbound.measure(now, elapsed)?;
        if bytes.is_empty() {
            inbound.on_beat();
        }
        // A damaged batch counts as executed, or it would come again for ever.
        if inbound.receive(now, number, length) {
            while !bytes.is_empty() {
                let mut item = Item::take(&mut bytes)?;
                self.counter.receive(now, item.highest_number())?;
                item.count_lateness(late);
                self.item(now, at.peer, &sender, &item);
            }
        }
        Ok(())
    }

    /// Takes the acknowledgement for a peer. `None`: none is due, no exchange is open, or the peer
    /// is unknown.
    pub fn take_acknowledgement(&mut self, now: Instant, peer: PeerKey) -> Option<Acknowledgement> {
        self.peers.take_acknowledgement(now, peer)
    }

    /// Handles the end of an exchange, and of the one that returns on it. One that was replaced has
    /// no effect.
    pub fn inbound_lane_ended(&mut self, now: Instant, at: InboundExchange) {
        if let Some(lane) = self.peers.return_lane(at) {
            lane.ended(now);
        }
        if let Some(inbound) = self.peers.inbound_of(at) {
            inbound.close();
        }
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
            Item::Outcome { queue_id, number, outcome, via } => {
                self.returned(now, (*queue_id, *number), *outcome, via);
            }
            Item::Held { queue_id, via } => self.held(now, *queue_id, via),
            Item::Forget { to, queue_id } => self.custody.holds.forget(to, |message| message.queue_id == *queue_id),
            Item::Located { client_id, attachment, here } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.located(now, peer, client, *attachment, *here);
                }
            }
            Item::RequestSession { client_id, session, rank } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.session_requested(now, peer, &client, (*session, *rank));
                }
            }
            &Item::Lingering { client_id, attachment, seq, credential, ref delivered, debts, ttl } => {
                if let Ok(client) = ClientId::new(client_id) {
                    self.counts.lingering_moved += 1;
                    let (until, delivered) = (now + ttl.as_duration(), DeliveredIds::from_runs(delivered));
                    let lingering = Lingering { attachment, seq, credential, subject: None, delivered, debts, until };
                    self.store_lingering(now, &client, lingering);
                }
            }
            &Item::Seats { client_id, session, socket, rank, attachment, ref seats } => {
                if let Ok(client) = ClientId::new(client_id) {
                    let at = SeatAttachment { rank, attachment, socket };
                    self.with_rooms(now, |rooms| rooms.merge_seats(&client, session, at, seats));
                }
            }
            _ => self.with_rooms(now, |rooms| rooms.received(sender, item)),
        }
    }

    /// Records a peer's incarnation. A restarted peer receives messages and locations again.
    pub(super) fn record_incarnation(&mut self, now: Instant, key: PeerKey, incarnation: Incarnation) {
        if self.peers.record_incarnation(key, incarnation) {
            for queue in self.custody.queues_where(|queue| queue.destination == Destination::Peer(key)) {
                self.retransmit(now, queue);
            }
            self.send_all_locations(now);
            if let Some(node) = self.peers.id(key).cloned() {
                self.with_rooms(now, |rooms| rooms.room_peer_restarted(&node));
            }
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
        let sent = Message { origin, prev_pending, deadline, retransmitted, payload };
        let message = InboundMessage { sent, to: key, may_have_copies: false, queue_id, back, reserved_for: None };
        if retransmitted && let Some(outcome) = self.peers.outcome_on_its_way((origin, key)) {
            return self.return_outcome(now, &message, outcome);
        }
        self.deliver_or_hold(now, to, message);
    }
}
