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
//! | sessions come, move and go | `attach`, `session`, `directory` |
//! | two sockets want one id | `takeover` |
//! | sessions without a socket, and clients that come back to them | `linger`, `pending_resume` |
//! | clients that are not where the ranking says | `location` |
//! | the other nodes: view, owners, suspects, lanes | `view`, `peers` |
//! | whom a session writes to | `recipients` |
//! | rooms | `rooms` |
//! | what operators are told | `report` |
//! | batches from other nodes, and to them | `batch`, `lane` |
//! | by what numbers all this goes | `rules` |

mod attach;
mod batch;
mod custody;
mod deadline;
mod deduplicator;
mod directory;
mod hold;
mod inputs;
mod kicking;
mod lane;
mod linger;
mod location;
mod outbound;
mod outbound_queues;
mod outcome;
mod peers;
mod pending_resume;
mod report;
mod request;
mod rooms;
mod route;
mod rules;
mod session;
mod sweep;
mod takeover;
mod trunks;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::edge::KickList;
use signaling_protocol::{ErrorCode, NodeId};
use signaling_wire::Incarnation;
use signaling_wire::grant::SignalScope;
use slotmap::new_key_type;

use self::custody::Custody;
use self::directory::Directory;
use self::peers::Peers;
use self::rooms::Rooms;
use self::trunks::Trunks;
use crate::ice::IceServers;

pub use self::directory::UndeliveredSender;
pub use self::hold::HoldLimits;

pub use self::rooms::{RoomCounts, RoomFigures, RoomSettings, RoomTask, Urgency};
pub use self::rules::Rules;
pub use self::sweep::INTERVAL as SWEEP_INTERVAL;

new_key_type! {
    /// An edge's connection.
    pub struct TrunkKey;
    /// Another node.
    pub struct PeerKey;
    struct SessionKey;
    struct QueueKey;
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
    peers: Peers,
    trunks: Trunks,
    directory: Directory,
    custody: Custody,
    rooms: Rooms,
    kicks: KickList,
    ice: IceServers,
    /// Whom clients may signal whose tokens do not say.
    signal_scope: SignalScope,
    scratch: Vec<u8>,
    counts: Counts,
}

impl NodeCore {
    /// A node without clients, peers and view.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            peers: Peers::new(&settings),
            custody: Custody::new(&settings),
            trunks: Trunks::default(),
            directory: Directory::new(settings.epoch.0, &settings.rules),
            rooms: Rooms::new(settings.epoch.0, settings.rooms),
            kicks: KickList::default(),
            ice: IceServers::default(),
            signal_scope: SignalScope::default(),
            scratch: Vec::new(),
            counts: Counts::default(),
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

    /// Sessions with a socket.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.directory.attached_clients().len()
    }

    /// Whether nothing here waits for anything, and nothing is under way to nodes that can be reached.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.directory.is_empty() && self.custody.is_empty() && self.rooms.is_quiet() && self.peers.is_quiet()
    }

    /// Sessions without a socket that can be resumed.
    #[must_use]
    pub fn lingering(&self) -> usize {
        self.directory.lingering_len()
    }

    /// Takes the clients that came to have many undelivered messages.
    pub fn take_undelivered_senders(&mut self) -> Vec<UndeliveredSender> {
        self.directory.take_undelivered_senders()
    }

    /// Bytes that wait for absent recipients.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.custody.holds().bytes()
    }

    /// How many bytes may wait for absent recipients in all, and how many sessions for their clients.
    #[must_use]
    pub fn limits(&self) -> (usize, usize) {
        (self.settings.hold_limits.bytes, self.settings.rules.max_lingering)
    }

    /// Messages for which there was no room to wait in, or none for their recipient.
    #[must_use]
    pub fn hold_refused(&self) -> u64 {
        self.custody.holds().refused()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let dropped = self.counts.dropped + self.peers.dropped();
        Counts { dropped, ..self.counts }
    }
}
