//! What operators are told of rooms.

use std::ops::Bound;

use signaling_admin::Page;
use signaling_admin::explain::{SeatAt, Standing as At};
use signaling_admin::rooms::{RoomAt, RoomRow, Rooms as Answer};
use signaling_rooms::SeatStatus;
use signaling_wire::SessionId;

use super::super::NodeCore;

impl NodeCore {
    /// A page of the rooms that somebody of this node is in, or in line for.
    #[must_use]
    pub fn rooms_page(&self, page: &Page) -> Answer {
        let behind = page.after().map_or(Bound::Unbounded, Bound::Excluded);
        let rooms = self.rooms.here.range::<str, _>((behind, Bound::Unbounded));
        let (names, more) = page.pick(rooms.map(|(room, _)| room.as_str()));
        let row = |name: &&str| {
            let here = self.rooms.here.get(*name)?;
            let (all, waiting) = (here.sessions.len() as u64, here.waiting.len() as u64);
            let node = self.settings.id.as_str().to_owned();
            Some(RoomRow::at(name, RoomAt { node, members: all.saturating_sub(waiting), waiting }))
        };
        let next = names.last().filter(|_| more).map(|name| (*name).to_owned());
        Answer { rooms: names.iter().filter_map(row).collect(), next, missing: Vec::new() }
    }

    /// The places that a session has in rooms.
    pub(in crate::node) fn seats_of(&self, session: SessionId) -> Vec<SeatAt> {
        let places = self.rooms.guests.get(&session).into_iter().flat_map(|guest| &guest.places);
        let seat = |(room, place): (&signaling_protocol::RoomName, &super::room_session::LocalSeat)| {
            let (standing, ahead) = match place.standing {
                SeatStatus::Member { .. } => (At::Member, None),
                SeatStatus::Waiting { ahead, .. } => (At::Waiting, Some(ahead)),
                SeatStatus::Out | SeatStatus::Unknown => (At::Unknown, None),
            };
            SeatAt { room: room.as_str().to_owned(), standing, ahead }
        };
        places.map(seat).collect()
    }
}
