//! Claims seats, restores them after a loss of the room, drops them after their session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_wire::{MessageNumber, SessionId};

use super::room_session::{Command, LocalSeat, NO_STATE, RoomSession, later_attachment};
use super::task::{Purpose, Urgency};
use super::{LocalRooms, messages};
use crate::op::SOCKET_END;
use crate::{Context, LeftReason, OpResult, Operation, Requester, Seat, SeatStatus, Stamp, Step};

/// Maximum seats of one operation.
const SEATS_PER_OP: usize = 200;
/// Time from the loss of a socket to the check of its session for its end, and between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum checks in one sweep: they take 8 ms.
pub const CHECKS_PER_SWEEP: usize = 5_000;
/// Minimum time between two queue positions for one client: shorter than the interval of requests,
/// whose answers arrive unevenly.
const MIN_POSITION_INTERVAL: Duration = Duration::from_millis(950);

impl<M> LocalRooms<M> {
    /// Queues the check of a session for its end, unless it is queued.
    fn queue_check(&mut self, id: SessionId) {
        let Some(room_session) = self.sessions.get_mut(&id).filter(|it| it.checked_from.is_none()) else { return };
        room_session.checked_from = Some(self.swept_at);
        self.checks.push_back((self.swept_at, id));
    }

    /// Returns `true` if a session has waited for its check for 500 ms at the last sweep.
    pub(super) fn is_check_due(&self) -> bool {
        self.checks.front().is_some_and(|(from, _)| self.swept_at.saturating_duration_since(*from) >= CHECK_INTERVAL)
    }

    /// Takes the sessions that have waited for their check for 500 ms, at most 5,000 in one call.
    fn take_due_checks(&mut self) -> Vec<SessionId> {
        let mut due = Vec::new();
        while due.len() < CHECKS_PER_SWEEP
            && self.is_check_due()
            && let Some((from, id)) = self.checks.pop_front()
        {
            let queued = self.sessions.get_mut(&id).and_then(|it| it.checked_from.take_if(|it| *it == from));
            due.extend(queued.map(|_| id));
        }
        due
    }

    /// Restores seats that the room may have lost. `seen` is a version of the room that one of the
    /// clients has received, or 0.
    pub(super) fn restore(&mut self, room: &RoomName, sessions: &[SessionId], seen: u64) {
        let version = self.followed_state(room).version.max(seen);
        let capacity = self.by_name.get(room).and_then(|local| local.own_capacity);
        let mut by_confirmation: BTreeMap<(u64, u64), Vec<_>> = BTreeMap::new();
        for session in sessions.iter().copied().filter(|session| !self.is_over(*session, room)) {
            let confirmed_in = self.seat(session, room).map_or((0, 0), |seat| seat.confirmed_in);
            by_confirmation.entry(confirmed_in).or_default().push(session);
        }
        for (confirmed_in, sessions) in by_confirmation {
            let (seats, sent) = self.seats(room, &sessions);
            self.counts.restored += seats.len() as u64;
            self.enqueue_seats(room, Operation::Restore { seats, confirmed_in, version, capacity }, sent);
        }
    }

    /// Has a seat expire after [`Rules::stale`](crate::Rules::stale), unless the session
    /// has it at this node or claims it again.
    pub(super) fn drop_seat(&mut self, session: SessionId, room: &RoomName, requester: Requester) {
        if self.seat_mut(session, room).is_none() {
            let op = Operation::Drop { requester, keep: self.settings.rules.stale };
            self.enqueue(Urgency::Background, Purpose::Upkeep, room.clone(), op);
        }
    }

    /// Returns seats, and the latest state of the room that their clients have. That is the state
    /// that this node follows if none of theirs is later and comparable.
    fn seats(&self, room: &RoomName, sessions: &[SessionId]) -> (Vec<Seat>, Stamp) {
        let followed = self.followed_state(room);
        let mut latest = followed;
        let seat = |session: &SessionId| {
            let room_session = self.sessions.get(session)?;
            let LocalSeat { seat, sent, .. } = room_session.seats.get(room)?.as_ref();
            let is_comparable = followed == NO_STATE || sent.incarnation == followed.incarnation;
            if is_comparable && sent.version > latest.version {
                latest = *sent;
            }
            let mut seat = seat.clone();
            seat.requester.attachment = room_session.at.attachment;
            Some(seat)
        };
        let seats = sessions.iter().filter_map(seat).collect();
        (seats, latest)
    }

