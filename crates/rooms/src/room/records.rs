//! Records of the clients in a room, and their orders.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use signaling_protocol::{ClientId, NodeId};
use signaling_wire::{Rank, SessionId};

use super::changed::ChangedClients;
use super::gone::{GoneClient, GoneClients};
use crate::op::SOCKET_END;
use crate::{LeftReason, Requester, Seat, SeatAttachment};

/// Value of [`Record::unclaimed_at`] for a claimed seat: it lives as long as its session and node.
pub(super) const CLAIMED: i64 = i64::MAX;

/// Bytes of the maps of a room with clients. Estimates of rooms with 1 to 2,000 clients are within
/// 20% of what they take from the allocator.
const MAP_BYTES: usize = 600;
/// Bytes of a present client's record and its entries in the indexes, without its texts.
const RECORD_BYTES: usize = 258;
/// Bytes of a gone client, with its share of a list that grows one by one.
const GONE_BYTES: usize = 96;
/// Bytes of an allocated text beside its characters.
const TEXT_BYTES: usize = 24;

/// The last command of a client's session about a room.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LastCommand {
    session: SessionId,
    at: SeatAttachment,
    /// 0: none is known, and the session has ended at its node.
    number: u64,
    /// Number of the session's last leave of the room. 0: it has not left. For the end of a socket,
    /// the last known number before: a later socket counts on from there.
    left: u64,
}

impl LastCommand {
    /// Returns `true` if it is of a later session of the client.
    pub(super) fn outdates(&self, requester: &Requester) -> bool {
        self.session != requester.session && (self.at.rank, self.session) > (requester.rank, requester.session)
    }

    /// Returns its rank if that is above the one of an operation of another socket.
    pub(super) fn rank_above(&self, requester: &Requester) -> Option<Rank> {
        let is_above = self.at.socket != requester.socket && self.at.rank > requester.rank;
        (self.outdates(requester) || is_above).then_some(self.at.rank)
    }

    /// Returns `true` if the command of `requester`, or a later one of its session, was applied.
    pub(super) fn has_done(&self, requester: &Requester) -> bool {
        self.session == requester.session && requester.number <= self.number && !self.is_end_before(requester)
    }

    /// Returns `true` if it is the end of an earlier socket of the session, which has the highest
    /// number.
    fn is_end_before(&self, requester: &Requester) -> bool {
        self.is_end() && self.at.is_of_former_socket(requester.at())
    }

    fn is_end(&self) -> bool {
        self.number == SOCKET_END
    }

    /// Returns `true` if it is of an earlier session or command than the seat that is claimed: the
    /// room has lost the command.
    pub(super) fn lacks(&self, claim: &Requester) -> bool {
        match self.session == claim.session {
            true if self.is_end_before(claim) => self.left < claim.number,
            true => self.number < claim.number,
            false => !self.outdates(claim),
        }
    }

    /// Compares its attachment with that of an operation. `None`: of another session.
    pub(super) fn order(&self, requester: &Requester) -> Option<Ordering> {
        (self.session == requester.session).then(|| self.at.order(requester.at()))
    }

    /// Returns `true` if the requester's command is of an earlier session, or its session sent it
    /// before its latest node claimed the seat. If it has no answer, that node gets it again.
    pub(super) fn is_later_than(&self, requester: &Requester) -> bool {
        self.outdates(requester) || self.order(requester) == Some(Ordering::Greater)
    }

    /// Returns `true` if a node's seat is from before the session's last leave, or of an earlier
    /// attachment of its socket.
    pub(super) fn is_past(&self, seat: &Seat) -> bool {
        let has_left =
            self.session == seat.requester.session && seat.requester.number <= self.last_leave(&seat.requester);
        has_left || self.order(&seat.requester) == Some(Ordering::Greater)
    }

    /// Returns the number up to which commands of a session are from before its last leave. 0: it
    /// has not left, or is another session.
    pub(super) fn last_leave(&self, requester: &Requester) -> u64 {
        match self.session == requester.session {
            true if self.is_end() && !self.is_end_before(requester) => self.number,
            true => self.left,
            false => 0,
        }
    }

    /// Returns `true` if no command of its session is known.
    pub(super) fn is_end_only(&self) -> bool {
        self.number == 0
    }

