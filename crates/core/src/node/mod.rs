//! The node's decisions: who is attached, where messages go, what waits, and who must be told what.
//!
//! Pure: no socket, clock or task. Trunk batches come in by [`NodeCore::trunk_frames`], batches of other nodes by
//! [`NodeCore::batch`]; what is to be sent is taken out by [`NodeCore::take_trunk_batch`] and
//! [`NodeCore::take_lane_batch`].
//!
//! The way of a message: an `Up` is read (`request`), put in custody (`outbox`) and sent to where its recipient is or
//! should be (`route`): down a trunk here, into a peer's lane (`peer`), or it waits (`hold`). The recipient's edge
//! confirms, and the fate goes back the same way (`fate`) to end the custody and tell the sender's edge.
//!
//! | what else | where |
//! |---|---|
//! | frames of edges, and the trunks that carry them | `inputs`, `trunks` |
//! | sessions come, move and go | `attach`, `session` |
//! | two sockets want one id | `takeover` |
//! | sessions without a socket, and clients who come back to them | `linger`, `expected` |
//! | clients that are not where the ranking says | `location` |
//! | nodes that do not answer | `suspicion` |
//! | a new set of nodes | `view` |
//! | whom a session writes to | `recipients` |
//! | who writes to peers that are not there | `nobody` |
//! | rooms | `rooms` |
//! | what operators are told | `report` |
//! | batches from other nodes, and to them | `batch`, `lane` |
//! | by what numbers all this goes | `rules` |

mod attach;
mod batch;
mod expected;
mod fate;
mod hold;
mod inputs;
mod kicking;
mod lane;
mod life;
mod linger;
mod location;
mod nobody;
mod outbox;
mod peer;
mod recipients;
mod report;
mod request;
mod rooms;
mod route;
mod rules;
mod session;
mod suspicion;
mod sweep;
mod takeover;
mod trunks;
mod view;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::View;
use crate::edge::{FlushUrgency, KickList};
use rustc_hash::FxHashMap;
use signaling_protocol::{ClientId, ErrorCode, NodeId};
use signaling_rendezvous::Ranking;
use signaling_wire::Incarnation;
use signaling_wire::grant::SignalScope;
use signaling_wire::trunk::ToEdge;
use slotmap::{SlotMap, new_key_type};

use self::expected::PendingResume;
use self::hold::HoldQueues;
use self::lane::Lane;
use self::linger::Lingering;
use self::location::Location;
use self::outbox::OutboundQueue;
use self::peer::{Peer, Received, Sender};
use self::rooms::Rooms;
use self::session::Session;
use self::trunks::Trunks;
use crate::ice::IceServers;

pub use self::hold::HoldLimits;
pub use self::nobody::UndeliveredSender;
pub use self::rooms::{RoomCounts, RoomFigures, RoomSettings, RoomTask, Urgency};
pub use self::rules::Rules;
pub use self::sweep::INTERVAL as SWEEP_INTERVAL;

new_key_type! {
    /// An edge's connection.
    pub struct TrunkKey;
    /// Another node.
    pub struct PeerKey;
    struct SessionKey;
    struct ChainKey;
}

/// What a node is told at its start.
#[derive(Clone)]
pub struct Settings {
    /// Its name.
    pub id: NodeId,
    /// Drawn for this process.
    pub incarnation: Incarnation,
    /// Seed of the rendezvous hash, the same on all servers.
    pub hash_seed: u64,
    /// How long a message waits for an absent recipient.
    pub hold: Duration,
    /// How long a session without a socket can be resumed.
    pub resume: Duration,
    /// How much may wait.
    pub hold_limits: HoldLimits,
    /// The other times and bounds of custody.
    pub rules: Arc<Rules>,
    /// How rooms are kept.
    pub rooms: RoomSettings,
    /// Largest client message, told in `welcome`.
    pub max_message_bytes: usize,
    /// Whether clients are told which node serves them.
    pub reveal_nodes: bool,
    /// Signs resume tokens, until [another](NodeCore::set_mesh_secrets) takes its place.
    pub mesh_secret: Arc<[u8]>,
    /// One moment on both clocks: the core dates tokens by it, without a clock of its own. See
    /// [`NodeCore::set_clock`].
    pub epoch: (Instant, SystemTime),
}

