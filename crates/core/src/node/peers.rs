//! Peer nodes: view, ranking, suspects, and the lanes to them.
//!
//! [`NodeCore`](super::NodeCore) puts items into lanes by [`Peers::push`] and [`Peers::note`]. Its
//! shell runs the lanes' exchanges and takes their frames here. `view` has its reports of openings,
//! acknowledgements and failures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::forward::{EnvelopeOutcome, Item, QueueId};
use signaling_wire::lane::{Acknowledgement, Opening};
use signaling_wire::{BatchNumber, ExchangeNumber, Incarnation, Origin};
use slotmap::SlotMap;

use super::batch::InboundExchange;
use super::envelope_queue::QueuedEnvelope;
use super::inbound_lane::InboundLane;
use super::lane::{Lane, MAX_WAITING, QueuedOutcome};
use super::{PeerKey, Rules, Settings};
use crate::edge::FlushUrgency;
use signaling_membership::{FailureDetector, NodeEntry, View};
use signaling_rooms::Contact;

/// A peer node.
#[derive(Debug)]
struct Peer {
    id: NodeId,
    lane: Lane,
    inbound: InboundLane,
    trust: FailureDetector,
    /// Time of its last answer or acknowledgement, later by pauses of this process. At first that
    /// of its creation.
    last_answer: Instant,
    /// `true` if it is outside the view and silent: no client is there any more. It is not suspect
    /// by that, since none of the two may connect to the other.
    is_silent_outsider: bool,
    /// A time at which its view had this node, unless its last answer denies it. `None`: unknown.
    names_us: Option<Instant>,
    /// Start of the last attempt to connect, if the peer's process was gone. `None`: it answered.
    refused: Option<Instant>,
    incarnation: Option<Incarnation>,
    /// `true` if the peer is in [`Peers::woken`].
    is_woken: bool,
}

/// Maximum remembered peers that left the view. Beyond it the first one is forgotten.
const MAX_FORMER: usize = 1_000;

/// A peer that left the view. If it returns, it sends its window again.
#[derive(Debug)]
struct FormerPeer {
    id: NodeId,
    /// Time at which it is forgotten.
    until: Instant,
    inbound: InboundLane,
    incarnation: Option<Incarnation>,
    refused: Option<Instant>,
}

/// Time after a process pause in which a process reads the input that came during it.
const BACKLOG_TIME: Duration = Duration::from_millis(100);

