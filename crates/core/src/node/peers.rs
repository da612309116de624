//! Peer nodes: view, ranking, suspects, and the lanes to them.
//!
//! [`NodeCore`](super::NodeCore) puts items into lanes by [`Peers::push`] and [`Peers::note`]. Its
//! shell sends the batches, and reports answers and failures.

use std::sync::Arc;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::forward::{self, EnvelopeOutcome, Header, Item, QueueId};
use signaling_wire::{Incarnation, Origin};
use slotmap::SlotMap;

use super::deduplicator::{BatchDeduplicator, BatchStatus, Sender};
use super::lane::{Lane, QueuedEnvelope, QueuedOutcome};
use super::{PeerKey, Rules, Settings};
use crate::edge::FlushUrgency;
use crate::{FailureDetector, Member, View};

/// A peer node.
#[derive(Debug)]
struct Peer {
    id: NodeId,
    /// Each lane keeps its order.
    lanes: Box<[Lane]>,
    trust: FailureDetector,
    /// Time of its last answer.
    heard: Instant,
    incarnation: Option<Incarnation>,
}

impl Peer {
    fn new(now: Instant, id: NodeId, rules: &Rules) -> Self {
        let lanes = std::iter::repeat_with(Lane::default).take(rules.lanes.get()).collect();
        Self { id, lanes, trust: FailureDetector::new(now), heard: now, incarnation: None }
    }

    /// Returns the lane for a hash. Items of the same hash keep their order.
    fn lane(&mut self, hash: u64) -> &mut Lane {
        let lane = (hash % self.lanes.len() as u64) as usize;
        &mut self.lanes[lane]
    }

    /// Stores the peer's incarnation. Returns `true` if it was restarted.
    fn met(&mut self, incarnation: Incarnation) -> bool {
        self.incarnation.replace(incarnation).is_some_and(|before| before != incarnation)
    }
}

/// All peer nodes, and this node's own rank.
pub(super) struct Peers {
    id: NodeId,
    incarnation: Incarnation,
    hash_seed: u64,
    rules: Arc<Rules>,
    view: Arc<View>,
    /// `true` while this node drains.
    is_draining: bool,
    ranking: Ranking,
    /// Keys by rank in `ranking`. `None`: this node.
    by_rank: Vec<Option<PeerKey>>,
    peers: SlotMap<PeerKey, Peer>,
    /// The names come from servers with the mesh secret, so a fast hash is safe.
    by_id: FxHashMap<NodeId, PeerKey>,
    /// Suspects in the ranking.
    suspects: usize,
    /// Number of the last batch. All lanes share it, so that a peer which returns to the view gets
    /// no number twice.
    batches: u64,
    deduplicator: BatchDeduplicator,
    dropped: u64,
}

impl Peers {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            id: settings.id.clone(),
            incarnation: settings.incarnation,
            hash_seed: settings.hash_seed,
            rules: Arc::clone(&settings.rules),
            view: Arc::default(),
            is_draining: false,
            ranking: Ranking::new(settings.hash_seed, std::iter::empty::<&str>()),
            by_rank: Vec::new(),
            peers: SlotMap::with_key(),
            by_id: FxHashMap::default(),
            suspects: 0,
            batches: 0,
            deduplicator: BatchDeduplicator::default(),
            dropped: 0,
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the number of items dropped because there was no lane, or no room in it.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.view = view;
        let Self { view, peers, by_id, .. } = self;
        peers.retain(|_, peer| view.get(peer.id.as_str()).is_some());
        by_id.retain(|_, key| peers.contains_key(*key));
        let view = Arc::clone(&self.view);
        for id in view.members().iter().map(|member| &member.id) {
            if *id != self.id {
                self.known(now, id);
            }
        }
        let by_id = &self.by_id;
        self.deduplicator.retain(|sender| by_id.contains_key(sender));
        self.rank();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Starts or ends draining. Returns `false` if nothing changed.
    pub(super) fn set_draining(&mut self, is_draining: bool) -> bool {
        let is_news = std::mem::replace(&mut self.is_draining, is_draining) != is_draining;
        if is_news {
            self.rank();
        }
        is_news
    }

