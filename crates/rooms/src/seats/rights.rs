//! Rights in rooms, by the client's token. A session leaves the rooms that it does not admit any
//! more. Tokens change when a client renews its token, or resumes its session with another one.

use signaling_protocol::RoomName;
use signaling_wire::SessionId;
use signaling_wire::grant::Grant;

use super::messages;
use super::task::{Purpose, Urgency};
use crate::{Context, LeftReason, Operation, Requester, RoomOptions, Step};

/// Returns [`Grant::admits`]. `None` also if the room's option requires a pattern and the grant is
/// for all rooms.
pub(super) fn admits(grant: &Grant, room: &RoomName) -> Option<Option<u32>> {
    if grant.rooms.is_none() && RoomOptions::of(room).named { None } else { grant.admits(room.as_str()) }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Has a session leave each room that the grant of its present socket does not admit. The
    /// client receives `left`. No effect without a socket here, or without a grant.
    pub fn leave_forbidden_rooms(&mut self, session: SessionId) {
        let Some(key) = self.attached_key(session) else { return };
        let Some(grant) = self.cx.socket(key).and_then(|session| session.grant) else { return };
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let forbidden = room_session.seats.keys().filter(|room| admits(grant, room).is_none()).cloned();
        let forbidden: Vec<_> = forbidden.collect();
        let seat = |room| room_session.seats.remove(&room).map(|seat| (room, seat));
        let seats: Vec<_> = forbidden.into_iter().filter_map(seat).collect();
        if seats.is_empty() {
            return;
        }
        let attachment = room_session.at.attachment;
        self.send_state(session);
        for (room, local) in seats {
            self.local.remove_seat(&room, session);
            self.notify(key, messages::left(&room, LeftReason::Forbidden).into());
            let op = Operation::Revoke { requester: Requester { attachment, ..local.seat.requester } };
            self.local.enqueue(Urgency::Urgent, Purpose::Upkeep, room, op);
        }
        self.remove_if_idle(session);
    }
}
