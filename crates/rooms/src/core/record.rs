//! Records of the clients in a room, and their orders.

use std::collections::{BTreeMap, BTreeSet};

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

use crate::{Seat, SeatStatus, Who};

/// State of a client in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Member,
    Waiting,
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) session: SessionId,
    pub(super) accepted_at_us: u64,
    pub(super) number: u64,
    pub(super) node: NodeId,
    /// Time of reaching the present place. Members are listed and waiting clients admitted in this
    /// order.
    pub(super) since: i64,
    pub(super) data: Option<Box<str>>,
    pub(super) place: Place,
    /// Time of the last refresh, in milliseconds since 1970. Shifted if less or more lifetime is
    /// left than after a refresh.
    pub(super) sign: i64,
}

impl Record {
    /// Returns `true` if this record is of a later session of the client than `who`.
    pub(super) fn outdates(&self, who: &Who) -> bool {
        self.session != who.session && (self.accepted_at_us, self.session) > (who.accepted_at_us, who.session)
    }

    /// Returns `true` if the command was applied before.
    pub(super) fn has_done(&self, who: &Who) -> bool {
        self.session == who.session && who.number <= self.number
    }

    /// Returns `true` if a seat that a node knows is later than this record. Then the store has
    /// lost the command that made the seat, or the admission. A settling room gives no seat away,
    /// so a waiting client that repeated its join after the loss is still a member.
    pub(super) fn is_behind(&self, seat: &Seat, is_settling: bool) -> bool {
        let Seat { ref who, standing, .. } = *seat;
        let is_later = is_settling && self.number > who.number;
        let is_same = self.session == who.session && (self.number == who.number || is_later);
        let was_let_in = is_same && self.place == Place::Waiting && matches!(standing, SeatStatus::Member { .. });
        !self.outdates(who) && (was_let_in || !self.has_done(who))
    }
}

/// All records of a room, with indexes for each order.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    by_client: BTreeMap<ClientId, Record>,
    members_by_sign: BTreeSet<(i64, ClientId)>,
    others_by_sign: BTreeSet<(i64, ClientId)>,
    members_by_time: BTreeSet<(i64, ClientId)>,
    line: BTreeSet<(i64, ClientId)>,
}

impl Records {
    pub(super) fn get(&self, client: &ClientId) -> Option<&Record> {
        self.by_client.get(client)
    }

    /// Inserts a record, replacing the client's earlier one.
    pub(super) fn put(&mut self, client: &ClientId, record: Record) {
        self.remove(client);
        let (by_sign, since) = ((record.sign, client.clone()), (record.since, client.clone()));
        match record.place {
            Place::Member => {
                self.members_by_sign.insert(by_sign);
                self.members_by_time.insert(since);
            }
            Place::Waiting => {
                self.others_by_sign.insert(by_sign);
                self.line.insert(since);
            }
            Place::Gone => {
                self.others_by_sign.insert(by_sign);
            }
        }
        self.by_client.insert(client.clone(), record);
    }

    pub(super) fn remove(&mut self, client: &ClientId) -> Option<Record> {
        let record = self.by_client.remove(client)?;
        let (by_sign, since) = ((record.sign, client.clone()), (record.since, client.clone()));
        self.members_by_sign.remove(&by_sign);
        self.others_by_sign.remove(&by_sign);
        self.members_by_time.remove(&since);
        self.line.remove(&since);
        Some(record)
    }

    /// Returns members with a last refresh at `until` or before, oldest refresh first.
    pub(super) fn silent_members(&self, until: i64, most: usize) -> Vec<ClientId> {
        silent(&self.members_by_sign, until, most)
    }

    /// Returns waiting and gone clients with a last refresh at `until` or before, oldest first.
    pub(super) fn silent_others(&self, until: i64, most: usize) -> Vec<ClientId> {
        silent(&self.others_by_sign, until, most)
    }

    pub(super) fn members(&self) -> usize {
        self.members_by_time.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    pub(super) fn first_in_line(&self) -> Option<ClientId> {
        self.line.first().map(|(_, client)| client.clone())
    }

    /// Returns the number of clients ahead in the waiting queue.
    pub(super) fn ahead(&self, client: &ClientId, since: i64) -> usize {
        self.line.range(..(since, client.clone())).count()
    }

    /// Returns the members behind `after`, oldest first.
    pub(super) fn members_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = (&ClientId, &Record)> {
        let after = after.and_then(|after| Some((self.by_client.get(after)?, after)));
        let known = after.map(|(record, after)| (record.since, record.place == Place::Member, after.clone()));
        let behind = move |(since, client): &&(i64, ClientId)| match &known {
            None => true,
            Some((from, true, after)) => (since, client) > (from, after),
            Some((from, false, _)) => since > from,
        };
        let found = self.members_by_time.iter().filter(behind);
        found.filter_map(|(_, client)| Some((client, self.by_client.get(client)?)))
    }

    /// Returns the nodes that serve members and waiting clients.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let here = self.by_client.values().filter(|record| record.place != Place::Gone);
        let nodes: BTreeSet<_> = here.map(|record| record.node.clone()).collect();
        nodes.into_iter().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }
}

fn silent(by_sign: &BTreeSet<(i64, ClientId)>, until: i64, most: usize) -> Vec<ClientId> {
    by_sign.iter().take_while(|(sign, _)| *sign <= until).take(most).map(|(_, client)| client.clone()).collect()
}
