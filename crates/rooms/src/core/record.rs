//! Records of the clients in a room, and their orders. Only `room` uses them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

use crate::{Requester, Seat, SeatStatus};

/// Value of [`Record::refreshed_at`] for a seat that lives as long as its session and node.
pub(super) const CLAIMED: i64 = i64::MAX;

/// A client's latest seat in a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// The present seat, or the last one of a gone client.
    pub(super) seat: Seat,
    /// Number of the session's last leave of the room. 0: it has not left.
    pub(super) left: u64,
    /// `true` if the client has left or expired.
    pub(super) is_gone: bool,
    /// `true` if the session has ended at its node. A repeated claim of it is late.
    pub(super) has_ended: bool,
    /// Time of the last refresh, in milliseconds since 1970. Shifted if less or more lifetime is
    /// left than after a refresh. [`CLAIMED`] if the seat needs none.
    pub(super) refreshed_at: i64,
}

impl Record {
    /// Returns `true` if the client is a member and has neither left nor expired.
    pub(super) fn is_member(&self) -> bool {
        !self.is_gone && self.seat.status.is_member()
    }

    /// Returns `true` if the client is in the waiting queue and has neither left nor expired.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_gone && !self.seat.status.is_member()
    }

    /// Returns `true` if this record is of a later session of the client.
    pub(super) fn outdates(&self, requester: &Requester) -> bool {
        let known = &self.seat.requester;
        known.session != requester.session
            && (known.accepted_at_us, known.session) > (requester.accepted_at_us, requester.session)
    }

    /// Returns `true` if the command of `requester`, or a later one of its session, was applied.
    pub(super) fn has_done(&self, requester: &Requester) -> bool {
        self.seat.requester.session == requester.session && requester.number <= self.seat.requester.number
    }

    /// Returns `true` if this record is of an earlier session or command than the seat that is
    /// claimed: the room has lost the command.
    pub(super) fn lacks(&self, claim: &Requester) -> bool {
        let known = &self.seat.requester;
        match known.session == claim.session {
            true => known.number < claim.number,
            false => !self.outdates(claim),
        }
    }

    /// Returns `true` if the record is of a later command of the seat's session.
    pub(super) fn is_ahead_of(&self, seat: &Seat) -> bool {
        self.seat.requester.session == seat.requester.session && self.seat.requester.number > seat.requester.number
    }

    /// Returns `true` if a node's seat is later than this record: the store has lost its command or
    /// admission. A settling room gives no seat away, so a client that joined again still has it,
    /// unless it left before.
    pub(super) fn is_behind(&self, seat: &Seat, is_settling: bool) -> bool {
        let known = &self.seat.requester;
        let is_same = known.session == seat.requester.session
            && (known.number == seat.requester.number || (is_settling && self.is_ahead_of(seat)));
        let was_admitted = is_same && self.is_waiting() && seat.status.is_member();
        !self.outdates(&seat.requester) && (was_admitted || !self.has_done(&seat.requester))
    }

    /// Returns `true` if a node's seat is from before the session's last leave, or of an earlier
    /// attachment of its socket.
    pub(super) fn is_past(&self, seat: &Seat) -> bool {
        let known = &self.seat.requester;
        let has_left = known.session == seat.requester.session && seat.requester.number <= self.left;
        has_left || seat.requester.is_before(known)
    }

    /// Returns the number of the last leave of a session, which may be of another client session.
    /// 0: the record knows of none.
    pub(super) fn last_leave(&self, session: SessionId) -> u64 {
        if self.seat.requester.session == session { self.left } else { 0 }
    }

    fn place(&self) -> u64 {
        match self.seat.status {
            SeatStatus::Member { place } | SeatStatus::Waiting { place, .. } => place,
            SeatStatus::Out | SeatStatus::Unknown => 0,
        }
    }
}

/// All records of a room, with indexes for each order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Record>", into = "Vec<Record>")]
pub(super) struct Records {
    by_client: BTreeMap<ClientId, Record>,
    members_by_refresh: BTreeSet<(i64, ClientId)>,
    others_by_refresh: BTreeSet<(i64, ClientId)>,
    members_by_place: BTreeSet<(u64, ClientId)>,
    waiting_by_place: BTreeSet<(u64, ClientId)>,
}

impl From<Vec<Record>> for Records {
    fn from(list: Vec<Record>) -> Self {
        let mut records = Self::default();
        list.into_iter().for_each(|record| records.put(record));
        records
    }
}

impl From<Records> for Vec<Record> {
    fn from(records: Records) -> Self {
        records.by_client.into_values().collect()
    }
}