    fn enqueue_seats(&mut self, room: &RoomName, op: Operation, sent: Stamp) {
        let purpose = Purpose::Seats { known: self.followed_state(room), sent };
        self.enqueue(Urgency::Background, purpose, room.clone(), op);
    }

    /// Restores seats if their clients have a later state, `sent`, than the owner, `at`, which then
    /// has lost operations. These clients get the whole state. Returns `true` if it
    /// restores them.
    pub(super) fn restore_later(&mut self, room: &RoomName, seats: &[Seat], sent: Stamp, at: Stamp) -> bool {
        let is_later = sent.incarnation == at.incarnation && sent.version > at.version;
        if is_later {
            let sessions: Vec<_> = seats.iter().map(|seat| seat.requester.session).collect();
            self.restore(room, &sessions, sent.version);
            for session in sessions {
                if self.seat_mut(session, room).is_some_and(|local| local.is_member()) {
                    self.schedule_state_of_arrival(room, session);
                }
            }
        }
        is_later
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Does the periodic work of rooms. `detached`: sessions that lost their sockets since.
    pub fn sweep(&mut self, detached: &[SessionId]) {
        self.drop_ended_sessions(detached);
        self.process_active_rooms();
        self.retry_held();
        self.local.budgets.sweep(self.now);
        self.sweep_copies();
    }

    /// Returns `true` if this node claims the seats. It has the socket, or no other node owns
    /// the client or has its socket.
    fn is_responsible_for(&self, session: SessionId) -> bool {
        let Some(RoomSession { client, .. }) = self.local.sessions.get(&session) else { return false };
        let client = client.as_str();
        self.attached_key(session).is_some() || self.cx.is_home(client)
    }

    /// Claims seats that came from another node or may have changed.
    pub(crate) fn claim_unconfirmed(&mut self, room: &RoomName) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        let sessions = std::mem::take(&mut local.unconfirmed);
        self.claim(room, sessions);
    }

    fn claim(&mut self, room: &RoomName, sessions: BTreeSet<SessionId>) {
        let is_lost = self.local.by_name.get(room).is_some_and(|local| local.sequencer.may_be_lost());
        let mut sessions: Vec<_> = sessions.into_iter().filter(|session| self.is_responsible_for(*session)).collect();
        if is_lost {
            // A seat that is over is not restored. A claim after the loss reports it.
            let over = sessions.extract_if(.., |session| self.local.is_over(*session, room)).collect::<Vec<_>>();
            over.into_iter().for_each(|session| self.local.schedule_claim(room, session));
        }
        for sessions in sessions.chunks(SEATS_PER_OP) {
            if is_lost {
                self.local.restore(room, sessions, 0);
            } else {
                let (seats, sent) = self.local.seats(room, sessions);
                self.local.enqueue_seats(room, Operation::Claim { seats }, sent);
            }
        }
    }

    /// Applies the owner's answer about claimed or restored seats, and restores lost ones if
    /// `may_restore`. Returns `false` if it restores any.
    pub(super) fn seats_answered(
        &mut self,
        room: &RoomName,
        seats: &[Seat],
        result: &OpResult,
        may_restore: bool,
    ) -> bool {
        let mut lost = Vec::new();
        // While seats are restored, clients ahead in the queue may still be missing.
        let queue_length = may_restore.then_some(result.waiting);
        for (Seat { requester, .. }, &status) in seats.iter().zip(&result.statuses) {
            let confirmed = self.local.seat_mut(requester.session, room).filter(|_| status.is_present());
            if let Some(seat) = confirmed.filter(|seat| seat.number() == requester.number) {
                seat.confirmed_in = (result.incarnation, result.epoch);
            }
            match status {
                SeatStatus::Unknown if !may_restore => {}
                SeatStatus::Unknown if !self.local.is_over(requester.session, room) => lost.push(requester.session),
                status => {
                    if !may_restore && status.is_present() {
                        // The client left before its seat was restored.
                        self.drop_unknown_seat(requester.session, room, requester.clone());
                    }
                    self.apply_status(room, requester, status, queue_length);
                }
            }
        }
        if !lost.is_empty() {
            self.local.restore(room, &lost, 0);
        }
        lost.is_empty()
    }

