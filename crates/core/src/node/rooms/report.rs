//! Room data for operators.

use std::ops::Bound;

use signaling_protocol::RoomName;
use signaling_rooms::SeatStatus;
use signaling_wire::SessionId;

use super::super::NodeCore;

impl NodeCore {
    /// Returns the rooms with seats of this node's clients, sorted, starting after `after`.
    pub fn rooms_after(&self, after: Option<&str>) -> impl Iterator<Item = &RoomName> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.rooms.here.range::<str, _>((behind, Bound::Unbounded)).map(|(room, _)| room)
    }

    /// Returns the numbers of members and waiting clients of a room among this node's clients.
    pub fn room(&self, room: &str) -> Option<(u64, u64)> {
        let here = self.rooms.here.get(room)?;
        let (all, waiting) = (here.sessions.len() as u64, here.waiting.len() as u64);
        Some((all.saturating_sub(waiting), waiting))
    }

    /// Returns the seats of a session.
    pub fn seats_of(&self, session: SessionId) -> impl Iterator<Item = (&RoomName, &SeatStatus)> {
        let guest = self.rooms.guests.get(&session).into_iter();
        guest.flat_map(|guest| &guest.places).map(|(room, place)| (room, &place.standing))
    }
}