impl Records {
    /// Returns a client's record. `None`: the client is unknown or forgotten.
    pub(super) fn get(&self, client: &ClientId) -> Option<&Record> {
        self.by_client.get(client)
    }

    /// Inserts a record, replacing the client's earlier one.
    pub(super) fn put(&mut self, record: Record) {
        let client = record.seat.requester.client.clone();
        self.remove(&client);
        let (by_refresh, by_place) = ((record.refreshed_at, client.clone()), (record.place(), client.clone()));
        if record.is_member() {
            self.members_by_refresh.insert(by_refresh);
            self.members_by_place.insert(by_place);
        } else {
            self.others_by_refresh.insert(by_refresh);
            if record.is_waiting() {
                self.waiting_by_place.insert(by_place);
            }
        }
        self.by_client.insert(client, record);
    }

    /// Removes and returns a client's record. `None`: it has none.
    pub(super) fn remove(&mut self, client: &ClientId) -> Option<Record> {
        let record = self.by_client.remove(client)?;
        let (by_refresh, by_place) = ((record.refreshed_at, client.clone()), (record.place(), client.clone()));
        self.members_by_refresh.remove(&by_refresh);
        self.others_by_refresh.remove(&by_refresh);
        self.members_by_place.remove(&by_place);
        self.waiting_by_place.remove(&by_place);
        Some(record)
    }

    /// Returns at most `max` members last refreshed until `until` (ms since 1970), oldest first.
    pub(super) fn silent_members(&self, until: i64, max: usize) -> Vec<Record> {
        self.silent(&self.members_by_refresh, until, max)
    }

    /// Returns at most `max` waiting and gone clients last refreshed until `until`, oldest first.
    pub(super) fn silent_others(&self, until: i64, max: usize) -> Vec<Record> {
        self.silent(&self.others_by_refresh, until, max)
    }

    fn silent(&self, by_refresh: &BTreeSet<(i64, ClientId)>, until: i64, max: usize) -> Vec<Record> {
        let silent = by_refresh.iter().take_while(|(at, _)| *at <= until).take(max);
        silent.filter_map(|(_, client)| self.get(client).cloned()).collect()
    }

    pub(super) fn member_count(&self) -> usize {
        self.members_by_place.len()
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting_by_place.len()
    }

    /// Returns the first client of the waiting queue. `None`: it is empty.
    pub(super) fn first_waiting(&self) -> Option<Record> {
        self.waiting_by_place.first().and_then(|(_, client)| self.get(client)).cloned()
    }

    /// Returns the number of clients ahead of a place in the waiting queue.
    pub(super) fn ahead(&self, client: &ClientId, place: u64) -> u64 {
        self.waiting_by_place.range(..(place, client.clone())).count() as u64
    }

    /// Returns the members after `after`, oldest first. A gone client still marks a place. `None`
    /// or a client without a record: all members.
    pub(super) fn members_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = &Record> {
        let after = after.and_then(|after| self.get(after));
        let behind = move |(place, client): &&(u64, ClientId)| match after {
            None => true,
            Some(after) if after.is_member() => (*place, client) > (after.place(), &after.seat.requester.client),
            Some(after) => *place > after.place(),
        };
        self.members_by_place.iter().filter(behind).filter_map(|(_, client)| self.get(client))
    }

    /// Returns the records of members and waiting clients, by client.
    pub(super) fn present(&self) -> impl Iterator<Item = &Record> {
        self.by_client.values().filter(|record| !record.is_gone)
    }

    /// Returns the nodes that serve members and waiting clients, sorted.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let nodes: BTreeSet<_> = self.present().map(|record| record.seat.requester.node.clone()).collect();
        nodes.into_iter().collect()
    }

    /// Returns the records of claimed seats at a node. `None`: at all nodes.
    pub(super) fn claimed_at(&self, node: Option<&NodeId>) -> Vec<Record> {
        let is_claimed = |record: &&Record| {
            record.refreshed_at == CLAIMED && node.is_none_or(|node| record.seat.requester.node == *node)
        };
        self.by_client.values().filter(is_claimed).cloned().collect()
    }

    /// Returns the time of the earliest refresh, in ms since 1970. `None`: no record expires.
    pub(super) fn first_refresh(&self) -> Option<i64> {
        let firsts = [self.members_by_refresh.first(), self.others_by_refresh.first()];
        firsts.into_iter().flatten().map(|(at, _)| *at).filter(|at| *at != CLAIMED).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }
}