    /// Returns the end of a session at its node, without a known command.
    pub(super) fn after_end(requester: &Requester) -> Self {
        Self { number: 0, left: 0, ..Self::after_leave(requester) }
    }

    /// Returns it as a leave, so that a loss gives the seat not back.
    pub(super) fn as_leave(&self) -> Self {
        Self { left: self.number, ..*self }
    }

    /// Returns a leave by this command.
    pub(super) fn after_leave(requester: &Requester) -> Self {
        let &Requester { session, number, .. } = requester;
        Self { session, at: requester.at(), number, left: if number == SOCKET_END { 0 } else { number } }
    }

    /// Returns a leave by this command, the next one after `self`.
    pub(super) fn left_by(&self, requester: &Requester) -> Self {
        let leave = Self::after_leave(requester);
        match self.session == requester.session && leave.is_end() {
            true => Self { left: if self.is_end() { self.left } else { self.number }, ..leave },
            false => leave,
        }
    }
}

/// The seat of a member or waiting client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    /// The seat, with the last command about it.
    pub(super) seat: Seat,
    /// Number of the session's last leave of the room. 0: it has not left.
    pub(super) left: u64,
    /// `true` if the session has ended at its node. A repeated claim of it is late.
    pub(super) has_ended: bool,
    /// Time since which the seat is unclaimed, in ms of room time. Shifted if its session
    /// ended and it has another lifetime. [`CLAIMED`] while it is claimed.
    pub(super) unclaimed_at: i64,
}

impl Record {
    pub(super) fn is_member(&self) -> bool {
        self.seat.status.is_member()
    }

    pub(super) fn last(&self) -> LastCommand {
        let Requester { session, number, .. } = self.seat.requester;
        LastCommand { session, at: self.seat.requester.at(), number, left: self.left }
    }

    /// Returns `true` if the record is of a later command of the seat's session.
    pub(super) fn is_ahead_of(&self, seat: &Seat) -> bool {
        self.seat.requester.session == seat.requester.session && self.seat.requester.number > seat.requester.number
    }

    /// Returns `true` if a node's seat is later than this record: the room has lost its admission
    /// from the queue. A settling room gives no seat away, so a client that joined again still has
    /// it.
    pub(super) fn was_admitted(&self, seat: &Seat, is_settling: bool) -> bool {
        let known = &self.seat.requester;
        let is_same = known.session == seat.requester.session
            && (known.number == seat.requester.number || (is_settling && self.is_ahead_of(seat)));
        is_same && !self.is_member() && seat.status.is_member()
    }

    fn place(&self) -> u64 {
        self.seat.status.place()
    }

    fn bytes(&self) -> usize {
        let Requester { client, node, .. } = &self.seat.requester;
        bytes_of_seat(client, node, self.seat.data.as_deref())
    }
}

pub(super) fn bytes_of_seat(client: &ClientId, node: &NodeId, data: Option<&str>) -> usize {
    let data = data.map_or(0, |data| TEXT_BYTES + data.len());
    RECORD_BYTES + 2 * TEXT_BYTES + client.as_str().len() + node.as_str().len() + data
}

fn bytes_of_gone(client: &ClientId) -> usize {
    GONE_BYTES + TEXT_BYTES + client.as_str().len()
}

/// All clients of a room, with indexes for each order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "(Vec<Record>, GoneClients)", into = "(Vec<Record>, GoneClients)")]
pub(super) struct Records {
    present: BTreeMap<ClientId, Box<Record>>,
    gone: GoneClients,
    members_by_unclaim: BTreeSet<(i64, ClientId)>,
    waiting_by_unclaim: BTreeSet<(i64, ClientId)>,
    members_by_place: BTreeSet<(u64, ClientId)>,
    waiting_by_place: BTreeSet<(u64, ClientId)>,
    /// Estimated bytes of all of them.
    bytes: usize,
    /// Seats that changed, for a journal. Copies at other nodes do not have it.
    pub(super) changed: ChangedClients,
}

impl From<(Vec<Record>, GoneClients)> for Records {
    fn from((present, gone): (Vec<Record>, GoneClients)) -> Self {
        let bytes = gone.until(i64::MAX).map(|gone| bytes_of_gone(&gone.client)).sum();
        let mut records = Self { gone, bytes, ..Self::default() };
        present.into_iter().for_each(|record| records.put(record));
        records
    }
}

