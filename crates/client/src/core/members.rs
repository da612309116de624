//! A room that the client joins, waits for or is in, and its other members, for `Core`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Ms;
use crate::event::{DepartedMember, Joined, Member};
use crate::rules::{MAX_REJOIN_WAIT, MIN_REJOIN_WAIT};

/// A change of a room.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "the API reports the messages of the server instead"))]
pub(crate) enum RoomChange {
    /// The client's own state, with the reason of a removal. `count` includes the client.
    Out {
        reason: String,
    },
    Joining {
        reason: Option<String>,
    },
    Waiting {
        ahead: u64,
        queue_length: u64,
    },
    Member {
        capacity: Option<u64>,
        count: u64,
    },
    /// Another member, with its id and data.
    MemberJoined(String, Data),
    MemberUpdated(String, Data),
    MemberLeft(String, Data, String),
}

/// JSON that a member shows; `None` if it has none.
type Data = Option<Box<RawValue>>;

/// State of the client in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoomState {
    Joining,
    Waiting,
    Member,
}

/// A room and its other members.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) room: String,
    pub(super) state: RoomState,
    /// Time at which the next page is requested; `None`: not now.
    pub(super) page_at: Option<Ms>,
    own_id: String,
    capacity: Option<u64>,
    version: u64,
    /// Number of members that the server named; used while the list is incomplete.
    count: u64,
    by_id: BTreeMap<String, Known>,
    /// Position of the next member.
    next_position: u64,
    /// First position of the list in progress: members before it are not confirmed. `None`: the
    /// list is complete.
    listed_from: Option<u64>,
    /// Greatest former position in the list in progress. A smaller one that follows is a new order.
    listed_up_to: u64,
    is_reordered: bool,
    /// Last member of the page before the requested one; `None` if none is requested.
    after: Option<String>,
}

#[derive(Debug)]
struct Known {
    /// Grows with the age of the others.
    position: u64,
    data: Data,
}

impl Members {
    /// Creates a room that the client joins.
    pub(super) fn new(room: &str, own_id: &str) -> Self {
        Self {
            room: room.to_owned(),
            state: RoomState::Joining,
            page_at: None,
            own_id: own_id.to_owned(),
            capacity: None,
            version: 0,
            count: 0,
            by_id: BTreeMap::new(),
            next_position: 0,
            listed_from: None,
            listed_up_to: 0,
            is_reordered: false,
            after: None,
        }
    }

    fn count(&self) -> u64 {
        if self.listed_from.is_some() { self.count } else { self.by_id.len() as u64 + 1 }
    }

    /// Handles a `left` while a join is pending.
    pub(super) fn joins_again(&mut self, reason: String) -> RoomChange {
        *self = Self::new(&self.room, &self.own_id);
        RoomChange::Joining { reason: Some(reason) }
    }

    /// Handles `waiting`.
    pub(super) fn waiting(&mut self, ahead: u64, queue_length: u64) -> RoomChange {
        *self = Self { state: RoomState::Waiting, ..Self::new(&self.room, &self.own_id) };
        RoomChange::Waiting { ahead, queue_length }
    }

    /// Handles `joined`, a page of the member list.
    pub(super) fn joined(&mut self, now: Ms, page: &Joined) -> Vec<RoomChange> {
        let mut changes = Vec::new();
        if page.after.is_none() {
            let is_news = self.state != RoomState::Member || self.capacity != page.capacity;
            (self.state, self.version, self.capacity) = (RoomState::Member, page.version, page.capacity);
            (self.count, self.listed_from) = (page.count, Some(self.next_position));
            (self.listed_up_to, self.is_reordered) = (0, false);
            if is_news {
                changes.push(RoomChange::Member { capacity: self.capacity, count: self.count() });
            }
        } else if page.after != self.after {
            // A page of a list that has begun anew since.
            return changes;
        }
        changes.extend(page.members.iter().filter_map(|member| self.add(member)));
        self.after = page.members.last().filter(|_| page.more).map(|last| last.client_id.clone());
        self.page_at = self.after.is_some().then_some(now);
        if self.after.is_none() {
            changes.extend(self.complete());
        }
        changes
    }

    /// Handles `members_changed`.
    pub(super) fn changed(&mut self, version: u64, joined: &[Member], left: &[DepartedMember]) -> Vec<RoomChange> {
        let mut changes = Vec::new();
        if self.state != RoomState::Member || version <= self.version {
            return changes;
        }
        self.version = version;
        for DepartedMember { client_id, reason } in left {
            self.count = self.count.saturating_sub(1);
            changes.extend(self.remove(client_id, reason));
        }
        for member in joined {
            self.count += u64::from(!self.by_id.contains_key(&member.client_id));
            changes.extend(self.add(member));
        }
        changes
    }

    /// Takes the request of a page that is due.
    pub(super) fn take_page(&mut self, now: Ms) -> Option<String> {
        self.page_at.take_if(|at| *at <= now)?;
        let after = self.after.as_deref()?;
        Some(format!(r#"{{"type":"members","room":"{}","after":"{after}"}}"#, self.room))
    }

    /// Handles an error of the room without a number. Returns `true` if a page was refused.
    pub(super) fn page_failed(&mut self, now: Ms, wait: Option<Ms>) -> bool {
        if self.after.is_none() || self.page_at.is_some() {
            return false;
        }
        match wait {
            Some(wait) => self.page_at = Some(now + wait.clamp(MIN_REJOIN_WAIT, MAX_REJOIN_WAIT)),
            None => self.after = None,
        }
        true
    }

    /// Forgets a requested page, whose answer was lost with its socket. A new list follows.
    pub(super) fn socket_lost(&mut self) {
        (self.after, self.page_at) = (None, None);
    }

    fn add(&mut self, member: &Member) -> Option<RoomChange> {
        let Member { client_id: id, data } = member;
        if *id == self.own_id {
            return None;
        }
        let position = self.next_position;
        let Some(known) = self.by_id.get_mut(id) else {
            self.next_position += 1;
            self.listed_up_to = position;
            self.by_id.insert(id.clone(), Known { position, data: data.clone() });
            return Some(RoomChange::MemberJoined(id.clone(), data.clone()));
        };
        if self.listed_from.is_some_and(|first| known.position < first) {
            self.next_position += 1;
            self.is_reordered |= known.position < self.listed_up_to;
            self.listed_up_to = self.listed_up_to.max(known.position);
            known.position = position;
        }
        if known.data.as_ref().map(|data| data.get()) == data.as_ref().map(|data| data.get()) {
            return None;
        }
        known.data.clone_from(data);
        Some(RoomChange::MemberUpdated(id.clone(), data.clone()))
    }

    fn remove(&mut self, id: &str, reason: &str) -> Option<RoomChange> {
        let (id, known) = self.by_id.remove_entry(id)?;
        Some(RoomChange::MemberLeft(id, known.data, reason.to_owned()))
    }

    /// Ends a list: removes members that it does not have, oldest first, and reports a new order.
    fn complete(&mut self) -> Vec<RoomChange> {
        let first = self.listed_from.take().unwrap_or_default();
        let missing = self.by_id.iter().filter(|(_, known)| known.position < first);
        let mut missing: Vec<(u64, String)> = missing.map(|(id, known)| (known.position, id.clone())).collect();
        missing.sort_unstable();
        let mut changes: Vec<RoomChange> = missing.iter().filter_map(|(_, id)| self.remove(id, "expired")).collect();
        if std::mem::take(&mut self.is_reordered) {
            changes.push(RoomChange::Member { capacity: self.capacity, count: self.count() });
        }
        changes
    }
}
