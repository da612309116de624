//! The node's decisions: attached sessions, routes of messages, held messages, items for peers.
//!
//! Pure: no socket, clock or task. A node's shell and the simulation call [`NodeCore`].
//!
//! - An edge terminates the WebSockets of clients. Its trunk multiplexes their sessions to a node.
//! - A lane is the ordered stream of batches to a peer node. Batches hold items. An envelope is an
//!   item with a message of a client.
//! - A view is the set of nodes from discovery. Rendezvous hashing ranks the eligible ones for each
//!   client, and the first one owns the client.
//! - Custody is the duty to keep and retransmit a message until its outcome is known.
//! - A lingering session has no socket and can be resumed.
//!
//! [`NodeCore`] coordinates the parts below, which do not call each other:
//!
//! | part | content |
//! |---|---|
//! | `trunks` | slots and queued frames of each trunk |
//! | `peers` | view, ranking, suspicion, lanes to other nodes |
//! | `directory` | sessions, lingering sessions, locations, waiting newcomers |
//! | `custody` | outbound queues and held messages |
//! | `rooms` | seats and room commands, rooms that this node owns or backs up |
//!
//! Path of a message: it arrives by [`NodeCore::trunk_frames`] or [`NodeCore::batch`] (`inputs`,
//! `batch`). A `request` puts it into an outbound queue. `route` sends it down a trunk or into a
//! lane, or holds it. The recipient's edge confirms it, and its `outcome` takes the path back.
//! [`NodeCore::take_trunk_batch`] and [`Peers::take_lane_frame`] return the bytes to send.
//!
//! | other paths through the parts | module |
//! |---|---|
//! | attach, resume, release, detach | `attach`, `linger`, `pending_resume` |
//! | two sockets of one client id | `takeover` |
//! | clients at other nodes than the ranking names | `location` |
//! | sockets whose rank is too low in a room | `ranks` |
//! | views, suspects, draining, lanes | `view` |
//! | what rooms read, and their effects | `room_context`, `carry_out` |
//! | journal of rooms and clients | `journal`, `registry` |
//! | kicks | `kicking` |
//! | periodic work | `sweep` |
//! | answers for operators | `report` |
//! | times and bounds of custody | `rules` |

mod attach;
mod batch;
mod carry_out;
mod custody;
mod deadline;
mod delivered_ids;
mod directory;
mod envelope_queue;
mod hold;
mod inbound_lane;
mod inputs;
mod journal;
mod kicking;
mod lane;
mod linger;
mod lingering_subjects;
mod location;
mod outbound;
mod outcome;
mod peers;
mod pending_resume;
mod ranks;
mod registry;
mod report;
mod request;
mod room_context;
mod route;
mod rules;
mod session;
mod sweep;
mod takeover;
mod trunks;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::edge::KickList;
use signaling_protocol::{ErrorCode, NodeId, RoomName, limits};
use signaling_rooms::{NodeProcess, RoomSettings, Rooms, SocketKey as SessionKey};
use signaling_wire::{Counter, Incarnation, resume};
use slotmap::new_key_type;

use self::custody::Custody;
use self::directory::Directory;
use self::outbound::OutboundMessage;
use crate::ice::IceServers;

pub use self::batch::{BatchError, InboundExchange};
pub use self::directory::UndeliveredSender;
pub use self::hold::HoldLimits;
pub use self::kicking::KickedHere;
pub use self::peers::Peers;
pub use self::report::SessionReport;
pub use self::rules::Rules;
pub use self::sweep::{IDLE_SWEEP_INTERVAL, SWEEP_INTERVAL};
pub use self::trunks::Trunks;

new_key_type! {
    /// Key of an edge's trunk. After the trunk is removed it names no other trunk.
    pub struct TrunkKey;
    /// Key of another node. After the node is forgotten it names no other node.
    pub struct PeerKey;
    struct QueueKey;
}

