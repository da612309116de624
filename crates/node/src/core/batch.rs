//! Batches of other nodes, and their answers to ours.

use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::forward::{self, Envelope, Item};
use signaling_protocol::{ClientId, DecodeError, NodeId};

use super::hold::{Back, Parcel};
use super::life::Life;
use super::outbox::Destination;
use super::peer::{Novelty, Sender};
use super::{NodeCore, PeerKey};

impl NodeCore {
    /// Carries out a batch of another node, once however often it comes. Returns the answer.
    ///
    /// # Errors
    /// If the bytes are no batch of a version that this node speaks; items in front of the fault have been carried out.
    pub fn batch(&mut self, now: Instant, mut bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let header = forward::open(&mut bytes)?;
        let Ok(sender) = NodeId::new(header.sender) else { return Ok(self.answer(None)) };
        match self.received.novelty(&sender, &header) {
            Novelty::Retry(answer) => return Ok(answer),
            Novelty::Stale => return Ok(self.answer(None)),
            Novelty::New => {}
        }
        let peer = Some(self.peer_of(&sender));
        self.met(now, peer, header.incarnation);
        while !bytes.is_empty() {
            match Item::take(&mut bytes)? {
                Item::Envelope(envelope) => self.envelope(now, &sender, &envelope),
                item => self.returning(now, &item),
            }
        }
        let answer = self.answer(peer);
        self.received.answered(&sender, &header, &answer);
        Ok(answer)
    }

    /// A peer has answered a batch: its fates are taken in, the lane is free.
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
        if let Some(lane) = self.peers.get_mut(peer).and_then(|peer| peer.lanes.get_mut(lane)) {
            lane.ended();
        }
        let header = forward::open(&mut answer)?;
        self.met(now, Some(peer), header.incarnation);
        while !answer.is_empty() {
            self.returning(now, &Item::take(&mut answer)?);
        }
        Ok(())
    }

    /// A batch is given up: the peer refused it for good. What was in it is sent again when its time comes.
    pub fn lane_lost(&mut self, peer: PeerKey, lane: usize) {
        if let Some(lane) = self.peers.get_mut(peer).and_then(|peer| peer.lanes.get_mut(lane)) {
            lane.ended();
        }
    }

    /// A peer that was restarted has forgotten what it was sent.
    fn met(&mut self, now: Instant, key: Option<PeerKey>, incarnation: signaling_protocol::Incarnation) {
        let Some(key) = key else { return };
        if self.peers.get_mut(key).is_some_and(|peer| peer.met(incarnation)) {
            let there = Destination::Peer(key);
            let chains: Vec<_> =
                self.chains.iter().filter(|(_, chain)| chain.destination == there).map(|(key, _)| key).collect();
            chains.into_iter().for_each(|chain| self.repeat(now, chain));
        }
    }

    fn answer(&mut self, to: Option<PeerKey>) -> Vec<u8> {
        let Self { settings, view, peers, .. } = self;
        let sender = Sender { id: settings.id.as_str(), incarnation: settings.incarnation, view: view.hash() };
        let mut answer = Vec::with_capacity(64);
        forward::start(&mut answer, &sender.header(0, 0));
        if let Some(peer) = to.and_then(|to| peers.get_mut(to)) {
            peer.lanes.iter_mut().for_each(|lane| lane.take_lazy(&mut answer));
        }
        answer
    }

    fn envelope(&mut self, now: Instant, sender: &NodeId, envelope: &Envelope<'_>) {
        let Envelope { to, origin, prev, left, waits, ticket, ref via, payload } = *envelope;
        let Ok(via) = via.iter().map(|node| NodeId::new(node)).collect::<Result<Box<[_]>, _>>() else { return };
        let life = Life { expires: now + left.as_duration(), waits };
        let back = Back::Through { node: sender.clone(), via };
        let parcel = Parcel { origin, prev, life, ticket, back, payload: Rc::from(payload) };
        match self.session_by_client.get(to) {
            Some(&session) => self.down(now, session, parcel),
            None => {
                if let Ok(to) = ClientId::new(to) {
                    self.place(now, &to, parcel);
                }
            }
        }
    }
}
