//! Decides which group a client enters or founds, from the members of its queue room. `members`
//! and the parent module pass changes and outcomes, and execute its steps.
//!
//! A group is a room of the mesh with a capacity. Once full it never admits another client. Its
//! members stay in the queue room until then, with a claim as their `data`, so that others find it.
//!
//! 1. The client claims a group with a firm member as tentative. If the group has a firm member
//!    after that, the client enters it. So a group is in the queue room for as long as it can have
//!    members: a claim begins before its client is in the group.
//! 2. If there is no claim of a group that has not refused the client, the oldest client without a
//!    claim claims a new group as tentative. If there is still no other claim after that, it founds
//!    the group. Of two such clients at least the younger sees the claim of the other one, and
//!    withdraws its own. So there is one open group.
//! 3. Inside, the client waits for a member that is known as firm, and then is firm itself.
//!
//! A room with that name can be new: all members of the group have left. Its oldest member sees no
//! firm one, and leaves it again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::roster::{Claim, Roster};
use uuid::Uuid;

/// Time in which a younger member of the same room must be firm.
const YOUNGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which an older member of the same room that has left the queue room counts as firm.
const OLDER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time before another attempt, after a room that was new.
const PAUSE: Duration = Duration::from_millis(500);

/// Request that an election needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Join the queue room again with this claim. With a firm one the client is in the group.
    Claim(Claim),
    /// Join the room of this group.
    Enter(Uuid),
    /// Leave the room of the group.
    Exit,
    /// Leave the queue room for good.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not in the queue room yet.
    Arriving,
    /// Without a group, and waiting until this time. `None`: no wait.
    Seeking(Option<Instant>),
    /// Has claimed the group as tentative.
    Claimed(Uuid),
    /// Is joining the group's room.
    Entering(Uuid),
    /// Is in the group's room, whose members last changed at this time.
    Inside(Uuid, Instant),
    /// Is leaving the group's room.
    Exiting,
    /// Is a firm member.
    Member,
    /// Has left the queue room.
    Done,
}

#[derive(Debug)]
pub(super) struct Election {
    own: Uuid,
    /// Members of the queue room.
    pub(super) queue: Roster,
    phase: Phase,
    /// Own claim in the queue room.
    claim: Claim,
    /// `true` while a request has no outcome.
    is_busy: bool,
    /// Members that have been firm in the claimed group.
    firm: BTreeSet<Uuid>,
    /// Groups that are full, as long as they have claims.
    full: BTreeSet<Uuid>,
}

impl Election {
    /// Creates the election of a client that is joining the queue room.
    pub(super) fn new(own: Uuid) -> Self {
        Self {
            own,
            queue: Roster::new(own),
            phase: Phase::Arriving,
            claim: Claim::None,
            is_busy: true,
            firm: BTreeSet::new(),
            full: BTreeSet::new(),
        }
    }

    /// Returns `true` while the client needs the queue room.
    pub(super) fn needs_queue(&self) -> bool {
        self.phase != Phase::Done
    }

    /// Returns `true` while a full group can refuse the client.
    pub(super) fn may_be_refused(&self) -> bool {
        matches!(self.phase, Phase::Entering(group) if group != self.own)
    }

    /// Records success of the last step.
    pub(super) fn succeeded(&mut self, now: Instant) {
        self.is_busy = false;
        self.phase = match self.phase {
            Phase::Arriving => Phase::Seeking(None),
            Phase::Entering(group) => Phase::Inside(group, now),
            Phase::Exiting => Phase::Seeking(Some(now + PAUSE)),
            phase => phase,
        };
    }

    /// Records that the group which the client is joining is full. It then seeks another one.
    pub(super) fn refused(&mut self) {
        self.is_busy = false;
        if let Phase::Entering(group) = self.phase {
            self.full.insert(group);
        }
        self.phase = Phase::Seeking(None);
    }

    /// Records that the members of the queue room have changed.
    pub(super) fn queue_changed(&mut self) {
        if let Phase::Claimed(group) | Phase::Entering(group) | Phase::Inside(group, _) = self.phase {
            let firm = self.queue.others().filter(|member| member.claim == Claim::Firm(group));
            self.firm.extend(firm.map(|member| member.id));
        }
        let claimed: BTreeSet<Uuid> = self.queue.others().filter_map(|member| member.claim.group()).collect();
        self.full.retain(|group| claimed.contains(group));
    }

    /// Records that the members of the group's room have changed.
    pub(super) fn room_changed(&mut self, now: Instant) {
        if let Phase::Inside(_, changed) = &mut self.phase {
            *changed = now;
        }
    }

