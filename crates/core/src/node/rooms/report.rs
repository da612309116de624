//! Room data for the operators' API and the metrics of the shell.

use std::ops::Bound;

use signaling_protocol::RoomName;
use signaling_rooms::SeatStatus;
use signaling_wire::SessionId;

use super::super::NodeCore;
use super::{RoomCounts, RoomFigures};

impl NodeCore {
    /// Returns the rooms with seats at this node, sorted, after the name `after`. `None`: all.
    pub fn rooms_after(&self, after: Option<&str>) -> impl Iterator<Item = &RoomName> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.rooms.local.range::<str, _>((behind, Bound::Unbounded)).map(|(room, _)| room)
    }

    /// Returns the numbers of members and waiting clients of a room at this node. `None`: no seat.
    pub fn room(&self, room: &str) -> Option<(u64, u64)> {
        let local = self.rooms.local.get(room)?;
        Some((local.members.len() as u64, local.waiting.len() as u64))
    }

    /// Returns the rooms in which a session has seats at this node, with the status of each seat as
    /// last known here. Empty without any.
    pub fn seats_of(&self, session: SessionId) -> impl Iterator<Item = (&RoomName, &SeatStatus)> {
        let room_session = self.rooms.sessions.get(&session).into_iter();
        room_session.flat_map(|room_session| &room_session.seats).map(|(room, local)| (room, &local.seat.status))
    }

    /// Returns the present numbers of rooms and seats.
    pub fn room_figures(&self) -> RoomFigures {
        let local = self.rooms.local.values();
        let members = local.clone().map(|local| local.members.len()).sum();
        let waiting = local.map(|local| local.waiting.len()).sum();
        RoomFigures { rooms: self.rooms.local.len(), members, waiting }
    }

    /// Returns the counts of room events since the start.
    pub fn room_counts(&self) -> RoomCounts {
        self.rooms.counts
    }
}