/// Settings of a node.
#[derive(Clone)]
pub struct Settings {
    /// The node's name.
    pub id: NodeId,
    /// Random id of this process start.
    pub incarnation: Incarnation,
    /// Seed of the rendezvous hash, the same on all servers.
    pub hash_seed: u64,
    /// Hold time for absent recipients: the maximum TTL of messages from this node's clients.
    /// Messages of other nodes have TTLs by the hold times there.
    pub hold: Duration,
    /// Time in which a session without a socket can be resumed. 0: it cannot.
    pub resume: Duration,
    /// Maximum bytes of held messages. A further one is dropped; its sender's node retransmits it.
    pub hold_limits: HoldLimits,
    /// Other times and limits of custody.
    pub rules: Arc<Rules>,
    /// Settings of rooms.
    pub rooms: RoomSettings,
    /// Maximum bytes of a client message, as `welcome` states it. Edges enforce it.
    pub max_message_bytes: usize,
    /// `true` if clients receive the name of their node.
    pub reveal_nodes: bool,
    /// Key that signs resume tokens, until [`NodeCore::set_resume_keys`] replaces it.
    pub resume_key: resume::Key,
    /// One moment on both clocks. The core dates resume tokens, TURN credentials and kicks by it
    /// until [`NodeCore::set_clock`] replaces it.
    pub epoch: (Instant, SystemTime),
    /// First number of the counter: `epoch` in microseconds since 1970.
    pub first_number: u64,
}

impl Settings {
    /// Creates settings for a mesh with hash seed 0. Messages are held for 20 s and have at most
    /// 64 KiB, sessions can be resumed for 30 s, nodes are not revealed.
    pub fn new(id: NodeId, incarnation: Incarnation, resume_key: resume::Key, epoch: (Instant, SystemTime)) -> Self {
        let since_1970 = epoch.1.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id,
            incarnation,
            hash_seed: 0,
            hold: Duration::from_secs(20),
            resume: Duration::from_secs(30),
            hold_limits: HoldLimits::default(),
            rules: Arc::default(),
            rooms: RoomSettings::default(),
            max_message_bytes: limits::DEFAULT_MESSAGE_BYTES,
            reveal_nodes: false,
            resume_key,
            epoch,
            first_number: u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// Events since the start, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Requests of clients that reached this node, including retransmitted and refused ones.
    pub requests: u64,
    /// Refused requests, in the order of [`ErrorCode::ALL`]. Signals to unavailable recipients
    /// count in `unavailable` alone.
    pub refused: [u64; ErrorCode::ALL.len()],
    /// Delivered messages of this node's clients: `received` by a reliable recipient, or written to
    /// another recipient's socket. A broadcast is one message for each other member.
    pub delivered: u64,
    /// Messages of this node's clients without a confirmed delivery: expired, given up, skipped by
    /// the recipient's edge, or above [`Rules::max_for_absent`]. A broadcast counts per member.
    pub unavailable: u64,
    /// Envelopes of this node's clients queued for other nodes, including retransmissions.
    pub forwarded: u64,
    /// Envelopes of other nodes queued for a third node, except those in `detours`.
    pub relayed: u64,
    /// Retransmissions of messages of this node's clients.
    pub retransmissions: u64,
    /// Items dropped: no room in a lane or hold, node unknown, name invalid, content damaged, or
    /// message expired. Senders' nodes retransmit the messages that are not expired.
    pub dropped: u64,
    /// Sessions attached with a socket: new, resumed, handed off to this node, or attached again.
    pub attached: u64,
    /// Sessions resumed on another socket.
    pub resumed: u64,
    /// Sessions that lost their socket here and do not linger, by [`Rules::max_lingering`] or the
    /// limit of their token's subject.
    pub lingering_refused: u64,
    /// Lingering sessions received from other nodes, whether stored or not.
    pub lingering_moved: u64,
    /// Messages that were held here until they expired.
    pub expired: u64,
    /// Extra copies of messages, queued for other nodes while the recipient's owner was suspect.
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
    /// Further keys of valid resume tokens, during a change of the mesh secret.
    other_resume_keys: Vec<resume::Key>,
    counter: Counter,
    peers: Peers,
    trunks: Trunks,
    directory: Directory,
    custody: Custody,
    rooms: Rooms<OutboundMessage>,
    /// Rooms to read from the journal, until [`NodeCore::take_journal_reads`]. Rooms limit them.
    journal_reads: Vec<RoomName>,
    kicks: KickList,
    ice: IceServers,
    scratch: Vec<u8>,
    counts: Counts,
    /// Time of the last sweep. `None`: there was none.
    swept_at: Option<Instant>,
    /// `true` if the last sweep came late and left its work.
    was_sweep_late: bool,
}

impl NodeCore {
    /// Creates a node without clients, peers and view.
    pub fn new(settings: Settings) -> Self {
        let Settings { ref id, incarnation, hash_seed, epoch, .. } = settings;
        let process = NodeProcess { id: id.clone(), incarnation, hash_seed, start: epoch.0 };
        Self {
            counter: Counter::starting_at(epoch.0, settings.first_number),
            peers: Peers::new(&settings),
            custody: Custody::new(&settings),
            trunks: Trunks::default(),
            directory: Directory::new(&settings.rules, settings.rooms.has_journal),
            rooms: Rooms::new(&process, settings.rooms),
            journal_reads: Vec::new(),
            kicks: KickList::default(),
            ice: IceServers::default(),
            scratch: Vec::new(),
            counts: Counts::default(),
            swept_at: None,
            was_sweep_late: false,
            other_resume_keys: Vec::new(),
            settings,
        }
    }

