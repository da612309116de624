//! Rooms of this node's clients: their commands, their seats, and the changes that they receive.
//!
//! Their operations wait as tasks for the owners of the rooms (`replication`).
//!
//! | content | module |
//! |---|---|
//! | a session's seats, and its commands | `room_session` |
//! | commands, one at a time for each session | `command` |
//! | broadcasts | `broadcast`, `accepted_requests` |
//! | limits of new rooms and fan-out, and their budgets | `limits`, `budget` |
//! | signals of clients that are confined to their rooms | `scope` |
//! | rooms with a seat at this node | `local_room` |
//! | changes and states sent to clients here and to other nodes | `changes`, `change_sequencer` |
//! | JSON texts for clients | `messages` |
//! | commands and broadcasts of sockets without an answer | `sockets` |
//! | seats: claimed, restored after a loss of the room, dropped | `presence` |
//! | seats that move between nodes | `handoff` |
//! | commands whose socket has too low a rank | `ranks` |
//! | seats that a token does not admit any more | `rights` |
//! | operations for owners | `task` |

mod accepted_requests;
mod broadcast;
mod budget;
mod change_sequencer;
mod changes;
mod command;
mod handoff;
mod limits;
mod local_room;
mod messages;
mod presence;
mod ranks;
mod rights;
mod room_session;
mod scope;
mod sockets;
mod task;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use signaling_protocol::{ErrorCode, RoomName};
use signaling_wire::SessionId;
use signaling_wire::grant::SignalScope;
use signaling_wire::rate::Rate;

use self::budget::Budgets;
use self::command::HeldCommand;
use self::local_room::LocalRoom;
use self::room_session::RoomSession;
use self::sockets::SocketWork;

pub use self::command::Refusal;
pub(crate) use self::messages::change_from_wire;
pub use self::presence::CHECKS_PER_SWEEP;
pub use self::room_session::{Command, CommandKind};
pub(crate) use self::task::RoomTask;
use self::task::Urgency;
use crate::counted::{ByteTotal, CountedMap};
use crate::outputs::Outputs;
use crate::{OpResult, Rooms, Rules, SeatAttachment, SeatStatus, Socket, SocketKey, Unavailable};

/// Room settings of a node: times and limits.
#[derive(Debug, Clone, Copy)]
pub struct RoomSettings {
    /// Rules of rooms, equal on all nodes.
    pub rules: Rules,
    /// `true` to keep announced operations, without a limit, until
    /// [`Rooms::take_commits`] takes them. For tests of whole meshes.
    pub records_commits: bool,
    /// Time that a seat is kept after its client's socket was lost, or the resume time if that is
    /// longer.
    pub seat_grace: Duration,
    /// Maximum seats of a client. A further join is refused as `overloaded`.
    pub max_seats_per_client: usize,
    /// Maximum bytes of owned rooms, copies and seats of clients at this node. Beyond it a join
    /// that needs more is refused as `overloaded`.
    pub max_bytes: usize,
    /// Signal scope of clients whose tokens name none: any recipients, or members of their rooms.
    pub signal_scope: SignalScope,
    /// Maximum fan-out of one client per second, and at once: members that receive its broadcasts,
    /// joins, leaves and new data. A member counts once for each started 4 KiB of a broadcast, and
    /// 64 bytes of an answer with members count as one. Beyond it its requests but leaves are
    /// `rate_limited`, or delayed for a dialect. `None`: no limit.
    pub broadcast_rate: Option<Rate>,
    /// Maximum new rooms/s of a client, and 60 times as many at once. Clients with the same token
    /// subject make 4 times as many together, and 200 times at once. Beyond it a join is
    /// `rate_limited`, or delayed for a dialect. A grant's rate replaces it. `None`: no limit.
    pub new_rooms: Option<u32>,
    /// `true` if owned rooms are written to a journal, and read back from it.
    pub has_journal: bool,
}

impl Default for RoomSettings {
    /// Seats are kept for 20 s. 256 seats of a client and 128 MiB are the only limits. Any signals.
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            records_commits: false,
            seat_grace: Duration::from_secs(20),
            max_seats_per_client: 256,
            max_bytes: 128 * 1024 * 1024,
            signal_scope: SignalScope::default(),
            broadcast_rate: None,
            new_rooms: None,
            has_journal: false,
        }
    }
}

/// Maximum bytes of `data` of a client in all its rooms. It moves between nodes with the client.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// All rooms and seats of this node's clients.
pub(crate) struct LocalRooms<M> {
    settings: RoomSettings,
    sessions: BTreeMap<SessionId, RoomSession<M>>,
    /// Sockets with commands or broadcasts without an answer.
    sockets: BTreeMap<SocketKey, SocketWork>,
    pub(crate) outputs: Outputs<M>,
    /// Sessions to be checked for their end, with the times from which they wait for that: all
    /// without a socket here, and new ones. An entry counts if the session has its time.
    checks: VecDeque<(Instant, SessionId)>,
    by_name: BTreeMap<RoomName, LocalRoom>,
    /// Bytes of `by_name`, of the seats in `sessions`, and of the node's owned rooms and copies.
    bytes: ByteTotal,
    /// Rooms with pending work: changes to announce, or requests to owners.
    active: BTreeSet<RoomName>,
    /// The last active room of the last sweep. `None`: the sweep was through.
    active_until: Option<RoomName>,
    /// Operations that wait for owners, by urgency.
    tasks: [VecDeque<RoomTask>; Urgency::COUNT],
    /// Sessions whose first command waits for lost members or for a budget.
    held: BTreeMap<SessionId, HeldCommand>,
    budgets: Budgets,
    /// Time of the last sweep.
    swept_at: Instant,
    operator_answers: Vec<RoomAnswer>,
    /// Number of seats that were dropped during their sessions.
    drops: u32,
    counts: RoomCounts,
    /// Items for nodes that were dropped.
    pub(crate) dropped: u64,
    /// Refused requests, in the order of [`ErrorCode::ALL`].
    pub(crate) refused: [u64; ErrorCode::ALL.len()],
}

