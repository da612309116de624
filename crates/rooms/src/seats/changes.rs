//! Room changes for clients and peer nodes, and the whole state for clients that miss changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;

use super::local_room::LocalRoom;
use super::messages::{has_left, joined, members_changed, part, to_wire};
use super::room_session::{LocalSeat, NO_STATE, is_behind};
use super::task::{Purpose, Urgency};
use crate::{Change, Context, OpResult, Operation, Output, RoomEvents, RoomRule, SocketKey, Stamp, Step};

/// Minimum time between two requests for the positions in the waiting queue of a room.
const POSITION_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before the next request for the state after a failure, or while nodes restore the seats of
/// a lost room.
pub(super) const STATE_RETRY: Duration = Duration::from_secs(2);
/// Delay before the next request for the state after an outdated answer.
const STATE_RETRY_SOON: Duration = Duration::from_millis(100);
/// Maximum rooms that one sweep processes: about 20 ms.
const ACTIVE_ROOMS_PER_SWEEP: usize = 2_000;

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Sends a room's changes to the peer nodes that the result names, in parts of about 48 KiB.
    /// Without changes it sends only the version.
    pub(crate) fn notify_peers(&mut self, room: &RoomName, result: &OpResult) {
        let &OpResult { incarnation, epoch, base, version, ref changes, queue_moved, ref nodes, .. } = result;
        let start = version.saturating_sub(changes.len() as u64);
        for node in nodes {
            if *node == self.mesh.id {
                continue;
            }
            let (mut version, mut rest) = (start, &changes[..]);
            loop {
                let (part, behind) = rest.split_at(part(rest.iter()));
                version += part.len() as u64;
                let changes = part.iter().map(to_wire).collect();
                let queue_moved = queue_moved && behind.is_empty();
                let room = room.as_str();
                let note = Item::RoomChanged { room, incarnation, epoch, base, version, changes, queue_moved };
                self.send_item(node, &note, false);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    /// Follows the epoch of the state `at`, and the epoch `base` that it continues. Returns `false`
    /// if the state is outdated, because a later epoch is known.
    ///
    /// A later epoch that continues another one than the followed, or has a lower version of the
    /// same incarnation, may lack changes that clients here have, and use their versions for
    /// others. The node then restores its seats and requests the state.
    pub(crate) fn follow_epoch(&mut self, room: &RoomName, (epoch, base): (u64, u64), at: Stamp) -> bool {
        self.mesh.record_epoch(room, epoch);
        if self.local.is_outdated(room, epoch) {
            return false;
        }
        let known = self.local.followed_state(room);
        let former = self.local.follow_epoch(room, epoch);
        let is_continued = former == 0 || former == base;
        let has_fallen = known.incarnation == at.incarnation && at.version < known.version;
        if former < epoch && (has_fallen || !is_continued) {
            self.handle_loss(room, at.incarnation);
        }
        true
    }

    /// Sends the changes that made the state `at` to a room's members here, unless it has no
    /// events. Within 200 ms of other changes they are delayed and sent together, except in rooms
    /// with prompt events. Changes after a gap are held; if it stays, the whole state is requested.
    ///
    /// Without `changes`, only the state `at` is known, and a lower version here counts as a gap.
    /// `queue_moved`: waiting clients need new positions. No effect if the room has no seat here.
    pub(crate) fn room_changed(&mut self, room: &RoomName, at: Stamp, changes: Vec<Change>, queue_moved: bool) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        let mut has_moved_seats = false;
        for change in &changes {
            if local.sequencer.is_other(at.incarnation) {
                // Clients here do not receive it, but a joined member still has to return.
                local.apply_to_member_list(change);
            }
            if let Change::Left { client, .. } = change {
                local.known_members.remove(client);
            }
            let seats = match change {
                Change::Joined(_) => &local.waiting,
                Change::Left { reason, .. } if reason.is_by_operator() => &local.members,
                Change::Left { .. } => continue,
            };
            if let Some(session) = self.cx.session_of(change.client()).filter(|session| seats.contains(session)) {
                // The owner's answer shows whether this session has the seat.
                local.unconfirmed.insert(session);
                has_moved_seats = true;
            }
        }
        if has_moved_seats {
            self.claim_unconfirmed(room);
        }
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        local.queue_moved |= queue_moved && !local.waiting.is_empty();
        if changes.is_empty() {
            local.sequencer.exists(self.now, at);
        } else {
            local.sequencer.changed(self.now, at, changes);
        }
        let may_be_lost = local.sequencer.may_be_lost();
        self.local.active.insert(room.clone());
        self.announce_changes(room);
        if may_be_lost {
            self.request_state(room);
        }
    }

    fn announce_changes(&mut self, room: &RoomName) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        let Some(due) = local.sequencer.take_due(self.now) else { return };
        due.changes.iter().for_each(|(_, change)| local.apply_to_member_list(change));
        let (incarnation, is_silent) = (local.sequencer.at().incarnation, local.events == RoomEvents::None);
        let changed: BTreeSet<_> = due.changes.iter().map(|(_, change)| change.client()).collect();
        let mut messages_by_version = BTreeMap::new();
        for session in &local.members - &local.lacking_state {
            let Some(key) = self.attached_key(session) else { continue };
            let follows =
                |LocalSeat { sent, .. }: &&mut LocalSeat| sent.incarnation == incarnation && sent.version < due.version;
            let Some(seat) = self.local.seat_mut(session, room).filter(follows) else { continue };
            let sent = std::mem::replace(&mut seat.sent.version, due.version);
            if is_silent {
                continue;
            }
            let client = self.local.sessions.get(&session).map(|known| &known.client);
            if let Some(client) = client.filter(|client| changed.contains(client)).cloned()
                && self.local.settings.rules.keeps(RoomRule::OwnChanges)
            {
                // The answers to its commands contain its own changes. With its own leave it gets
                // none: the others are not whole up to there. If the command has failed here, the
                // client may be a member again without an answer, and needs the whole state.
                if has_left(&due, sent, &client) {
                    self.local.schedule_state(room, session);
                    continue;
                }
                let messages = members_changed(room, &due, sent, Some(&client));
                messages.into_iter().for_each(|text| self.notify(key, text.into()));
                continue;
            }
            let shared = || members_changed(room, &due, sent, None).into_iter().map(Rc::<[u8]>::from).collect();
            let messages: &Vec<_> = messages_by_version.entry(sent).or_insert_with(shared);
            messages.iter().for_each(|text| self.notify(key, Rc::clone(text)));
        }
    }

    /// Does the pending work of rooms that are not idle: at most 2,000 in one sweep. The next sweep
    /// continues after the last one.
    pub(super) fn process_active_rooms(&mut self) {
        let behind = self.local.active_until.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut active = self.local.active.range((behind, Bound::Unbounded));
        let rooms: Vec<_> = active.by_ref().take(ACTIVE_ROOMS_PER_SWEEP).cloned().collect();
        self.local.active_until = active.next().and(rooms.last()).cloned();
        for room in rooms {
            self.announce_changes(&room);
            self.request_state(&room);
            self.request_positions(&room);
            self.claim_unconfirmed(&room);
            if self.local.by_name.get(&room).is_none_or(LocalRoom::is_idle) {
                self.local.active.remove(&room);
            }
        }
    }

    /// Requests the whole state of a room if a client here needs it. No effect while a request has
    /// no answer, or before the next one is due.
    pub(super) fn request_state(&mut self, room: &RoomName) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        if local.state_requested.is_some() || local.next_request_at.is_some_and(|after| self.now < after) {
            return;
        }
        if local.sequencer.needs_resync(self.now) {
            self.local.counts.resyncs += u64::from(!local.resyncing);
            local.resyncing = true;
            local.known_members.clear();
            local.lacking_state.clone_from(&local.members);
        }
        if !local.resyncing && local.lacking_state.is_empty() {
            return;
        }
        local.state_requested = Some(self.now);
        local.came_after_request.clear();
        local.sequencer.state_requested();
        let mut urgency = Urgency::Urgent;
        if local.sequencer.may_be_lost() {
            // Restores the seats of this node first.
            urgency = Urgency::Background;
            local.unconfirmed = local.sessions();
            self.claim_unconfirmed(room);
        }
        let purpose = Purpose::State { requested: self.now };
        self.local.enqueue(urgency, purpose, room.clone(), Operation::List { after: None });
    }

    fn request_positions(&mut self, room: &RoomName) {
        let Some(local) = self.local.by_name.get_mut(room) else { return };
        let is_time = local.positions_at.is_none_or(|at| self.now.saturating_duration_since(at) >= POSITION_INTERVAL);
        if local.queue_moved && is_time {
            local.queue_moved = false;
            local.positions_at = Some(self.now);
            local.unconfirmed.extend(local.waiting.iter().copied());
        }
    }

    /// Sends the whole state of a room, as its owner reports it, to the clients that need it. An
    /// incomplete or outdated state is not sent but requested again.
    ///
    /// Returns `false` if the state may be incomplete, the room has no seat here, or all seats left
    /// after the request. Clients that came since may have seen later changes at other nodes.
    pub(super) fn state_answered(&mut self, requested: Instant, room: &RoomName, result: &OpResult) -> bool {
        let at = result.stamp();
        let may_miss = self.may_miss_members(room, result) || self.misses_members(room, result);
        let Some(local) = self.local.by_name.get_mut(room) else { return false };
        if local.state_requested != Some(requested) {
            return false;
        }
        local.state_requested = None;
        local.next_request_at = None;
        let is_new_loss = local.sequencer.is_other(at.incarnation) && !local.sequencer.requested_as_lost();
        if is_new_loss || local.sequencer.fell_to(at) {
            // The seats of this node are not restored yet.
            self.handle_loss(room, at.incarnation);
            return true;
        }
        if may_miss {
            if !local.sequencer.may_be_lost() {
                self.local.schedule_claims(room);
            }
            self.local.retry_state(room, self.now + STATE_RETRY);
            return false;
        }
        if local.sequencer.is_past(at) {
            // Later changes arrived from a peer node before this answer.
            self.local.retry_state(room, self.now + STATE_RETRY_SOON);
            return true;
        }
        if std::mem::take(&mut local.resyncing) || local.sequencer.at().version == NO_STATE.version {
            local.sequencer.resynced(self.now, at);
            // Sessions may have joined since the question.
            local.lacking_state.extend(&local.members);
        }
        if local.sequencer.at() == at {
            local.set_member_list(&result.members, result.more);
        }
        let message = (local.events != RoomEvents::None).then(|| Rc::from(joined(room, result, None)));
        let later = std::mem::take(&mut local.came_after_request);
        let lacking = std::mem::take(&mut local.lacking_state);
        local.lacking_state = &lacking & &later;
        for session in &lacking - &later {
            let is_behind = |seat: &&mut LocalSeat| seat.is_member() && is_behind(seat.sent, at);
            let Some(seat) = self.local.seat_mut(session, room).filter(is_behind) else { continue };
            seat.sent = at;
            if let Some((key, message)) = self.attached_key(session).zip(message.as_ref()) {
                self.notify(key, Rc::clone(message));
            }
        }
        true
    }

    /// Returns `true` if the first page of a room may lack members. Either the room is settling and
    /// the page is not known to have all members in this node's list. Or the owner has another
    /// incarnation, which lacks members with seats here.
    pub(super) fn may_miss_members(&self, room: &RoomName, result: &OpResult) -> bool {
        let Some(local) = self.local.by_name.get(room) else { return result.settling };
        let is_whole = !result.more && local.is_covered_by(&result.members);
        let is_other = local.sequencer.is_other(result.incarnation);
        (result.settling && !is_whole) || (is_other && self.misses_members(room, result))
    }

    /// Returns `true` if the first page lacks members in this node's list, or the list is
    /// incomplete. Returns `false` if the room has no seat here.
    pub(super) fn misses_listed(&self, room: &RoomName, result: &OpResult) -> bool {
        self.local.by_name.get(room).is_some_and(|local| !local.is_covered_by(&result.members))
    }

    /// Returns `true` if the owner lacks members with seats at this node: it lost or dropped them.
    fn misses_members(&self, room: &RoomName, result: &OpResult) -> bool {
        let Some(local) = self.local.by_name.get(room).filter(|_| !result.more) else { return false };
        let listed: BTreeSet<_> = result.members.iter().map(|member| &member.client).collect();
        let present = local.members.iter().filter(|session| !self.local.is_over(**session, room));
        let mut members = present.filter_map(|session| self.local.sessions.get(session));
        members.any(|room_session| !listed.contains(&room_session.client))
    }

    /// Returns the key of a session with a socket here. `None`: its socket is not at this node.
    pub(super) fn attached_key(&self, session: SessionId) -> Option<SocketKey> {
        let client = &self.local.sessions.get(&session)?.client;
        let (key, holder) = self.cx.holder(client.as_str())?;
        (holder.id == session).then_some(key)
    }

    /// Sends a client a message of the server, as JSON text. No effect without a socket.
    pub(super) fn notify(&mut self, to: SocketKey, text: Rc<[u8]>) {
        self.local.outputs.push(Output::ToClient { to, text });
    }

    /// Sends a session's edge the state that the next node needs. No effect without a socket here.
    pub(super) fn send_state(&mut self, session: SessionId) {
        let Some(key) = self.attached_key(session) else { return };
        let Some(resumed) = self.cx.socket(key).map(|socket| socket.resumed) else { return };
        let state = self.local.state_of(session, resumed, Vec::new(), false);
        self.local.outputs.push(Output::State { of: key, state });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeatStatus;
    use crate::fixtures::Node;

    #[test]
    fn epoch_that_does_not_continue_the_followed_one_may_be_a_loss() {
        let at = |version| Stamp { incarnation: 1, version };
        // A room in epoch 5 with version 7 gets a change of this epoch, base and version.
        for (epoch, version, is_lost) in [
            ((5, 3), 8, false),
            ((9, 5), 8, false),
            ((9, 5), 7, false),
            ((9, 5), 6, true),
            ((9, 4), 8, true),
            ((9, 7), 8, true),
            ((9, 0), 8, true),
        ] {
            let (mut node, room) = (Node::new("n0", &["n0", "n1"]), RoomName::new("r").unwrap());
            let member = SeatStatus::Member { place: 1 };
            node.rooms.local.add_seat(&room, SessionId([1; 16]), member, (at(7), 5));
            assert!(node.step().follow_epoch(&room, epoch, at(version)));
            let may_be_lost = node.rooms.local.by_name[&room].sequencer.may_be_lost();
            assert_eq!(may_be_lost, is_lost, "{epoch:?} {version}");
        }
    }
}
