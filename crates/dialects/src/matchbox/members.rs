//! Members of a client's rooms: the search for a group, and announcements of peers.

use std::time::{Duration, Instant};

use signaling_protocol::CloseCode;
use signaling_protocol::rooms::{Former, Member};

use super::election::{Election, Step};
use super::names::Rooms;
use super::roster::{self, Claim, Roster};
use super::{Matchbox, Room};
use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::room_requests::RequestKind;
use crate::translator::{Close, Out};
use crate::{Dialect, name};
use uuid::Uuid;

/// The client's token does not name the room.
const FORBIDDEN: Close = Close::new(Some(CloseCode::FORBIDDEN));

impl Matchbox {
    /// Handles a page of members, which can be the first, and behind which more can follow.
    pub(super) fn joined(
        &mut self,
        now: Instant,
        name: &str,
        page: &[Member<'_>],
        (is_first, more): (bool, bool),
        out: &mut Out,
    ) {
        let Some((roster, is_queue)) = self.roster(name) else { return };
        if is_first {
            roster.clear();
        }
        if let Some(last) = roster.page(page, more) {
            self.requests.list(now, name, Some(&name::of_uuid(Dialect::Matchbox, last)), out);
        }
        if !is_queue {
            self.settle(out);
        }
        self.members_changed(now, is_queue, out);
    }

    pub(super) fn changed(
        &mut self,
        now: Instant,
        name: &str,
        joined: &[Member<'_>],
        left: &[Former<'_>],
        out: &mut Out,
    ) {
        let own = self.own;
        let Some((roster, is_queue)) = self.roster(name) else { return };
        let mut left: Vec<Uuid> =
            left.iter().filter_map(|former| name::uuid(Dialect::Matchbox, former.client_id)).collect();
        left.retain(|former| *former != own);
        for former in &left {
            roster.remove(*former);
        }
        let mut entered = Vec::new();
        for member in joined.iter().filter_map(roster::Member::read).filter(|member| member.id != own) {
            if !is_queue {
                if roster.contains_entry(member.id, member.entry) {
                    continue;
                }
                // It has left and returned.
                roster.remove(member.id);
            }
            if roster.add(member) {
                entered.push(member);
            } else {
                out.ignore(IgnoredReason::Limit);
            }
        }
        if !is_queue {
            self.update_peers(&left, &entered, out);
        }
        self.members_changed(now, is_queue, out);
    }

    /// Executes the next step of the search for a group.
    pub(super) fn step(&mut self, now: Instant, out: &mut Out) {
        let Rooms::Groups { queue, of_groups, .. } = &self.rooms else { return };
        let Some(election) = &mut self.election else { return };
        let room = self.room.as_ref().map(|room| (&room.roster, room.was_full));
        match election.next(now, room) {
            Some(Step::Claim(claim)) => {
                self.requests.push(now, queue, RequestKind::Join(Some(&claim.to_json())), out);
                if let (Claim::Firm(_), Some(room)) = (claim, &mut self.room) {
                    room.is_open = true;
                    self.settle(out);
                }
            }
            Some(Step::Enter(group)) => {
                let room = format!("{of_groups}{group}");
                self.enter(now, room, out);
            }
            Some(Step::Exit) => {
                if let Some(room) = self.exit(out) {
                    self.requests.push(now, &room.name, RequestKind::Leave, out);
                }
            }
            Some(Step::Finish) => drop(self.requests.push(now, queue, RequestKind::Leave, out)),
            None => {}
        }
    }

    /// Handles a failed request. A client that a full group refuses seeks another one. With
    /// `retry_after` the request is repeated. `None`: the client is closed, except for a signal.
    pub(super) fn error(&mut self, now: Instant, id: u64, code: &str, retry_after: Option<Duration>, out: &mut Out) {
        let may_be_refused = self.election.as_ref().is_some_and(Election::may_be_refused);
        let is_refused = code == "overloaded" && may_be_refused;
        if let Some(wait) = retry_after.filter(|_| !is_refused) {
            return self.requests.refuse(now, id, wait, out);
        }
        if self.requests.finish(now, id, out).is_none() {
            return;
        }
        if is_refused {
            self.exit(out);
            self.election.iter_mut().for_each(Election::refused);
            return self.step(now, out);
        }
        out.count(Event::Answered(AnswerKind::SubscribeFailed));
        out.close = Some(if code == "forbidden" { FORBIDDEN } else { Close::TRY_AGAIN });
    }

    /// Returns a room's members, and `true` for the queue room. `None`: the client needs none.
    pub(super) fn roster(&mut self, name: &str) -> Option<(&mut Roster, bool)> {
        if let Some(room) = self.room.as_mut().filter(|room| room.name == name) {
            return Some((&mut room.roster, false));
        }
        let Rooms::Groups { queue, .. } = &self.rooms else { return None };
        let election = self.election.as_mut().filter(|election| queue == name && election.needs_queue())?;
        Some((&mut election.queue, true))
    }

    fn members_changed(&mut self, now: Instant, is_queue: bool, out: &mut Out) {
        let (Some(election), Rooms::Groups { size, .. }) = (&mut self.election, &self.rooms) else { return };
        if let Some(room) = self.room.as_mut().filter(|_| !is_queue) {
            let is_full = u32::try_from(room.roster.len()).is_ok_and(|len| len >= *size);
            room.was_full |= is_full && room.roster.is_complete;
            election.room_changed(now);
        } else {
            election.queue_changed();
        }
        self.step(now, out);
    }

    /// Leaves the room, and dismisses all peers.
    fn exit(&mut self, out: &mut Out) -> Option<Room> {
        for peer in self.peers.present() {
            self.peers.dismiss(peer, false, &mut out.frames);
        }
        let room = self.room.take()?;
        self.requests.forget_page(&room.name);
        Some(room)
    }

    /// Compares the peers with all members of the room, and names a client that has none yet.
    fn settle(&mut self, out: &mut Out) {
        if self.room.as_ref().is_some_and(|room| room.is_open && room.roster.is_complete) {
            self.assign_id(out);
        }
        let Some(Room { roster, is_open, .. }) = self.room.as_ref().filter(|room| room.roster.is_complete) else {
            return;
        };
        let missing: Vec<Uuid> = roster.missing_of(self.peers.present());
        for peer in missing {
            self.peers.dismiss(peer, returns(self.election.as_ref(), peer), &mut out.frames);
        }
        if *is_open {
            roster.older().for_each(|member| self.peers.expect(*member));
            roster.younger().for_each(|member| self.peers.announce(*member, &mut out.frames));
        }
    }

    fn update_peers(&mut self, left: &[Uuid], entered: &[roster::Member], out: &mut Out) {
        let Some(room) = self.room.as_ref().filter(|room| room.roster.is_complete) else { return };
        for former in left {
            self.peers.dismiss(*former, returns(self.election.as_ref(), *former), &mut out.frames);
        }
        for member in entered.iter().filter(|_| room.is_open) {
            self.peers.announce(*member, &mut out.frames);
        }
    }
}

/// Returns `true` if a former member can return: it is still searching for a group.
fn returns(election: Option<&Election>, former: Uuid) -> bool {
    election.is_some_and(|election| election.queue.contains(former))
}