    /// Returns `true` if the room, with state `at`, may have lost this node's state. Handles that.
    pub(super) fn detect_loss(&mut self, room: &RoomName, purpose: &Purpose, at: Stamp) -> bool {
        let Some(local) = self.local.by_name.get(room) else { return false };
        let has_fallen = match *purpose {
            Purpose::Seats { known, .. } => known.incarnation == at.incarnation && at.version < known.version,
            _ => false,
        };
        let is_lost = has_fallen || local.sequencer.is_other(at.incarnation);
        if is_lost {
            self.handle_loss(room, at.incarnation);
        }
        is_lost
    }

    /// Handles a possible loss of a room: restores its seats and requests its state.
    pub(super) fn handle_loss(&mut self, room: &RoomName, incarnation: u64) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        if local.sequencer.is_other(incarnation) {
            if !local.sequencer.may_be_lost() {
                local.next_request_at = None;
            }
            local.sequencer.exists(self.now, Stamp { incarnation, version: 0 });
        } else {
            local.sequencer.version_fell(self.now);
            // After the loss, the same version may mean another state.
            for session in local.sessions() {
                if let Some(seat) = self.local.seat_mut(session, room) {
                    seat.sent = NO_STATE;
                }
            }
        }
        self.local.active.insert(room.clone());
        self.request_state(room);
    }

    /// Applies the owner's report about a seat, unless the client has a newer command for it.
    /// `queue_length` is sent with a queue position.
    fn apply_status(
        &mut self,
        room: &RoomName,
        &Requester { session, number, .. }: &Requester,
        status: SeatStatus,
        queue_length: Option<u64>,
    ) {
        let attached = self.attached_key(session);
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let Some(local) = room_session.seats.get_mut(room).filter(|local| local.number() == number) else { return };
        local.is_over = !status.is_present();
        let is_about_room = |first: &Command<M>| first.room.as_ref() == Some(room) && !first.is_signal();
        if room_session.commands.front().is_some_and(is_about_room) {
            if local.is_over || local.seat.status.is_member() != status.is_member() {
                // The command may fail. Then the client has to learn of this change.
                self.local.schedule_claim(room, session);
            }
            return;
        }
        let former = std::mem::replace(&mut local.seat.status, status);
        match status {
            SeatStatus::Member { .. } => {
                if former.is_waiting() {
                    let at = (self.local.followed_state(room), self.local.followed_epoch(room));
                    self.local.add_seat(room, session, status, at);
                    self.send_state(session);
                }
                // Another place: the client left and joined again without an answer here. It gets
                // no change about itself, and a list from in between lacks it.
                if former != status {
                    self.local.schedule_state(room, session);
                }
            }
            SeatStatus::Waiting { ahead, .. } => {
                if former.is_member() {
                    // The earlier position belongs to the queue before the client became a member.
                    local.sent_ahead = None;
                }
                let is_sent = local.sent_ahead.is_some_and(|(sent, _)| sent == ahead);
                let since_sent = local.sent_ahead.map(|(_, at)| self.now.saturating_duration_since(at));
                let is_recent = since_sent.is_some_and(|since_sent| since_sent < MIN_POSITION_INTERVAL);
                // Without a length, seats ahead may be missing: another position may have to follow
                // one that was sent.
                let due = attached.filter(|_| !is_sent || queue_length.is_none());
                let length_now = queue_length.filter(|_| !is_recent);
                if due.is_some() && length_now.is_some() {
                    local.sent_ahead = Some((ahead, self.now));
                }
                if former.is_member() {
                    self.local.add_seat(room, session, status, (NO_STATE, 0));
                    self.send_state(session);
                }
                match (due, length_now) {
                    (Some(key), Some(length)) => self.notify(key, messages::waiting(room, ahead, length).into()),
                    // The last position is too recent, or seats ahead may be missing.
                    (Some(_), None) => self.local.schedule_positions(room),
                    (None, _) => {}
                }
            }
            SeatStatus::Out(_) | SeatStatus::Unknown => {
                let Some(key) = attached else {
                    // The next socket receives the loss. Until then the seat is kept.
                    local.seat.status = former;
                    return;
                };
                let requester = room_session.requester(session, MessageNumber(number), &self.mesh.id);
                self.end_seat(session, room);
                // An earlier join without an answer may be carried out only now.
                self.drop_unknown_seat(session, room, requester);
                let reason = status.end_by_operator().unwrap_or(LeftReason::Expired);
                self.notify(key, messages::left(room, reason).into());
                self.remove_if_idle(session);
            }
        }
    }

    /// Drops the seats of sessions that have ended here and cannot be resumed here. The owner keeps
    /// a seat for the grace time after the loss of the socket, or longer if another node has the
    /// session. A call checks at most 5,000 sessions, each about 500 ms after its last check.
    fn drop_ended_sessions(&mut self, detached: &[SessionId]) {
        self.local.swept_at = self.now;
        for &session in detached {
            self.record_loss(session);
            self.local.queue_check(session);
        }
        let mut ended = Vec::new();
        for session in self.local.take_due_checks() {
            let Some(lost) = self.record_loss(session) else { continue };
            let Some(room_session) = self.local.sessions.get(&session) else { continue };
            let lingers = self.cx.lingers(&room_session.client, session);
            if lingers || !room_session.commands.is_empty() {
                self.local.queue_check(session);
            } else {
                ended.push((session, lost));
            }
        }
        for (session, lost) in ended {
            let keep = self.local.settings.seat_grace.saturating_sub(self.now.saturating_duration_since(lost));
            let Some(mut room_session) = self.local.sessions.remove(&session) else { continue };
            let has_moved = self.cx.is_at_peer(room_session.client.as_str(), session);
            for (room, local) in room_session.seats.take() {
                self.local.remove_seat(&room, session);
                let (attachment, number) = (room_session.at.attachment, SOCKET_END);
                let requester = Requester { attachment, number, ..local.seat.requester };
                if has_moved {
                    // The other node claims the seat, maybe only after the grace time.
                    self.local.drop_seat(session, &room, requester);
                } else {
                    let op = Operation::Drop { requester, keep };
                    self.local.enqueue(Urgency::Background, Purpose::Upkeep, room, op);
                }
            }
        }
    }

    /// Records when a session lost its socket, and returns that time. `None`: it has its socket, or
    /// no seats or commands here.
    pub(super) fn record_loss(&mut self, session: SessionId) -> Option<Instant> {
        let room_session = self.local.sessions.get_mut(&session)?;
        let holder = self.cx.holder(room_session.client.as_str());
        if holder.is_some_and(|(_, holder)| holder.id == session) {
            room_session.socket_lost_at = None;
            return None;
        }
        if let Some(lost) = self.cx.lost_at(&room_session.client, session) {
            // This must be exact: a resume time equal to the grace time leaves no rest. The owner
            // ends a seat with time left only when another operation touches the room.
            room_session.socket_lost_at = Some(lost);
        }
        Some(*room_session.socket_lost_at.get_or_insert(self.now))
    }

    /// Claims a joined seat again if the session has a later attachment than the join. Either this
    /// node has dropped the seat since it sent the join, or a later socket has resumed the session:
    /// its former node may still send operations that are later than the join.
    pub(super) fn claim_joined_seat_again(&mut self, room: &RoomName, join: &Requester) {
        let is_later = |room_session: &RoomSession<M>| {
            room_session.at.is_later_than(join.at()) && room_session.seats.contains_key(room)
        };
        if self.local.sessions.get(&join.session).is_some_and(is_later) {
            self.local.schedule_claim(room, join.session);
        }
    }

    /// Has a seat expire that this node does not have: the answer to its join came too late.
    pub(super) fn drop_unknown_seat(&mut self, session: SessionId, room: &RoomName, requester: Requester) {
        let known = self.local.sessions.get_mut(&session);
        if known.as_ref().is_some_and(|room_session| room_session.seats.contains_key(room)) {
            return;
        }
        let is_same = |known: &&mut RoomSession<M>| known.at.socket == requester.socket;
        let mut attachment = requester.attachment;
        if let Some(room_session) = known.filter(is_same) {
            // Later operations of the session have a later attachment, and claim the seat again.
            self.local.drops += 1;
            attachment = room_session.at.attachment;
            room_session.at.attachment = later_attachment(attachment, self.local.drops);
        }
        let number = SOCKET_END;
        self.local.drop_seat(session, room, Requester { attachment, number, ..requester });
    }

    pub(super) fn remove_if_idle(&mut self, session: SessionId) {
        if self.local.sessions.get(&session).is_some_and(RoomSession::is_idle) {
            self.local.sessions.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::ClientId;

    use super::*;
    use crate::counted::ByteTotal;
    use crate::fixtures::{Node, requester, seat_attachment};
    use crate::{RoomSettings, SeatAttachment};

    #[test]
    fn queued_sessions_are_checked_once_after_the_interval() {
        let start = Instant::now();
        let mut rooms = LocalRooms::<()>::new(start, RoomSettings::default(), ByteTotal::default());
        let (first, second) = (SessionId([1; 16]), SessionId([2; 16]));
        for id in [first, second] {
            rooms.session(id, || RoomSession::new(ClientId::new("alice").unwrap(), seat_attachment(1, 1)));
            rooms.queue_check(id);
        }
        // Its entry is void, also if the session is known again.
        let room_session = rooms.sessions.remove(&first).unwrap();
        rooms.swept_at = start + Duration::from_millis(499);
        rooms.session(first, || room_session);
        assert_eq!(rooms.take_due_checks(), []);
        rooms.swept_at = start + CHECK_INTERVAL;
        assert_eq!(rooms.take_due_checks(), [second]);
        rooms.queue_check(second);
        rooms.swept_at = start + CHECK_INTERVAL * 2;
        assert_eq!(rooms.take_due_checks(), [first, second]);
        assert!(rooms.checks.is_empty());
    }

    #[test]
    fn member_at_another_place_needs_the_state() {
        let mut node = Node::new("n0", &["n0"]);
        let room = RoomName::new("r").unwrap();
        let requester = requester("alice", "n0", 1);
        let (client, session) = (requester.client.clone(), requester.session);
        let seat = Seat { requester, status: SeatStatus::Member { place: 1 }, data: None };
        let sent = Stamp { incarnation: 1, version: 5 };
        let local = LocalSeat { seat: seat.clone(), sent, confirmed_in: (0, 0), sent_ahead: None, is_over: false };
        node.rooms
            .local
            .session(session, || RoomSession::new(client, seat_attachment(1, 1)))
            .seats
            .insert(room.clone(), local.into());
        node.rooms.local.add_seat(&room, session, seat.status, (sent, 0));

        for (place, needs) in [(1, false), (2, true)] {
            let result = OpResult { statuses: vec![SeatStatus::Member { place }], ..OpResult::default() };
            node.step().seats_answered(&room, std::slice::from_ref(&seat), &result, true);
            let lacking = &node.rooms.local.by_name[&room].lacking_state;
            assert_eq!(lacking.contains(&session), needs, "place {place}");
        }
    }

    #[test]
    fn seat_joined_by_an_earlier_socket_is_claimed_again() {
        let mut node = Node::new("n0", &["n0"]);
        let (room, join) = (RoomName::new("r").unwrap(), requester("alice", "n0", 1));
        let (client, session) = (join.client.clone(), join.session);
        let (seat, sent) = (Seat { requester: join, status: SeatStatus::Member { place: 1 }, data: None }, NO_STATE);
        let local = LocalSeat { seat, sent, confirmed_in: (0, 0), sent_ahead: None, is_over: false };
        node.rooms
            .local
            .session(session, || RoomSession::new(client, seat_attachment(2, 1)))
            .seats
            .insert(room.clone(), local.into());
        node.rooms.local.add_seat(&room, session, SeatStatus::Member { place: 1 }, (sent, 0));

        let cases = [(2, 1, false), (2, 2, false), (2, 0, true), (1, 3, true)];
        for (rank, attachment, is_claimed) in cases {
            let SeatAttachment { rank: of_socket, socket, .. } = seat_attachment(rank, attachment);
            let join = Requester { rank: of_socket, socket, attachment, ..requester("alice", "n0", 1) };
            node.step().claim_joined_seat_again(&room, &join);
            let local = node.rooms.local.by_name.get_mut(&room).unwrap();
            assert_eq!(local.unconfirmed.remove(&session), is_claimed, "rank {rank}, {attachment}");
        }
    }
}