    /// Returns the next step, which then needs an outcome. `room`: the group's room, and `true` if
    /// it has been full. `None`: a step has no outcome, or none is possible now.
    pub(super) fn next(&mut self, now: Instant, room: Option<(&Roster, bool)>) -> Option<Step> {
        if self.is_busy || !self.queue.is_complete {
            return None;
        }
        let step = match (self.phase, room) {
            (Phase::Seeking(wait), _) => self.seek(now, wait),
            (Phase::Claimed(group), _) if group == self.own => self.found(now),
            (Phase::Claimed(group), _) => self.follow(now, group),
            (Phase::Inside(group, since), Some((room, _))) => self.stay(now, group, since, room),
            (Phase::Member, Some((_, true))) => {
                self.phase = Phase::Done;
                self.queue = Roster::new(self.own);
                Some(Step::Finish)
            }
            _ => None,
        };
        self.is_busy = step.is_some();
        if let Some(Step::Claim(claim)) = step {
            self.claim = claim;
        }
        step
    }

    /// Returns the time of a step that depends on time. `None`: none does.
    pub(super) fn deadline(&self, room: Option<&Roster>) -> Option<Instant> {
        match self.phase {
            Phase::Seeking(wait) if self.queue.is_complete => wait.filter(|_| !self.is_busy),
            Phase::Inside(_, since) if self.queue.is_complete && !self.is_busy => {
                room.filter(|room| room.is_complete).map(|room| since + patience(room))
            }
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue.bytes() + (self.firm.len() + self.full.len()) * 32
    }

    /// Claims a group, or no longer any.
    fn seek(&mut self, now: Instant, wait: Option<Instant>) -> Option<Step> {
        self.firm.clear();
        let wait = wait.filter(|until| now < *until);
        self.phase = Phase::Seeking(wait);
        let is_turn = || self.rivals().next().is_none() && !self.queue.older().any(|older| older.claim == Claim::None);
        let group = match wait {
            Some(_) => None,
            None => self.open_group().or_else(|| is_turn().then_some(self.own)),
        };
        if let Some(group) = group {
            self.phase = Phase::Claimed(group);
            return Some(Step::Claim(Claim::Tentative(group)));
        }
        (self.claim != Claim::None).then_some(Step::Claim(Claim::None))
    }

    /// Founds the claimed group, unless there are other claims.
    fn found(&mut self, now: Instant) -> Option<Step> {
        if self.rivals().next().is_none() {
            self.phase = Phase::Entering(self.own);
            return Some(Step::Enter(self.own));
        }
        let has_older = self.queue.older().any(|older| self.is_rival(older.claim));
        if has_older || self.open_group().is_some() {
            return self.seek(now, None);
        }
        // The younger ones withdraw their claims, or have founded a group.
        None
    }

    /// Enters the claimed group, if it has a firm member.
    fn follow(&mut self, now: Instant, group: Uuid) -> Option<Step> {
        if !self.queue.others().any(|member| member.claim == Claim::Firm(group)) {
            return self.seek(now, None);
        }
        self.phase = Phase::Entering(group);
        Some(Step::Enter(group))
    }

    /// Becomes firm inside the group's room, or leaves it.
    fn stay(&mut self, now: Instant, group: Uuid, since: Instant, room: &Roster) -> Option<Step> {
        if !room.is_complete {
            return None;
        }
        let is_group = group == self.own || room.others().any(|member| self.firm.contains(&member.id));
        if !is_group && now < since + patience(room) {
            return None;
        }
        // A member that has left the queue room is firm: the group was full.
        if !is_group && room.others().all(|member| self.queue.contains(member.id)) {
            let is_oldest = room.older().next().is_none();
            self.phase = if is_oldest { Phase::Exiting } else { Phase::Inside(group, now) };
            return is_oldest.then_some(Step::Exit);
        }
        self.phase = Phase::Member;
        Some(Step::Claim(Claim::Firm(group)))
    }

    fn is_rival(&self, claim: Claim) -> bool {
        claim.group().is_some_and(|group| !self.full.contains(&group))
    }

    /// Returns claims of groups that can be open.
    fn rivals(&self) -> impl Iterator<Item = Claim> {
        self.queue.others().map(|member| member.claim).filter(|claim| self.is_rival(*claim))
    }

    /// Returns the group of the oldest firm member whose group can be open.
    fn open_group(&self) -> Option<Uuid> {
        self.rivals().find_map(|claim| match claim {
            Claim::Firm(group) => Some(group),
            _ => None,
        })
    }
}

/// Returns the time that a client waits for a firm member in the room of its group.
fn patience(room: &Roster) -> Duration {
    match (room.older().next(), room.younger().next()) {
        (Some(_), _) => OLDER_TIMEOUT,
        (None, Some(_)) => YOUNGER_TIMEOUT,
        (None, None) => Duration::ZERO,
    }
}