/// The answer to an operator's request, with its number. `Err`: no result; the operation may have
/// been applied or not.
pub type RoomAnswer = (u64, Result<OpResult, Unavailable>);

/// Events in rooms since the start, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoomCounts {
    /// Joins, leaves and requests for members that were answered without an error.
    pub commands: u64,
    /// Operations without a result of the owner, or skipped because 50,000 were queued.
    pub failures: u64,
    /// Resyncs of rooms at this node: requests for the whole state because changes were missing.
    pub resyncs: u64,
    /// Seats sent to an owner that may have lost them.
    pub restored: u64,
    /// Broadcasts sent to the members of a room: one each, for any number of members.
    pub broadcasts: u64,
    /// Joins refused because the client had its maximum of seats.
    pub too_many_rooms: u64,
    /// Joins refused because the room and its waiting queue were full. In a dialect's room with a
    /// capacity every join without a seat counts.
    pub full_queues: u64,
    /// Joins refused because their client, or its token's subject, made too many new rooms.
    pub joins_over_new_rooms: u64,
    /// Joins refused because the room's owner or backup had no bytes left for them.
    pub joins_over_bytes: u64,
    /// Joins refused because their client reached too many members.
    pub joins_over_fan_out: u64,
}

/// Current number of rooms and seats at this node, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoomFigures {
    /// Rooms with a seat at this node.
    pub rooms: usize,
    /// Seats of members.
    pub members: usize,
    /// Seats in waiting queues.
    pub waiting: usize,
}

impl<M> LocalRooms<M> {
    /// `bytes`: the total that its rooms and seats count for.
    pub(crate) fn new(start: Instant, settings: RoomSettings, bytes: ByteTotal) -> Self {
        Self {
            settings,
            sessions: BTreeMap::new(),
            sockets: BTreeMap::new(),
            outputs: Outputs::default(),
            checks: VecDeque::new(),
            by_name: BTreeMap::new(),
            bytes,
            active: BTreeSet::new(),
            active_until: None,
            tasks: Default::default(),
            held: BTreeMap::new(),
            budgets: Budgets::default(),
            swept_at: start,
            operator_answers: Vec::new(),
            drops: 0,
            counts: RoomCounts::default(),
            dropped: 0,
            refused: [0; ErrorCode::ALL.len()],
        }
    }

    /// Returns `true` if rare sweeps suffice: no room has pending work, no command is held, and no
    /// check of a session is overdue.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty() && self.held.is_empty() && !self.is_check_due()
    }

    /// Returns a session, which `new` creates if it is unknown.
    fn session(&mut self, id: SessionId, new: impl FnOnce() -> RoomSession<M>) -> &mut RoomSession<M> {
        let Self { sessions, checks, swept_at, bytes, .. } = self;
        sessions.entry(id).or_insert_with(|| {
            checks.push_back((*swept_at, id));
            RoomSession { checked_from: Some(*swept_at), seats: CountedMap::new(bytes), ..new() }
        })
    }

    /// Returns the attachment of a session's socket, with the drops of this node.
    fn attachment_of(&self, socket: &Socket<'_>) -> SeatAttachment {
        let attachment = room_session::later_attachment(u64::from(socket.attachment) << 40, self.drops);
        SeatAttachment { rank: socket.rank, attachment, socket: socket.socket }
    }

    pub(crate) fn local_rooms(&self) -> impl Iterator<Item = &RoomName> {
        self.by_name.keys()
    }

    /// Returns `true` if the node may stop: no command of a session is pending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.sessions.values().all(|room_session| room_session.commands.is_empty())
    }
}

impl<M> Rooms<M> {
    /// Returns the rooms with seats at this node, sorted, after the name `after`. `None`: all.
    pub fn names_after(&self, after: Option<&str>) -> impl Iterator<Item = &RoomName> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.local.by_name.range::<str, _>((behind, Bound::Unbounded)).map(|(room, _)| room)
    }

    /// Returns the numbers of members and waiting clients of a room at this node. `None`: no seat.
    pub fn counts_of(&self, room: &str) -> Option<(u64, u64)> {
        let local = self.local.by_name.get(room)?;
        Some((local.members.len() as u64, local.waiting.len() as u64))
    }

    /// Returns the rooms in which a session has seats at this node, with the status of each seat as
    /// last known here. Empty without any.
    pub fn seats_of(&self, session: SessionId) -> impl Iterator<Item = (&RoomName, &SeatStatus)> {
        let room_session = self.local.sessions.get(&session).into_iter();
        room_session.flat_map(|room_session| room_session.seats.iter()).map(|(room, local)| (room, &local.seat.status))
    }

    /// Returns the present numbers of rooms and seats.
    pub fn figures(&self) -> RoomFigures {
        let local = self.local.by_name.values();
        let members = local.clone().map(|local| local.members.len()).sum();
        let waiting = local.map(|local| local.waiting.len()).sum();
        RoomFigures { rooms: self.local.by_name.len(), members, waiting }
    }

    /// Returns the counts of room events since the start.
    pub fn counts(&self) -> RoomCounts {
        self.local.counts
    }
}