    /// Signs resume tokens with the first key from now on, and accepts those of all keys. An empty
    /// list has no effect.
    pub fn set_resume_keys(&mut self, keys: Vec<resume::Key>) {
        let mut keys = keys.into_iter();
        if let Some(first) = keys.next() {
            self.settings.resume_key = first;
            self.other_resume_keys = keys.collect();
        }
    }

    /// Sets the ICE servers for `welcome` messages and for answers to requests of ICE servers.
    /// Connected clients do not receive them unasked.
    pub fn set_ice_servers(&mut self, ice: IceServers) {
        self.ice = ice;
    }

    /// Sets the time of day by one moment on both clocks. A few calls per second keep it correct
    /// after a clock change or a suspend. Deadlines and times of rooms do not depend on it.
    pub fn set_clock(&mut self, moment: (Instant, SystemTime)) {
        self.settings.epoch = moment;
    }

    /// Returns the number of the counter, for acknowledgements of lanes.
    pub fn number(&self, now: Instant) -> u64 {
        self.counter.present(now)
    }

    /// Returns the time of day, for dated values.
    fn wall(&self, now: Instant) -> SystemTime {
        let (instant, wall) = self.settings.epoch;
        wall + now.saturating_duration_since(instant)
    }

    /// Returns the number of sessions with a socket.
    pub fn sessions(&self) -> usize {
        self.directory.attached_clients().len()
    }

    /// Returns `true` if nothing keeps this node from stopping:
    ///
    /// - It serves no session. Lingering ones do not count.
    /// - No message is pending or held, and no room command is pending.
    /// - No room waits here for its next owner.
    /// - All peers of the view, except suspects, have acknowledged their items.
    pub fn is_quiet(&self) -> bool {
        let has_messages = !self.custody.is_empty() || !self.peers.is_quiet();
        self.directory.sessions.is_empty() && !has_messages && self.rooms.is_quiet()
    }

    /// Returns `true` if no message, takeover, location or room operation waits for a sweep. Sweeps
    /// every [`IDLE_SWEEP_INTERVAL`] then suffice.
    pub fn is_idle(&self) -> bool {
        self.custody.is_empty() && self.directory.is_settled() && self.rooms.is_idle()
    }

    /// Returns the number of lingering sessions.
    pub fn lingering(&self) -> usize {
        self.directory.lingering.len()
    }

    /// Takes the reports of clients with many undelivered signals: one for every 100 of a session.
    /// There are at most 8; further ones are dropped.
    pub fn take_undelivered_senders(&mut self) -> Vec<UndeliveredSender> {
        std::mem::take(&mut self.directory.undelivered)
    }

    /// Returns the bytes of held messages, with 160 bytes of overhead for each. They wait for
    /// absent recipients, or for confirms of a present recipient's edge.
    pub fn held_bytes(&self) -> usize {
        self.custody.holds.bytes()
    }

    /// Returns the events since the start.
    pub fn counts(&self) -> Counts {
        let dropped = self.counts.dropped + self.peers.dropped() + self.rooms.dropped();
        let mut counts = Counts { dropped, ..self.counts };
        counts.refused.iter_mut().zip(self.rooms.refused()).for_each(|(all, of_rooms)| *all += of_rooms);
        counts
    }
}