    /// Ranks the members. A draining member owns nothing, unless all members drain.
    fn rank(&mut self) {
        let drains = |member: &Member| member.draining || (self.is_draining && member.id == self.id);
        let settled = self.view.members().iter().any(|member| !drains(member));
        let candidates = self.view.members().iter().filter(|member| !settled || !drains(member));
        self.ranking = Ranking::new(self.hash_seed, candidates.map(|member| member.id.as_str()));
        let ranks = 0..self.ranking.len();
        self.by_rank = ranks.map(|rank| self.by_id.get(self.ranking.id(rank)).copied()).collect();
        self.count_suspects();
    }

    fn count_suspects(&mut self) {
        self.suspects = self.by_rank.iter().flatten().filter(|peer| self.is_suspect(**peer)).count();
    }

    /// Returns the key of a node, and adds the node if necessary. A node may send before the view
    /// has it. Its outcomes are queued until then, or until its next batch is answered.
    pub(super) fn known(&mut self, now: Instant, id: &NodeId) -> PeerKey {
        if let Some(peer) = self.by_id.get(id) {
            return *peer;
        }
        let key = self.peers.insert(Peer::new(now, id.clone(), &self.rules));
        self.by_id.insert(id.clone(), key);
        key
    }

    pub(super) fn key(&self, id: &str) -> Option<PeerKey> {
        self.by_id.get(id).copied()
    }

    pub(super) fn id(&self, peer: PeerKey) -> Option<&NodeId> {
        self.peers.get(peer).map(|peer| &peer.id)
    }