/// All peer nodes, and this node's own rank.
pub struct Peers {
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
    /// Peers that left the view, in order of time.
    former: VecDeque<FormerPeer>,
    /// Suspects in the ranking.
    suspect_count: usize,
    /// Numbers of the last batch and exchange in any lane: a peer that returns to the view gets no
    /// number twice.
    batches: BatchNumber,
    exchanges: ExchangeNumber,
    /// End of the last process pause. `None`: there was none.
    resumed_at: Option<Instant>,
    /// Peers whose lanes have changed since the shell took them.
    woken: Vec<PeerKey>,
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
            ranking: Ranking::default(),
            by_rank: Vec::new(),
            peers: SlotMap::with_key(),
            by_id: FxHashMap::default(),
            former: VecDeque::new(),
            suspect_count: 0,
            batches: BatchNumber::default(),
            exchanges: ExchangeNumber::default(),
            resumed_at: None,
            woken: Vec::new(),
            dropped: 0,
        }
    }

    /// Returns the view that this node routes by.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns `true` if the present view names nodes. A node without a view cannot forward, so
    /// edges and peer nodes must treat it as down.
    pub fn has_view(&self) -> bool {
        !self.view.is_empty()
    }

    /// Returns `true` if a node may own clients, suspect or not: it is in the view, and does not
    /// drain unless all members drain.
    pub fn is_eligible(&self, node: &str) -> bool {
        self.ranking.index_of(node).is_some()
    }

    /// Returns the suspect nodes, in no order.
    pub fn suspects(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.values().filter(|peer| peer.trust.is_suspect()).map(|peer| &peer.id)
    }

    /// Returns `true` if this node drains.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Returns the number of items dropped because there was no lane, or no room in it.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Replaces the view. Peers outside of it are dropped, unless their lane to here is open. At
    /// most 1,000 are remembered for [`Rules::peer_memory`].
    pub(super) fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.view = view;
        let Self { view, peers, by_id, former, rules, .. } = self;
        peers.retain(|_, peer| {
            let stays = view.get(peer.id.as_str()).is_some() || peer.inbound.is_open();
            if !stays && peer.incarnation.is_some() {
                let (id, inbound) = (peer.id.clone(), std::mem::take(&mut peer.inbound));
                let (until, incarnation, refused) = (now + rules.peer_memory, peer.incarnation, peer.refused);
                former.push_back(FormerPeer { id, until, inbound, incarnation, refused });
            }
            stays
        });
        by_id.retain(|_, key| peers.contains_key(*key));
        former.drain(..former.len().saturating_sub(MAX_FORMER));
        former.retain(|peer| peer.until > now);
        let view = Arc::clone(&self.view);
        for id in view.members().iter().map(|member| &member.id) {
            if *id != self.id {
                self.known(now, id);
            }
        }
        self.rank();
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
        let drains = |member: &NodeEntry| member.draining || (self.is_draining && member.id == self.id);
        let settled = self.view.members().iter().any(|member| !drains(member));
        let candidates = self.view.members().iter().filter(|member| !settled || !drains(member));
        self.ranking = Ranking::new(self.hash_seed, candidates.map(|member| member.id.as_str()));
        let ranks = 0..self.ranking.len();
        self.by_rank = ranks.map(|rank| self.by_id.get(self.ranking.id(rank)).copied()).collect();
        self.count_suspects();
    }

    fn count_suspects(&mut self) {
        self.suspect_count = self.by_rank.iter().flatten().filter(|peer| self.is_suspect(**peer)).count();
    }

    /// Returns the key of a node, and adds it if necessary. It may send before the view has it.
    pub(super) fn known(&mut self, now: Instant, id: &NodeId) -> PeerKey {
        if let Some(peer) = self.by_id.get(id) {
            return *peer;
        }
        let former = self.former.iter().position(|former| former.id == *id);
        let former = former.and_then(|at| self.former.remove(at)).filter(|former| former.until > now);
        let (inbound, incarnation) = former.map(|former| (former.inbound, former.incarnation)).unwrap_or_default();
        let key = self.peers.insert(Peer {
            id: id.clone(),
            lane: Lane::new(now),
            inbound,
            trust: FailureDetector::new(now),
            last_answer: now,
            is_silent_outsider: false,
            names_us: None,
            refused: None,
            incarnation,
            is_woken: false,
        });
        self.by_id.insert(id.clone(), key);
        key
    }

    /// Returns a peer's key. `None`: it is unknown.
    pub(super) fn key(&self, id: &str) -> Option<PeerKey> {
        self.by_id.get(id).copied()
    }

    /// Returns a peer's name. `None`: it is unknown.
    pub fn id(&self, peer: PeerKey) -> Option<&NodeId> {
        self.peers.get(peer).map(|peer| &peer.id)
    }

    /// Returns the peer that owns a key: the eligible node with the highest score that is not
    /// suspect. If all are suspect, [`Self::owner_by_view`]. `None`: this node, or no view.
    #[inline]
    pub(super) fn owner(&self, key: KeyHash) -> Option<PeerKey> {
        if self.suspect_count == 0 {
            return self.owner_by_view(key);
        }
        match self.ranking.owner_where(key, |rank| self.at(rank).is_none_or(|peer| !self.is_suspect(peer))) {
            Some(rank) => self.at(rank),
            None => self.owner_by_view(key),
        }
    }

    /// Returns the peer that owns a key, suspect or not. `None`: this node owns it, or no view.
    #[inline]
    pub(super) fn owner_by_view(&self, key: KeyHash) -> Option<PeerKey> {
        self.ranking.owner(key).and_then(|rank| self.at(rank))
    }

    /// Returns the next peer for a detour: the suspect owner if it answers again, or else the next
    /// candidate. `avoid` excludes nodes. `None`: the owner is not suspect, or no peer is left.
    pub(super) fn detour(&self, key: KeyHash, avoid: impl Fn(&NodeId) -> bool) -> Option<PeerKey> {
        if self.suspect_count == 0 || !self.owner_by_view(key).is_some_and(|owner| self.is_suspect(owner)) {
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

    /// Returns `true` if a suspect peer is eligible to own clients.
    pub(super) fn has_suspects(&self) -> bool {
        self.suspect_count > 0
    }

    /// Returns `true` if a peer is suspect or unknown.
    pub(super) fn is_suspect(&self, peer: PeerKey) -> bool {
        self.peers.get(peer).is_none_or(|peer| peer.trust.is_suspect())
    }

    /// Returns `true` if a peer, suspect or not, has not failed since its last answer.
    pub(super) fn is_answering(&self, peer: PeerKey) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.trust.is_answering() && !peer.is_silent_outsider)
    }

    /// Records that the process of a peer is gone.
    pub(super) fn is_gone(&mut self, peer: PeerKey) {
        if let Some(peer) = self.peers.get_mut(peer) {
            (peer.refused, peer.names_us) = (Some(peer.lane.start()), None);
        }
    }

    /// Records that a peer's view has this node, or lacks it, at least since `since`.
    pub(super) fn names_us(&mut self, peer: PeerKey, since: Instant, names_us: bool) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.names_us = names_us.then(|| peer.names_us.map_or(since, |known| known.max(since)));
            peer.refused = None;
        }
    }

    /// Returns what this node and another one know of each other, also if it has left the view.
    pub(super) fn contact(&self, node: &str) -> Contact {
        if let Some(peer) = self.key(node).and_then(|key| self.peers.get(key)) {
            return Contact { names_us: peer.names_us, refused: peer.refused, named: peer.inbound.named() };
        }
        let former = self.former.iter().rev().find(|former| former.id.as_str() == node);
        let contact = |it: &FormerPeer| Contact { names_us: None, refused: it.refused, named: it.inbound.named() };
        former.map(contact).unwrap_or_default()
    }

    /// Records that a connection to a peer failed. Returns `true` if it is its first failure after
    /// an answer: routes to clients there are over.
    pub(super) fn failed(&mut self, now: Instant, peer: PeerKey) -> bool {
        let is_news = self.peers.get_mut(peer).is_some_and(|peer| peer.trust.failed(now));
        if is_news {
            self.count_suspects();
        }
        is_news
    }

    /// Records that a peer is alive. Returns `true` if this is its first answer after a failure.
    pub(super) fn answered(&mut self, now: Instant, peer: PeerKey) -> bool {
        let Some(peer) = self.peers.get_mut(peer) else { return false };
        peer.last_answer = now;
        peer.trust.answered(now)
    }

    /// Cuts stuck lanes, and has idle ones send a batch. In the view, suspects silent peers and
    /// ends probations. Returns `true` if a peer became healthy, or one stopped answering.
    pub(super) fn sweep(&mut self, now: Instant) -> bool {
        let Self { peers, view, rules, woken, .. } = self;
        let mut changed = false;
        for (key, peer) in peers.iter_mut() {
            if peer.lane.cut_if_stuck(now) || peer.lane.beat(now) {
                woken.push(key);
            }
            let is_silent = now.saturating_duration_since(peer.last_answer) >= rules.suspect_after;
            let is_outsider = view.get(peer.id.as_str()).is_none();
            let was_silent = std::mem::replace(&mut peer.is_silent_outsider, is_silent && is_outsider);
            changed |= peer.is_silent_outsider && !was_silent;
            if is_outsider {
                continue;
            }
            if is_silent {
                changed |= peer.trust.failed(now);
            }
            changed |= peer.trust.end_probation(now);
        }
        if changed {
            self.count_suspects();
        }
        changed
    }

    /// Discounts a pause of this process from the silence of all peers.
    pub(super) fn discount(&mut self, now: Instant, pause: Duration) {
        for peer in self.peers.values_mut() {
            peer.last_answer = now.min(peer.last_answer + pause);
            peer.lane.discount(now, pause);
        }
    }

    /// Restarts all silence timers after a process pause, and ends all exchanges: unread batches
    /// are as old as the pause, and their TTLs stood still.
    pub(super) fn on_process_pause(&mut self, now: Instant) {
        self.resumed_at = Some(now);
        for peer in self.peers.values_mut() {
            peer.last_answer = now;
            (peer.names_us, peer.refused) = (None, None);
            peer.inbound.close();
        }
        self.cut_lanes(now);
    }

    /// Returns `true` right after a process pause: unread openings of lanes may be as old as the
    /// pause, and so are the batches behind them, whose lateness counts from their openings.
    pub(super) fn has_just_resumed(&self, now: Instant) -> bool {
        self.resumed_at.is_some_and(|at| now.saturating_duration_since(at) < BACKLOG_TIME)
    }

    /// Stores a peer's incarnation. Returns `true` if the peer was restarted.
    pub(super) fn record_incarnation(&mut self, peer: PeerKey, incarnation: Incarnation) -> bool {
        let known = self.peers.get_mut(peer).map(|peer| &mut peer.incarnation);
        known.and_then(|known| known.replace(incarnation)).is_some_and(|before| before != incarnation)
    }

    /// Queues an envelope. Returns `false` if there is no room, or no such peer.
    #[inline]
    pub(super) fn push(&mut self, peer: PeerKey, envelope: QueuedEnvelope) -> bool {
        self.lane_mut(peer).is_some_and(|lane| lane.push(envelope))
    }

    /// Queues an outcome for a node, or drops it if the node is unknown or there is no room.
    #[inline]
    pub(super) fn return_outcome(&mut self, node: &NodeId, outcome: QueuedOutcome) {
        let lane = self.key(node.as_str()).and_then(|peer| self.lane_mut(peer));
        let sent = lane.is_some_and(|lane| lane.push_outcome(outcome));
        self.dropped += u64::from(!sent);
    }

    /// Queues any other item for a peer, or drops it without a peer or room.
    pub(super) fn note(&mut self, peer: Option<PeerKey>, item: &Item<'_>) {
        let lane = peer.and_then(|peer| self.lane_mut(peer));
        let sent = lane.is_some_and(|lane| lane.note(MAX_WAITING, |out| item.append(out)));
        self.dropped += u64::from(!sent);
    }

    /// Queues an encoded item of rooms, also above the limit. `is_urgent`: without the flush delay.
    pub(super) fn note_encoded(&mut self, peer: &NodeId, item: &[u8], is_urgent: bool) {
        if let Some(lane) = self.key(peer.as_str()).and_then(|peer| self.lane_mut(peer)) {
            lane.note_encoded(item, is_urgent);
        }
    }

    /// Returns the peers that answer.
    pub(super) fn answering(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.values().filter(|peer| peer.trust.is_answering()).map(|peer| &peer.id)
    }

    /// Queues encoded items that belong together, or drops them without a peer or room.
    pub(super) fn note_bytes(&mut self, peer: PeerKey, items: &[u8]) {
        let sent = self.lane_mut(peer).is_some_and(|lane| lane.note(MAX_WAITING, |out| out.extend_from_slice(items)));
        self.dropped += u64::from(!sent);
    }

    /// Queues an item for every peer that [`Self::is_answering`], or drops it without room.
    pub(super) fn note_to_all(&mut self, item: &Item<'_>) {
        let answering = self.peers.iter().filter(|(_, peer)| peer.trust.is_answering());
        for peer in answering.map(|(key, _)| key).collect::<Vec<_>>() {
            self.note(Some(peer), item);
        }
    }

    /// Queues an item that can also be sent later. Returns `false` if less than half of the room is
    /// left; `true` for an unknown peer, which needs no later try.
    pub(super) fn note_if_roomy(&mut self, peer: PeerKey, item: &Item<'_>) -> bool {
        self.lane_mut(peer).is_none_or(|lane| lane.note(MAX_WAITING / 2, |out| item.append(out)))
    }

    /// Returns `true` if the lane has had no open exchange for 1 s, or its oldest batch is 1 s old
    /// without an acknowledgement. `false` for an unknown peer.
    pub(super) fn is_stalled(&self, now: Instant, peer: PeerKey) -> bool {
        self.lane(peer).is_some_and(|lane| lane.is_stalled(now))
    }

    /// Removes the envelopes of redirected queues. Reads the lane once for all queues.
    pub(super) fn forget(&mut self, peer: PeerKey, queues: &FxHashSet<QueueId>) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.lane.forget(queues);
        }
    }

    /// Returns the final outcome of a message that is on its way in any lane. `None`: none is.
    pub(super) fn outcome_on_its_way(&self, message: (Origin, KeyHash)) -> Option<EnvelopeOutcome> {
        self.peers.values().find_map(|peer| peer.lane.outcome_on_its_way(message))
    }

    /// Returns the lane to a peer. `None`: the peer is unknown.
    pub(super) fn lane(&self, peer: PeerKey) -> Option<&Lane> {
        self.peers.get(peer).map(|peer| &peer.lane)
    }

    /// Returns the lane to a peer for a change, and wakes it for the shell. `None`: unknown peer.
    fn lane_mut(&mut self, key: PeerKey) -> Option<&mut Lane> {
        let peer = self.peers.get_mut(key)?;
        if !std::mem::replace(&mut peer.is_woken, true) {
            self.woken.push(key);
        }
        Some(&mut peer.lane)
    }

    /// Returns the lane to a peer for a change. `None`: unknown peer, or not its last `exchange`.
    pub(super) fn lane_in(&mut self, peer: PeerKey, exchange: ExchangeNumber) -> Option<&mut Lane> {
        self.lane_mut(peer).filter(|lane| lane.is_current(exchange))
    }

    /// Ends the exchanges of all lanes to peers. The shell opens new ones.
    pub fn cut_lanes(&mut self, now: Instant) {
        for (key, peer) in &mut self.peers {
            peer.lane.cut(now);
            self.woken.push(key);
        }
    }

    /// Opens the lane to a peer outside the view in the response to its exchange. Returns the
    /// number. `None`: the exchange is over, or the view has the peer.
    pub(super) fn open_return(&mut self, now: Instant, at: InboundExchange) -> Option<ExchangeNumber> {
        let mut last = self.exchanges;
        let lane = self.return_lane(at)?;
        let exchange = lane.open(now, &mut last);
        lane.opened(now);
        self.exchanges = last;
        Some(exchange)
    }

    /// Returns the lane to a peer outside the view whose exchange is open. `None`: the exchange is
    /// over, or the view has the peer.
    pub(super) fn return_lane(&mut self, at: InboundExchange) -> Option<&mut Lane> {
        let peer = self.peers.get(at.peer)?;
        let is_return = peer.inbound.has(at.incarnation, at.exchange) && self.view.get(peer.id.as_str()).is_none();
        is_return.then(|| self.lane_mut(at.peer)).flatten()
    }

    /// Returns an open exchange of the lane from a peer. `None`: it is over.
    pub(super) fn inbound_of(&mut self, at: InboundExchange) -> Option<&mut InboundLane> {
        self.inbound(at.peer).filter(|inbound| inbound.has(at.incarnation, at.exchange))
    }

    /// Returns the last known incarnation of a peer. `None`: none is known.
    pub(super) fn incarnation(&self, peer: PeerKey) -> Option<Incarnation> {
        self.peers.get(peer)?.incarnation
    }

    /// Returns the lane from a peer. `None`: the peer is unknown.
    pub(super) fn inbound(&mut self, peer: PeerKey) -> Option<&mut InboundLane> {
        self.peers.get_mut(peer).map(|peer| &mut peer.inbound)
    }

    /// Returns `true` if all lanes to peers of the view are idle. Suspect peers do not count.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |peer: &Peer| peer.trust.is_suspect() || peer.lane.is_idle();
        self.peers.values().filter(|peer| self.view.get(peer.id.as_str()).is_some()).all(idle)
    }
}

