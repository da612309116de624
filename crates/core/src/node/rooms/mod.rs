//! Rooms, as far as this node's clients are in them: it has the store carry out their commands,
//! keeps their seats alive, and tells them what has changed.
//!
//! Pure, as all of the core: what the store is to be asked is taken out by
//! [`NodeCore::take_room_tasks`], and what it answers comes in by [`NodeCore::room_answered`].
//!
//! | what | where |
//! |---|---|
//! | who is in which rooms, and what they have asked | `guest` |
//! | commands of clients, one at a time each | `command` |
//! | a message to all others in a room, and how many it may reach | `broadcast`, `reach` |
//! | signals of those who may write only within rooms | `scope`, `others` |
//! | the rooms that somebody here is in, and what is due there | `here` |
//! | what clients here are told of a room, and other nodes | `tell` |
//! | in which words | `words` |
//! | seats are kept alive, given back to a store that lost them, and given up | `presence` |
//! | guests come from other nodes, and go | `moving` |
//! | what the store is asked | `task` |
//! | whom an operator's registry knows to be here | `registry` |
//! | what operators are told | `report` |

mod broadcast;
mod budget;
mod command;
mod known_members;
mod local_room;
mod moving;
mod presence;
mod registry;
mod report;
mod room_session;
mod scope;
mod task;
mod tell;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::edge::Rate;
use signaling_protocol::RoomName;
use signaling_wire::SessionId;

use self::command::Held;
use self::local_room::LocalRoom;
use self::registry::Arrivals;
use self::room_session::RoomSession;

pub(super) use self::broadcast::Tally;
pub(super) use self::budget::BroadcastBudget;
pub(super) use self::room_session::{Ask, Command};
pub use self::task::{RoomTask, Urgency};
pub(super) use self::words::change;

/// What a node is told of rooms at its start.
#[derive(Debug, Clone, Copy)]
pub struct RoomSettings {
    /// Whether the store serves the whole mesh. If not, rooms cannot be had in a mesh of several
    /// nodes.
    pub shared: bool,
    /// How often seats are refreshed.
    pub presence: Duration,
    /// How long the seat of somebody is kept whose session has ended without a goodbye.
    pub grace: Duration,
    /// Whether a registry wants to hear who comes and goes.
    pub registered: bool,
    /// Most rooms that a client may be in, or in line for.
    pub per_client: usize,
    /// Most clients in line for a room, as the store has it; none: no limit.
    pub line: Option<u32>,
    /// How many members one client's broadcasts may reach; none: any number.
    pub reach: Option<Rate>,
}

impl Default for RoomSettings {
    /// Rooms of this node alone, by the usual times.
    fn default() -> Self {
        let (presence, grace) = (Duration::from_secs(20), Duration::from_secs(20));
        Self { shared: false, presence, grace, registered: false, per_client: 256, line: None, reach: None }
    }
}

/// What a client shows in all its rooms comes to so many bytes at most: it moves with the client
/// from node to node.
const MAX_SHOWN: usize = 64 * 1024;

/// All that a node knows of rooms.
pub(super) struct Rooms {
    settings: RoomSettings,
    guests: BTreeMap<SessionId, RoomSession>,
    here: BTreeMap<RoomName, LocalRoom>,
    /// Rooms that have something to tell, or to ask, as soon as its time comes.
    active: BTreeSet<RoomName>,
    urgent: VecDeque<RoomTask>,
    background: VecDeque<RoomTask>,
    refresh_at: Instant,
    refill_after: Instant,
    store_is_away: bool,
    probe_at: Instant,
    /// The room that was looked at last.
    probed: Option<RoomName>,
    /// Sessions whose first command waits for members to be back.
    held: BTreeMap<SessionId, Held>,
    look_for_ended_at: Instant,
    arrivals: Arrivals,
    counts: RoomCounts,
}

/// What happened in rooms so far, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoomCounts {
    /// Commands of clients that were carried out.
    pub commands: u64,
    /// Operations that the store did not carry out.
    pub failures: u64,
    /// Times that the clients here had to be given the whole state of a room, because changes were
    /// missing.
    pub resyncs: u64,
    /// Seats that the store had lost and was given back.
    pub restored: u64,
    /// Broadcasts.
    pub broadcasts: u64,
    /// Joins refused because the client was in as many rooms as it may be.
    pub too_many_rooms: u64,
    /// Joins refused because the line was full.
    pub full_lines: u64,
}

/// How things stand in rooms, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoomFigures {
    /// Rooms with anybody of this node.
    pub rooms: usize,
    /// Seats of members.
    pub members: usize,
    /// Places in lines.
    pub waiting: usize,
}

impl Rooms {
    pub(super) fn new(start: Instant, settings: RoomSettings) -> Self {
        Self {
            settings,
            guests: BTreeMap::new(),
            here: BTreeMap::new(),
            active: BTreeSet::new(),
            urgent: VecDeque::new(),
            background: VecDeque::new(),
            refresh_at: start + settings.presence,
            refill_after: start,
            store_is_away: false,
            probe_at: start,
            probed: None,
            held: BTreeMap::new(),
            look_for_ended_at: start,
            arrivals: Arrivals::new(settings.registered),
            counts: RoomCounts::default(),
        }
    }

    /// Whether anybody here has asked for something that the store has not answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.guests.values().all(|guest| !guest.is_busy())
    }
}