impl From<Records> for (Vec<Record>, GoneClients) {
    fn from(records: Records) -> Self {
        (records.present.into_values().map(|record| *record).collect(), records.gone)
    }
}

impl Records {
    /// Returns the record of a member or waiting client. `None`: the client is neither.
    pub(super) fn get(&self, client: &ClientId) -> Option<&Record> {
        self.present.get(client).map(AsRef::as_ref)
    }

    /// Returns the last command of a present or gone client. `None`: it is unknown or forgotten.
    pub(super) fn last(&self, client: &ClientId) -> Option<LastCommand> {
        self.get(client).map(Record::last).or_else(|| self.gone.get(client).map(|gone| gone.last))
    }

    /// Returns the reason for the end of a gone client's last seat, and its session. `None`: the
    /// client is present or unknown.
    pub(super) fn end(&self, client: &ClientId) -> Option<(LeftReason, SessionId)> {
        self.gone.get(client).map(|gone| (gone.reason, gone.last.session))
    }

    /// Returns `true` if an operator ended the last seat of a remembered client.
    pub(super) fn has_ended_seats(&self) -> bool {
        self.gone.until(i64::MAX).any(|gone| gone.reason.is_by_operator())
    }

    /// Inserts the record of a present client, in place of what is known of it.
    pub(super) fn put(&mut self, record: Record) {
        let client = record.seat.requester.client.clone();
        let former = self.take(&client);
        if self.changed.is_watched() && former.as_ref().is_none_or(|former| former.seat != record.seat) {
            self.changed.mark(&client, former.as_deref());
        }
        let (by_unclaim, by_place) = ((record.unclaimed_at, client.clone()), (record.place(), client.clone()));
        if record.is_member() {
            self.members_by_unclaim.insert(by_unclaim);
            self.members_by_place.insert(by_place);
        } else {
            self.waiting_by_unclaim.insert(by_unclaim);
            self.waiting_by_place.insert(by_place);
        }
        self.bytes += self.map_growth() + record.bytes();
        self.present.insert(client, Box::new(record));
    }

    /// Remembers a client as gone until this room time (ms), in place of its record.
    pub(super) fn put_gone(&mut self, client: &ClientId, last: LastCommand, reason: LeftReason, until: i64) {
        let place = self.place(client);
        self.remove(client);
        self.bytes += bytes_of_gone(client);
        if let Some(forgotten) = self.gone.insert(GoneClient { client: client.clone(), last, place, reason, until }) {
            self.bytes -= bytes_of_gone(&forgotten.client);
        }
    }

    /// Replaces the last command of a gone client. No effect on others.
    pub(super) fn update_gone(&mut self, client: &ClientId, last: LastCommand) {
        if let Some(gone) = self.gone.get(client).cloned() {
            self.gone.remove(client);
            self.gone.insert(GoneClient { last, ..gone });
        }
    }

    fn place(&self, client: &ClientId) -> u64 {
        self.get(client).map(Record::place).or_else(|| self.gone.get(client).map(|gone| gone.place)).unwrap_or_default()
    }

    pub(super) fn remove(&mut self, client: &ClientId) {
        if let Some(former) = self.take(client) {
            self.changed.mark(client, Some(&former));
        }
    }

    /// Takes what is known of a client out. Returns its record if it was present.
    fn take(&mut self, client: &ClientId) -> Option<Box<Record>> {
        if let Some(gone) = self.gone.remove(client) {
            self.bytes -= bytes_of_gone(&gone.client);
        }
        let record = self.present.remove(client)?;
        self.bytes -= record.bytes();
        let (by_unclaim, by_place) = ((record.unclaimed_at, client.clone()), (record.place(), client.clone()));
        self.members_by_unclaim.remove(&by_unclaim);
        self.waiting_by_unclaim.remove(&by_unclaim);
        self.members_by_place.remove(&by_place);
        self.waiting_by_place.remove(&by_place);
        if self.present.is_empty() {
            // An emptied map keeps its last node, so a room without members would keep five.
            let Self { gone, bytes, changed, .. } = std::mem::take(self);
            (self.gone, self.bytes, self.changed) = (gone, bytes - MAP_BYTES, changed);
        }
        Some(record)
    }