/// The lanes to peers, as the shell runs them.
impl Peers {
    /// Returns the peer nodes with the addresses (`host:port`) of their internal listeners. `None`:
    /// the view lacks the node, and frames for it return on the exchange that it has opened. A node
    /// of neither kind is left out.
    pub fn addressed(&self) -> impl Iterator<Item = (PeerKey, Option<&str>)> {
        self.peers.iter().filter_map(|(key, peer)| match self.view.get(peer.id.as_str()) {
            Some(member) => Some((key, Some(member.address.as_str()))),
            None => peer.inbound.is_open().then_some((key, None)),
        })
    }

    /// Starts the next exchange of the lane to a peer in place of the last. Returns the content of
    /// its request. `None`: the peer is unknown.
    pub fn open_lane(&mut self, now: Instant, peer: PeerKey) -> Option<Opening> {
        let exchange = self.peers.get_mut(peer)?.lane.open(now, &mut self.exchanges);
        Some(Opening { sender: self.id.to_string(), incarnation: self.incarnation, exchange })
    }

    /// Takes the peers whose lanes may have changed, with the urgency of a frame or exchange end.
    pub fn take_woken_lanes(&mut self) -> Vec<(PeerKey, FlushUrgency)> {
        let Self { peers, woken, .. } = self;
        let mut lanes = Vec::with_capacity(woken.len());
        for key in woken.drain(..) {
            if let Some(peer) = peers.get_mut(key) {
                peer.is_woken = false;
                lanes.push((key, peer.lane.wants()));
            }
        }
        lanes
    }

