//! One session's seats, and its pending commands.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{Seat, SeatStatus, Stamp, Who};
use signaling_wire::SessionId;
use signaling_wire::seats::Seat as SeatState;

use super::super::SessionKey;
use super::super::deadline::Deadline;
use super::budget::AcceptedBroadcasts;
use super::task::Purpose;

/// Version of a client that needs the whole state of a room.
pub(super) const UNTOLD: Stamp = Stamp { incarnation: 0, version: 0 };

/// Returns `true` if a client that received `told` does not have all of `known`.
pub(super) fn is_behind(told: Stamp, known: Stamp) -> bool {
    told.incarnation != known.incarnation || told.version < known.version
}

/// A session's seat in a room, as stored at this node.
#[derive(Debug, Clone)]
pub(super) struct LocalSeat {
    pub(super) standing: SeatStatus,
    pub(super) data: Option<Box<str>>,
    /// Number of the last command for this seat.
    pub(super) number: u64,
    /// The room's state that the client has, or [`UNTOLD`]. It moves with the seat.
    pub(super) told: Stamp,
    /// Clients ahead in the queue as last sent to the client, and the time. `None`: not sent.
    pub(super) told_line: Option<(u64, Instant)>,
}

impl LocalSeat {
    pub(super) fn is_member(&self) -> bool {
        matches!(self.standing, SeatStatus::Member { .. })
    }
}

/// A client's command for a room.
#[derive(Debug, Clone)]
pub(in crate::node) enum Ask {
    Join {
        data: Option<Box<str>>,
    },
    Leave,
    Members {
        after: Option<ClientId>,
    },
    Broadcast {
        payload: Rc<[u8]>,
        deadline: Deadline,
        fresh: bool,
        /// A node may have accepted it before. Then it may be under way and is not refused.
        again: bool,
    },
    /// A signal, sent if its recipient shares a room with the sender.
    Signal {
        to: ClientId,
        payload: Rc<[u8]>,
        deadline: Deadline,
        fresh: bool,
    },
    /// The client said goodbye.
    Farewell,
}

/// A pending command.
#[derive(Debug, Clone)]
pub(in crate::node) struct Command {
    /// The session key of its socket.
    pub(in crate::node) at: SessionKey,
    pub(in crate::node) seq: u64,
    pub(in crate::node) number: u64,
    pub(in crate::node) id: Option<u64>,
    /// Its room. For a signal, the room of the current question to the store.
    pub(in crate::node) room: Option<RoomName>,
    pub(in crate::node) ask: Ask,
}

impl Command {
    /// Returns the purpose of its question to the store.
    pub(super) fn purpose(&self, session: SessionId) -> Purpose {
        Purpose::Command { session, at: self.at, seq: self.seq }
    }
}

/// A session with seats or pending commands. It may linger.
#[derive(Debug)]
pub(super) struct RoomSession {
    pub(super) client: ClientId,
    pub(super) accepted_at_us: u64,
    pub(super) places: BTreeMap<RoomName, LocalSeat>,
    /// Queue of commands. The store works on the first one.
    pub(super) commands: VecDeque<Command>,
    /// Members found for the first command so far.
    pub(super) found: Vec<ClientId>,
    pub(super) let_through: AcceptedBroadcasts,
    /// Time at which its socket was lost. `None`: the socket is here.
    pub(super) lost: Option<Instant>,
}

impl RoomSession {
    pub(super) fn new(client: ClientId, accepted_at_us: u64) -> Self {
        let (places, commands) = (BTreeMap::new(), VecDeque::new());
        Self {
            client,
            accepted_at_us,
            places,
            commands,
            found: Vec::new(),
            let_through: AcceptedBroadcasts::default(),
            lost: None,
        }
    }

    /// Creates the record of a session from another node.
    pub(super) fn from_elsewhere(client: ClientId, accepted_at_us: u64) -> Self {
        Self { let_through: AcceptedBroadcasts::elsewhere(), ..Self::new(client, accepted_at_us) }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Returns the bytes of its `data` in all other rooms.
    pub(super) fn shown_elsewhere(&self, room: &RoomName) -> usize {
        let others = self.places.iter().filter(|(name, _)| *name != room);
        others.map(|(_, place)| place.data.as_deref().map_or(0, str::len)).sum()
    }

    pub(super) fn who(&self, session: SessionId, number: u64, node: &NodeId) -> Who {
        Who { client: self.client.clone(), session, accepted_at_us: self.accepted_at_us, number, node: node.clone() }
    }

    /// Returns its seat for the store.
    pub(super) fn seat(&self, session: SessionId, room: &RoomName, node: &NodeId) -> Option<Seat> {
        let place = self.places.get(room)?;
        let who = self.who(session, place.number, node);
        Some(Seat { who, standing: place.standing, data: place.data.clone() })
    }

    /// Returns its seats for the next node.
    pub(super) fn seat_states(&self) -> Vec<SeatState<'_>> {
        let mut seats = Vec::with_capacity(self.places.len());
        for (room, LocalSeat { standing, data, number, told, told_line }) in &self.places {
            let (member, place) = match *standing {
                SeatStatus::Member { place } => (true, place),
                SeatStatus::Waiting { place, .. } => (false, place),
                SeatStatus::Out | SeatStatus::Unknown => continue,
            };
            let Stamp { incarnation, version } = *told;
            let (room, number, ahead, data) =
                (room.as_str(), *number, told_line.map(|(ahead, _)| ahead), data.as_deref());
            seats.push(SeatState { room, member, place, number, incarnation, version, ahead, data });
        }
        seats
    }
}
