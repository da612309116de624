//! Items of peers about rooms.

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;

use crate::seats::change_from_wire;
use crate::{Context, Stamp, Step};

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Handles an item of a peer about rooms. Ignores others.
    pub fn received(&mut self, sender: &NodeId, item: &Item<'_>) {
        match item {
            Item::RoomRequest { id, room, epoch, op } => self.room_requested_by(sender, *id, (room, *epoch), op),
            Item::RoomResult { id, result } => self.room_result(*id, result),
            Item::RoomLog { .. } => self.room_logged(sender, item),
            Item::RoomCopy { .. } => self.room_copy_part(sender, item),
            Item::RoomCopied { room, epoch, answer } => self.room_copied(sender, room, *epoch, *answer),
            Item::RoomRetired { room, epoch } => self.room_retired(sender, room, *epoch),
            Item::RoomsFull => self.peer_rooms_full(sender),
            Item::ClaimSeats(room) => {
                if let Ok(room) = RoomName::new(room) {
                    self.claim_seats(&room);
                }
            }
            Item::ViewQuery { view, query, adoption } => self.view_queried(sender, (*view, *query), *adoption),
            Item::ViewConfirmed { query, adoption, rooms, former, last } => {
                self.view_confirmed(sender, (*query, *adoption), (rooms, former), *last);
            }
            Item::RoomChanged { room, incarnation, epoch, base, version, changes, queue_moved } => {
                let Ok(room) = RoomName::new(room) else { return };
                let at = Stamp { incarnation: *incarnation, version: *version };
                match changes.iter().map(change_from_wire).collect() {
                    Some(changes) => {
                        if self.follow_epoch(&room, (*epoch, *base), at) {
                            self.room_changed(&room, at, changes, *queue_moved);
                        }
                    }
                    None => self.local.dropped += 1,
                }
            }
            _ => {}
        }
    }
}