/// What happened so far, and how things stand, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Requests that were refused, in the order of [`ErrorCode::ALL`].
    pub refused: [u64; ErrorCode::ALL.len()],
    /// Messages written to their recipient.
    pub delivered: u64,
    /// Messages given up.
    pub unavailable: u64,
    /// Envelopes sent to other nodes, repeats included.
    pub forwarded: u64,
    /// Envelopes passed on for other nodes.
    pub passed_on: u64,
    /// Envelopes sent again.
    pub resends: u64,
    /// What was meant for other nodes, or came from them, and got no further: no room, no such node any more, no valid name.
    pub dropped: u64,
    /// Sessions attached.
    pub attached: u64,
    /// Sessions gone.
    pub detached: u64,
    /// Sessions refused.
    pub rejected: u64,
    /// Sessions that went on on another socket.
    pub resumed: u64,
    /// Sessions without a socket for which there was no room.
    pub lingering_refused: u64,
    /// Sessions without a socket that came from another node.
    pub lingering_moved: u64,
    /// Messages whose hold time ran out here.
    pub expired: u64,
    /// Copies sent round by another node, because the owner could not be relied on.
    pub detours: u64,
}

impl Counts {
    fn refuse(&mut self, code: ErrorCode) {
        if let Some(count) = self.refused.get_mut(code as usize) {
            *count += 1;
        }
    }
}

/// The node's state.
pub struct NodeCore {
    settings: Settings,
    /// What else resume tokens may be signed with: the mesh secret is being changed.
    other_secrets: Vec<Arc<[u8]>>,
    view: Arc<View>,
    ranking: Ranking,
    /// By place in `ranking`; none for this node itself.
    peer_by_rank: Vec<Option<PeerKey>>,
    peers: SlotMap<PeerKey, Peer>,
    /// Names of servers that know the mesh secret: nobody picks them so that a fast hash is slow.
    peer_by_id: FxHashMap<NodeId, PeerKey>,
    /// Batches ever sent, to whomever: a peer that was out of the view for a while must not see a number again.
    batches: u64,
    received: Received,
    trunks: Trunks,
    sessions: SlotMap<SessionKey, Session>,
    session_by_client: HashMap<ClientId, SessionKey>,
    chains: SlotMap<ChainKey, OutboundQueue>,
    holds: HoldQueues,
    /// Clients that are elsewhere than the ranking says.
    locations: HashMap<ClientId, Location>,
    /// When owners are told again of clients that are here.
    tell_again_at: Instant,
    /// Sessions here whose owners are told once their lanes have room.
    unannounced: VecDeque<SessionKey>,
    lingering: HashMap<ClientId, Lingering>,
    expected: HashMap<ClientId, PendingResume>,
    /// Sessions that lost their id to another socket, and until when their edges may say what they wrote.
    parting: Vec<(SessionKey, Instant)>,
    /// How many nodes of the ranking cannot be relied on now.
    suspects: usize,
    ticket_salt: u64,
    /// Clients have come or gone: messages to them may have to go elsewhere.
    stirred: bool,
    /// Clients that operators are to be told of.
    writers_to_nobody: Vec<UndeliveredSender>,
    /// Sessions with a contender.
    contended: Vec<SessionKey>,
    rooms: Rooms,
    kicks: KickList,
    ice: IceServers,
    /// Whom clients may signal whose tokens do not say.
    signal_scope: SignalScope,
    scratch: Vec<u8>,
    counts: Counts,
    draining: bool,
}