    /// Returns the peers of the view with their addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (PeerKey, &str)> {
        self.peers.iter().filter_map(|(key, peer)| Some((key, self.view.get(peer.id.as_str())?.address.as_str())))
    }

    /// Returns the peer that owns a key: the node with the highest score that is not suspect.
    /// `None`: this node owns it, or there is no view.
    #[inline]
    pub(super) fn owner(&self, key: KeyHash) -> Option<PeerKey> {
        if self.suspects == 0 {
            return self.owner_by_view(key);
        }
        match self.ranking.owner_where(key, |rank| self.at(rank).is_none_or(|peer| !self.is_suspect(peer))) {
            Some(rank) => self.at(rank),
            None => self.owner_by_view(key),
        }
    }

    /// Returns the peer that owns a key, regardless of suspicion.
    #[inline]
    pub(super) fn owner_by_view(&self, key: KeyHash) -> Option<PeerKey> {
        self.ranking.owner(key).and_then(|rank| self.at(rank))
    }

    /// Returns the next peer for a detour, if this node stands in for a suspect owner. It is the
    /// owner if that answers again, or else the next candidate. `avoid` excludes nodes.
    pub(super) fn detour(&self, key: KeyHash, avoid: impl Fn(&NodeId) -> bool) -> Option<PeerKey> {
        if self.suspects == 0 || !self.owner_by_view(key).is_some_and(|owner| self.is_suspect(owner)) {
            return None;
        }
        let is_open =
            |peer: PeerKey| self.peers.get(peer).is_some_and(|peer| peer.trust.is_answering() && !avoid(&peer.id));
        let rank = self.ranking.owner_where(key, |rank| self.at(rank).is_some_and(is_open))?;
        self.at(rank)
    }

    fn at(&self, rank: usize) -> Option<PeerKey> {
        self.by_rank.get(rank).copied().flatten()
    }

    /// Returns `true` if a node can own clients.
    pub(super) fn is_eligible(&self, node: &str) -> bool {
        self.ranking.index_of(node).is_some()
    }

    /// Returns `true` if no node can own clients: there is no view.
    pub(super) fn is_ranking_empty(&self) -> bool {
        self.ranking.is_empty()
    }

    pub(super) fn has_suspects(&self) -> bool {
        self.suspects > 0
    }

    pub(super) fn is_suspect(&self, peer: PeerKey) -> bool {
        self.peers.get(peer).is_none_or(|peer| peer.trust.is_suspect())
    }

    /// Returns `true` if a peer answers now. It may be suspect.
    pub(super) fn is_answering(&self, peer: PeerKey) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.trust.is_answering())
    }

    pub(super) fn suspects(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.values().filter(|peer| peer.trust.is_suspect()).map(|peer| &peer.id)
    }

    /// Takes in that a peer refused a connection. Returns `true` if it is suspect from now on.
    pub(super) fn refused(&mut self, now: Instant, peer: PeerKey) -> bool {
        let is_news = self.peers.get_mut(peer).is_some_and(|peer| peer.trust.failed(now));
        if is_news {
            self.count_suspects();
        }
        is_news
    }

    /// Takes in that a peer answered. Returns `true` if it did not answer before.
    pub(super) fn answered(&mut self, now: Instant, peer: PeerKey) -> bool {
        let Some(peer) = self.peers.get_mut(peer) else { return false };
        peer.heard = now;
        peer.trust.answered(now)
    }

    /// Pings silent peers. Returns `true` if a peer became suspect or healthy.
    pub(super) fn sweep(&mut self, now: Instant) -> bool {
        let Self { peers, view, rules, .. } = self;
        let mut changed = false;
        for peer in peers.values_mut().filter(|peer| view.get(peer.id.as_str()).is_some()) {
            let silence = now.saturating_duration_since(peer.heard);
            if silence >= rules.ping_after {
                // Every lane can carry the ping.
                peer.lanes[0].ping();
            }
            if silence >= rules.suspect_after {
                changed |= peer.trust.failed(now);
            }
            changed |= peer.trust.look(now);
        }
        if changed {
            self.count_suspects();
        }
        changed
    }

    /// Restarts all silence timers after a process pause, since no answer could be received during
    /// it.
    pub(super) fn on_process_pause(&mut self, now: Instant) {
        self.peers.values_mut().for_each(|peer| peer.heard = now);
    }

    /// Stores a peer's incarnation. Returns `true` if the peer was restarted.
    pub(super) fn met(&mut self, peer: PeerKey, incarnation: Incarnation) -> bool {
        self.peers.get_mut(peer).is_some_and(|peer| peer.met(incarnation))
    }

    /// Queues an envelope. Returns `false` if there is no room, or no such peer.
    #[inline]
    pub(super) fn push(&mut self, peer: PeerKey, hash: u64, envelope: QueuedEnvelope) -> bool {
        self.peers.get_mut(peer).is_some_and(|peer| peer.lane(hash).push(envelope))
    }

    /// Queues an outcome for a node.
    #[inline]
    pub(super) fn return_outcome(&mut self, node: &NodeId, outcome: QueuedOutcome) {
        let peer = self.by_id.get(node).and_then(|peer| self.peers.get_mut(*peer));
        let sent = peer.is_some_and(|peer| peer.lane(outcome.queue_id.0).push_outcome(outcome));
        self.dropped += u64::from(!sent);
    }

    /// Queues any other item.
    pub(super) fn note(&mut self, peer: Option<PeerKey>, hash: u64, item: &Item<'_>) {
        let peer = peer.and_then(|peer| self.peers.get_mut(peer));
        let sent = peer.is_some_and(|peer| peer.lane(hash).note(item));
        self.dropped += u64::from(!sent);
    }

    /// Queues encoded items that belong together.
    pub(super) fn note_bytes(&mut self, peer: PeerKey, hash: u64, items: &[u8]) {
        let sent = self.peers.get_mut(peer).is_some_and(|peer| peer.lane(hash).note_bytes(items));
        self.dropped += u64::from(!sent);
    }

    /// Queues an item for every peer that answers.
    pub(super) fn note_to_all(&mut self, hash: u64, item: &Item<'_>) {
        for peer in self.peers.values_mut().filter(|peer| peer.trust.is_answering()) {
            self.dropped += u64::from(!peer.lane(hash).note(item));
        }
    }

    /// Queues an item that can also be sent later. Returns `false` if it has to wait for room.
    pub(super) fn note_if_roomy(&mut self, peer: PeerKey, hash: u64, item: &Item<'_>) -> bool {
        self.peers.get_mut(peer).is_none_or(|peer| peer.lane(hash).note_if_roomy(item))
    }

    /// Returns `true` if the lane's batch has had no answer for too long.
    pub(super) fn is_stalled(&mut self, now: Instant, peer: PeerKey, hash: u64) -> bool {
        self.peers.get_mut(peer).is_some_and(|peer| peer.lane(hash).is_stalled(now))
    }

    /// Removes the unsent envelopes of redirected queues. Reads each lane once for all queues.
    pub(super) fn forget(&mut self, peer: PeerKey, queues: &FxHashSet<QueueId>) {
        let lanes = self.peers.get_mut(peer).into_iter().flat_map(|peer| &mut peer.lanes);
        lanes.for_each(|lane| lane.forget(queues));
    }

    /// Returns the outcome of a message that is under way.
    pub(super) fn outcome_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        let mut lanes = self.peers.values().flat_map(|peer| &peer.lanes);
        let queued = lanes.find_map(|lane| lane.outcome_on_its_way(message));
        queued.or_else(|| self.deduplicator.outcome_on_its_way(message))
    }

    pub(super) fn wants(&self, peer: PeerKey, lane: usize) -> FlushUrgency {
        self.lane(peer, lane).map_or(FlushUrgency::Idle, Lane::wants)
    }

    #[inline]
    pub(super) fn take_batch(&mut self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        let Self { id, incarnation, view, peers, batches, .. } = self;
        let sender = Sender { id: id.as_str(), incarnation: *incarnation, view: view.hash() };
        peers.get_mut(peer)?.lanes.get_mut(lane)?.take_batch(now, lane, &sender, batches)
    }

    pub(super) fn batch_again(&self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        self.lane(peer, lane)?.batch_again(now, lane, &self.sender())
    }

    /// Ends the batch of a lane, after its answer or as given up.
    pub(super) fn batch_ended(&mut self, peer: PeerKey, lane: usize) {
        if let Some(lane) = self.peers.get_mut(peer).and_then(|peer| peer.lanes.get_mut(lane)) {
            lane.ended();
        }
    }

    /// Returns the answer to a batch, if the batch is not new.
    pub(super) fn answer_again(&self, sender: &NodeId, header: &Header<'_>) -> Option<Vec<u8>> {
        match self.deduplicator.status(sender, header) {
            BatchStatus::New => None,
            BatchStatus::Retry(answer) => Some(answer),
            BatchStatus::Stale => Some(self.empty_answer()),
        }
    }

    /// Returns the answer to a new batch, with the outcomes and notes for the sender.
    pub(super) fn answer(&mut self, peer: PeerKey, sender: &NodeId, header: &Header<'_>) -> Vec<u8> {
        let mut answer = self.empty_answer();
        let lanes = self.peers.get_mut(peer).into_iter().flat_map(|peer| &mut peer.lanes);
        let outcomes = lanes.flat_map(|lane| lane.take_lazy(&mut answer)).collect();
        self.deduplicator.answered(sender, header, &answer, outcomes);
        answer
    }

    fn empty_answer(&self) -> Vec<u8> {
        let mut answer = Vec::with_capacity(64);
        forward::start(&mut answer, &self.sender().header(0, 0));
        answer
    }

    fn sender(&self) -> Sender<'_> {
        Sender { id: self.id.as_str(), incarnation: self.incarnation, view: self.view.hash() }
    }

    fn lane(&self, peer: PeerKey, lane: usize) -> Option<&Lane> {
        self.peers.get(peer)?.lanes.get(lane)
    }

    /// Returns `true` if all lanes to peers of the view are idle. Suspect peers do not count.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |peer: &Peer| peer.trust.is_suspect() || peer.lanes.iter().all(Lane::is_idle);
        self.peers.values().filter(|peer| self.view.get(peer.id.as_str()).is_some()).all(idle)
    }

    /// Returns the bytes queued in all lanes.
    pub(super) fn lane_bytes(&self) -> usize {
        self.peers.values().flat_map(|peer| &peer.lanes).map(Lane::waiting_bytes).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn restart_shows_by_the_incarnation() {
        let mut peer = Peer::new(Instant::now(), NodeId::new("b").unwrap(), &Rules::default());
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(!peer.met(Incarnation([1; 8])));
        assert!(peer.met(Incarnation([2; 8])));
    }
}
