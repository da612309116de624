//! Bytes that count for their node while the value that has them lives.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use signaling_protocol::RoomName;

use super::room_session::LocalSeat;

/// Bytes of a seat at its client's node, apart from the room's name and the `data`.
const SEAT_BYTES: usize = 400;

/// The sum of all [`CountedBytes`] of a node.
pub(crate) type ByteTotal = Rc<Cell<usize>>;

/// A part of a [`ByteTotal`], which ends with the value.
#[derive(Debug, Default)]
pub(super) struct CountedBytes {
    total: ByteTotal,
    bytes: usize,
}

impl CountedBytes {
    pub(super) fn new(total: &ByteTotal) -> Self {
        Self { total: Rc::clone(total), bytes: 0 }
    }

    pub(super) fn set(&mut self, bytes: usize) {
        self.total.set(self.total.get() + bytes - self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The seats of one session, by room. Boxed: the smallest map has space for eleven values, and most
/// sessions have one seat.
#[derive(Debug, Default)]
pub(super) struct Seats {
    by_room: BTreeMap<RoomName, Box<LocalSeat>>,
    bytes: CountedBytes,
}

impl Seats {
    pub(super) fn new(total: &ByteTotal) -> Self {
        Self { by_room: BTreeMap::new(), bytes: CountedBytes::new(total) }
    }

    pub(super) fn get(&self, room: &RoomName) -> Option<&LocalSeat> {
        self.by_room.get(room).map(|seat| &**seat)
    }

    pub(super) fn contains(&self, room: &RoomName) -> bool {
        self.by_room.contains_key(room)
    }

    pub(super) fn len(&self) -> usize {
        self.by_room.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_room.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&RoomName, &LocalSeat)> {
        self.by_room.iter().map(|(room, seat)| (room, &**seat))
    }

    pub(super) fn insert(&mut self, room: RoomName, seat: LocalSeat) {
        self.remove(&room);
        self.bytes.set(self.bytes.bytes + bytes_of(&room, &seat));
        self.by_room.insert(room, Box::new(seat));
    }

    pub(super) fn remove(&mut self, room: &RoomName) -> Option<LocalSeat> {
        let seat = self.by_room.remove(room)?;
        self.bytes.set(self.bytes.bytes - bytes_of(room, &seat));
        Some(*seat)
    }

    /// Removes all seats, and returns them.
    pub(super) fn take(&mut self) -> Vec<(RoomName, LocalSeat)> {
        self.bytes.set(0);
        std::mem::take(&mut self.by_room).into_iter().map(|(room, seat)| (room, *seat)).collect()
    }

    /// Returns a seat, whose `data` must not change.
    pub(super) fn get_mut(&mut self, room: &RoomName) -> Option<&mut LocalSeat> {
        self.by_room.get_mut(room).map(|seat| &mut **seat)
    }

    /// Returns all seats, whose `data` must not change.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&RoomName, &mut LocalSeat)> {
        self.by_room.iter_mut().map(|(room, seat)| (room, &mut **seat))
    }
}

fn bytes_of(room: &RoomName, seat: &LocalSeat) -> usize {
    SEAT_BYTES + room.as_str().len() + seat.seat.data.as_deref().map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use signaling_protocol::{ClientId, NodeId};
    use signaling_wire::SessionId;

    use super::super::room_session::NO_STATE;
    use super::*;
    use crate::{Requester, Seat, SeatStatus};

    fn seat(data: usize) -> LocalSeat {
        let (client, node) = (ClientId::new("a").unwrap(), NodeId::new("n").unwrap());
        let requester =
            Requester { client, session: SessionId([1; 16]), accepted_at_us: 1, attachment: 1, number: 1, node };
        let seat = Seat { requester, status: SeatStatus::Out, data: Some("x".repeat(data).into()) };
        LocalSeat { seat, sent: NO_STATE, confirmed_in: (0, 0), sent_ahead: None, is_over: false }
    }

    #[test]
    fn seats_count_until_they_end() {
        let total = ByteTotal::default();
        let [mut seats, mut others] = [Seats::new(&total), Seats::new(&total)];
        let room = |name| RoomName::new(name).unwrap();
        seats.insert(room("r"), seat(10));
        seats.insert(room("r"), seat(20));
        seats.insert(room("s"), seat(0));
        others.insert(room("r"), seat(5));
        assert_eq!(total.get(), 3 * (SEAT_BYTES + 1) + 25);
        assert!(seats.remove(&room("r")).is_some() && seats.remove(&room("r")).is_none());
        drop(others);
        assert_eq!(total.get(), SEAT_BYTES + 1);
        assert_eq!((seats.take().len(), total.get()), (1, 0));
    }
}