impl NodeCore {
    /// A node without clients, peers and view.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            ranking: Ranking::new(settings.hash_seed, std::iter::empty::<&str>()),
            holds: HoldQueues::new(settings.hold_limits),
            ticket_salt: u64::from_le_bytes(settings.incarnation.0),
            view: Arc::default(),
            peer_by_rank: Vec::new(),
            peers: SlotMap::with_key(),
            peer_by_id: FxHashMap::default(),
            batches: 0,
            received: Received::default(),
            trunks: Trunks::default(),
            sessions: SlotMap::with_key(),
            session_by_client: HashMap::new(),
            chains: SlotMap::with_key(),
            locations: HashMap::new(),
            tell_again_at: settings.epoch.0,
            unannounced: VecDeque::new(),
            lingering: HashMap::new(),
            expected: HashMap::new(),
            parting: Vec::new(),
            suspects: 0,
            stirred: false,
            contended: Vec::new(),
            writers_to_nobody: Vec::new(),
            rooms: Rooms::new(settings.epoch.0, settings.rooms),
            kicks: KickList::default(),
            ice: IceServers::default(),
            signal_scope: SignalScope::default(),
            scratch: Vec::new(),
            counts: Counts::default(),
            draining: false,
            other_secrets: Vec::new(),
            settings,
        }
    }

    /// From now on the first signs resume tokens, and those signed with any of them are taken.
    pub fn set_mesh_secrets(&mut self, secrets: Vec<Arc<[u8]>>) {
        let mut secrets = secrets.into_iter();
        if let Some(first) = secrets.next() {
            self.settings.mesh_secret = first;
            self.other_secrets = secrets.collect();
        }
    }

    /// Tells clients from now on of these ICE servers.
    pub fn set_ice_servers(&mut self, ice: IceServers) {
        self.ice = ice;
    }

    /// Lets clients whose tokens do not say otherwise signal only these.
    pub fn set_signal_scope(&mut self, scope: SignalScope) {
        self.signal_scope = scope;
    }

    /// Sets the time of day by one moment on both clocks. Calls a few times a second keep it right when
    /// the system clock is set, or the machine was suspended. Deadlines do not depend on it.
    pub fn set_clock(&mut self, moment: (Instant, SystemTime)) {
        self.settings.epoch = moment;
    }

    /// The time of day, for what is dated.
    fn wall(&self, now: Instant) -> SystemTime {
        let (instant, wall) = self.settings.epoch;
        wall + now.saturating_duration_since(instant)
    }

    /// How urgently a lane wants to send.
    #[must_use]
    pub fn lane_wants(&self, peer: PeerKey, lane: usize) -> FlushUrgency {
        self.peers.get(peer).and_then(|peer| peer.lanes.get(lane)).map_or(FlushUrgency::Idle, Lane::wants)
    }

    /// Takes what waits in a lane as one batch, which is then under way until [`NodeCore::lane_answered`] or
    /// [`NodeCore::lane_lost`].
    pub fn take_lane_batch(&mut self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        let Self { settings, view, peers, batches, .. } = self;
        let sender = Sender { id: settings.id.as_str(), incarnation: settings.incarnation, view: view.hash() };
        peers.get_mut(peer)?.lanes.get_mut(lane)?.take_batch(now, lane, &sender, batches)
    }

    /// The batch that is under way in a lane once more, for another try: the lives of its messages have gone on.
    #[must_use]
    pub fn lane_batch_again(&self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        let Self { settings, view, peers, .. } = self;
        let sender = Sender { id: settings.id.as_str(), incarnation: settings.incarnation, view: view.hash() };
        peers.get(peer)?.lanes.get(lane)?.batch_again(now, lane, &sender)
    }

    /// The other nodes, with the addresses of their internal listeners.
    pub fn peers(&self) -> impl Iterator<Item = (PeerKey, &str)> {
        self.peers.iter().filter_map(|(key, peer)| Some((key, self.view.get(peer.id.as_str())?.address.as_str())))
    }

    /// Sessions with a socket.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.session_by_client.len()
    }

    /// Whether nothing here waits for anything, and nothing is under way to nodes that can be reached.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let idle = |peer: &Peer| peer.trust.is_suspect() || peer.lanes.iter().all(Lane::is_idle);
        self.sessions.is_empty()
            && self.chains.is_empty()
            && self.holds.bytes() == 0
            && self.rooms.is_quiet()
            && self.peers.values().filter(|peer| self.view.get(peer.id.as_str()).is_some()).all(idle)
    }

    /// Sessions without a socket that can be resumed.
    #[must_use]
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Bytes that wait for absent recipients.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.holds.bytes()
    }

    /// How many bytes may wait for absent recipients in all, and how many sessions for their clients.
    #[must_use]
    pub fn limits(&self) -> (usize, usize) {
        (self.settings.hold_limits.bytes, self.settings.rules.max_lingering)
    }

    /// Messages for which there was no room to wait in, or none for their recipient.
    #[must_use]
    pub fn hold_refused(&self) -> u64 {
        self.holds.refused()
    }

    /// How many lanes each peer has.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.settings.rules.lanes.get()
    }

    /// Bytes that wait in lanes to other nodes.
    #[must_use]
    pub fn lane_bytes(&self) -> usize {
        self.peers.values().flat_map(|peer| &peer.lanes).map(Lane::waiting_bytes).sum()
    }

    /// How many may.
    #[must_use]
    pub fn lane_bytes_limit(&self) -> usize {
        self.peers.len() * self.lanes() * lane::MAX_WAITING
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Tells all edges, now and later, that this node will stop.
    pub fn drain(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.draining, true) {
            self.trunks.send_to_all(None, &ToEdge::Draining);
            self.rank(now);
        }
    }

    /// Tells all edges that this node takes sessions again, if it was to stop.
    pub fn undrain(&mut self, now: Instant) {
        if std::mem::take(&mut self.draining) {
            self.trunks.send_to_all(None, &ToEdge::Serving);
            self.rank(now);
        }
    }
}