    /// Takes the lane's next frame, whose batch stays in the window until it is acknowledged.
    /// `None`: nothing to send, the window is full, or `exchange` is not open. A frame has the form
    /// of [`signaling_wire::lane::frame`].
    pub fn take_lane_frame(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber) -> Option<Vec<u8>> {
        let Self { peers, batches, .. } = self;
        let lane = peers.get_mut(peer).map(|peer| &mut peer.lane).filter(|lane| lane.is_current(exchange));
        lane?.take_frame(now, batches)
    }

    /// Handles the end of an exchange. The next one sends the unacknowledged batches again. No
    /// effect if it was replaced.
    pub fn lane_ended(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber) {
        if let Some(lane) = self.lane_in(peer, exchange) {
            lane.ended(now);
        }
    }

    /// Returns `true` if the shell has to end the exchange to a peer, or if the peer is unknown.
    pub fn is_lane_cut(&self, peer: PeerKey) -> bool {
        self.lane(peer).is_none_or(Lane::is_cut)
    }

    /// Takes the acknowledgements that are due now, with their peers.
    pub fn take_acknowledgements(&mut self, now: Instant) -> Vec<(PeerKey, Acknowledgement)> {
        let keys: Vec<_> = self.peers.keys().collect();
        let due = keys.into_iter().map(|key| (key, self.take_acknowledgement(now, key)));
        due.filter_map(|(key, acknowledgement)| Some((key, acknowledgement?))).collect()
    }

