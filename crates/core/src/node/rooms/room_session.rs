//! One session's seats, and the commands it waits for.

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

/// What a client was told of a room that has to be given the whole state.
pub(super) const UNTOLD: Stamp = Stamp { incarnation: 0, version: 0 };

/// Whether a client that was told `told` does not know all of `known`.
pub(super) fn is_behind(told: Stamp, known: Stamp) -> bool {
    told.incarnation != known.incarnation || told.version < known.version
}

/// A place in a room.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) standing: SeatStatus,
    pub(super) data: Option<Box<str>>,
    /// Of the last command that concerned it.
    pub(super) number: u64,
    /// The room's state that the client knows, or [`UNTOLD`]: so the next node knows too.
    pub(super) told: Stamp,
    /// How many its client was told to be in front of it, and when.
    pub(super) told_line: Option<(u64, Instant)>,
}

impl Place {
    pub(super) fn is_member(&self) -> bool {
        matches!(self.standing, SeatStatus::Member { .. })
    }
}

/// What a client asks of a room.
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
        /// A node may have let it through before: it may be on its way to some, and is not refused.
        again: bool,
    },
    /// To be sent if the recipient is in a room with the sender.
    Signal {
        to: ClientId,
        payload: Rc<[u8]>,
        deadline: Deadline,
        fresh: bool,
    },
    /// The client has said goodbye.
    Farewell,
}

/// A command that waits for its turn.
#[derive(Debug, Clone)]
pub(in crate::node) struct Command {
    /// The socket that it came on.
    pub(in crate::node) at: SessionKey,
    pub(in crate::node) seq: u64,
    pub(in crate::node) number: u64,
    pub(in crate::node) id: Option<u64>,
    /// The room that it concerns; of a signal the one that the store is asked about.
    pub(in crate::node) room: Option<RoomName>,
    pub(in crate::node) ask: Ask,
}

impl Command {
    /// What the store's answer is for.
    pub(super) fn purpose(&self, session: SessionId) -> Purpose {
        Purpose::Command { session, at: self.at, seq: self.seq }
    }
}

/// A session that is in rooms, or wants to be. It may have lost its socket, and linger.
#[derive(Debug)]
pub(super) struct RoomSession {
    pub(super) client: ClientId,
    pub(super) accepted_at_us: u64,
    pub(super) places: BTreeMap<RoomName, Place>,
    /// The first is under way.
    pub(super) commands: VecDeque<Command>,
    /// What the first has found so far, page by page.
    pub(super) found: Vec<ClientId>,
    pub(super) let_through: AcceptedBroadcasts,
    /// Since when it has no socket here.
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

    /// One that comes from another node.
    pub(super) fn from_elsewhere(client: ClientId, accepted_at_us: u64) -> Self {
        Self { let_through: AcceptedBroadcasts::elsewhere(), ..Self::new(client, accepted_at_us) }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Bytes that it shows in all rooms but `room`.
    pub(super) fn shown_elsewhere(&self, room: &RoomName) -> usize {
        let others = self.places.iter().filter(|(name, _)| *name != room);
        others.map(|(_, place)| place.data.as_deref().map_or(0, str::len)).sum()
    }

    pub(super) fn who(&self, session: SessionId, number: u64, node: &NodeId) -> Who {
        Who { client: self.client.clone(), session, accepted_at_us: self.accepted_at_us, number, node: node.clone() }
    }

    /// Its seat as the store knows seats.
    pub(super) fn seat(&self, session: SessionId, room: &RoomName, node: &NodeId) -> Option<Seat> {
        let place = self.places.get(room)?;
        let who = self.who(session, place.number, node);
        Some(Seat { who, standing: place.standing, data: place.data.clone() })
    }

    /// Its seats as they travel with it.
    pub(super) fn seat_states(&self) -> Vec<SeatState<'_>> {
        let mut seats = Vec::with_capacity(self.places.len());
        for (room, Place { standing, data, number, told, told_line }) in &self.places {
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