    /// Returns at most `max` members unclaimed since `until` (ms of room time) or before, oldest
    /// first.
    pub(super) fn silent_members(&self, until: i64, max: usize) -> Vec<Record> {
        let silent = self.members_by_unclaim.iter().take_while(|(at, _)| *at <= until).take(max);
        silent.filter_map(|(_, client)| self.get(client).cloned()).collect()
    }

    /// Returns at most `max` waiting clients unclaimed for `stale`, and gone clients that are to be
    /// forgotten, oldest first (ms).
    pub(super) fn silent_others(&self, now: i64, stale: i64, max: usize) -> Vec<ClientId> {
        let waiting = self.waiting_by_unclaim.iter().take_while(|(at, _)| *at <= now - stale).take(max);
        let gone = self.gone.until(now).map(|gone| (gone.until - stale, &gone.client));
        let mut silent: Vec<_> = waiting.map(|(at, client)| (*at, client)).chain(gone).collect();
        silent.sort_unstable();
        silent.into_iter().take(max).map(|(_, client)| client.clone()).collect()
    }

    /// Returns at most `max` members, oldest first, and behind them waiting clients.
    pub(super) fn first_seats(&self, max: usize) -> Vec<Record> {
        let clients = self.members_by_place.iter().chain(&self.waiting_by_place).take(max);
        clients.filter_map(|(_, client)| self.get(client).cloned()).collect()
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
    /// or an unknown client: all members.
    pub(super) fn members_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = &Record> {
        let after = after.map(|after| (self.place(after), self.get(after).filter(|known| known.is_member())));
        let behind = move |(place, client): &&(u64, ClientId)| match after {
            None => true,
            Some((after, Some(known))) => (*place, client) > (after, &known.seat.requester.client),
            Some((after, None)) => *place > after,
        };
        self.members_by_place.iter().filter(behind).filter_map(|(_, client)| self.get(client))
    }

    pub(super) fn present(&self) -> impl Iterator<Item = &Record> {
        self.present.values().map(AsRef::as_ref)
    }

    /// Returns the present clients after `after` by id. `None`: all.
    pub(super) fn present_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = &Record> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.present.range::<ClientId, _>((behind, Bound::Unbounded)).map(|(_, record)| record.as_ref())
    }

    /// Returns the highest rank in it. 0: no client is present or remembered.
    pub(super) fn highest_rank(&self) -> u64 {
        let gone = self.gone.until(i64::MAX).map(|gone| gone.last.at.rank);
        self.present().map(|record| record.seat.requester.rank).chain(gone).max().unwrap_or_default().0
    }

    /// Returns the nodes that serve members and waiting clients, sorted.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let nodes: BTreeSet<_> = self.present().map(|record| record.seat.requester.node.clone()).collect();
        nodes.into_iter().collect()
    }

    /// Returns the records of claimed seats at a node. `None`: at all nodes.
    pub(super) fn claimed_at(&self, node: Option<&NodeId>) -> Vec<Record> {
        let is_claimed = |record: &&Record| {
            record.unclaimed_at == CLAIMED && node.is_none_or(|node| record.seat.requester.node == *node)
        };
        self.present().filter(is_claimed).cloned().collect()
    }

    /// Returns when the first client expires, `stale` after it was unclaimed, or is forgotten (ms
    /// of room time). `None`: none does.
    pub(super) fn first_end(&self, stale: i64) -> Option<i64> {
        let firsts = [self.members_by_unclaim.first(), self.waiting_by_unclaim.first()];
        let unclaimed = firsts.into_iter().flatten().map(|(at, _)| *at).filter(|at| *at != CLAIMED);
        unclaimed.map(|at| at + stale).chain(self.gone.first_until()).min()
    }

    /// Returns the bytes of the maps that a further present client adds.
    pub(super) fn map_growth(&self) -> usize {
        if self.present.is_empty() { MAP_BYTES } else { 0 }
    }

    /// Returns `true` if no client is a member or waits.
    pub(super) fn is_vacant(&self) -> bool {
        self.present.is_empty()
    }

    /// Returns `true` if no client is present or remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.gone.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