    /// Takes the acknowledgement for a peer. `None`: none is due, or the peer is unknown.
    pub(super) fn take_acknowledgement(&mut self, now: Instant, peer: PeerKey) -> Option<Acknowledgement> {
        let Self { peers, view, .. } = self;
        let peer = peers.get_mut(peer)?;
        peer.inbound.take_acknowledgement(now, view.get(peer.id.as_str()).is_some())
    }

    /// Returns the bytes in all lanes to other nodes, queued or without an acknowledgement. Queued
    /// outcomes do not count.
    pub fn lane_bytes(&self) -> usize {
        self.peers.values().map(|peer| peer.lane.waiting_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mesh_node;

    #[test]
    fn answer_counts_from_its_request_and_if_it_names_this_node() {
        let mut node = mesh_node("a", &["a", "b"]);
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let peer = node.peers.key("b").unwrap();
        let exchange = node.peers.open_lane(start, peer).unwrap().exchange;
        node.lane_opened(start, peer, exchange, Incarnation([1; 8]));
        node.peers.sweep(start + second);
        assert!(node.peers.take_lane_frame(start + second, peer, exchange).is_some(), "it is idle");
        let mut answer = |number, names_you| {
            let of = Acknowledgement { number: BatchNumber(number), names_you };
            node.lane_acknowledged(start + 9 * second, peer, exchange, (of, 0)).unwrap();
            node.peers.contact("b").names_us
        };
        assert_eq!([answer(0, true), answer(1, true)], [Some(start), Some(start + second)]);
        assert_eq!(answer(1, false), None);
    }

    #[test]
    fn restart_shows_by_the_incarnation() {
        let mut node = mesh_node("a", &["a", "b"]);
        let peer = node.peers.key("b").unwrap();
        let restarts = [1, 1, 2].map(|byte| node.peers.record_incarnation(peer, Incarnation([byte; 8])));
        assert_eq!(restarts, [false, false, true]);
    }
}
