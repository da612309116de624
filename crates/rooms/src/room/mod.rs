//! One room: records, version and capacity. Its owner and its backup apply operations.

mod blocks;
mod changed;
mod closure;
mod gone;
mod journal;
mod records;

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use signaling_protocol::{ClientId, NodeId};
use signaling_wire::{Rank, SessionId};

use self::blocks::{Blocks, bytes_of_block};
pub(crate) use self::changed::ChangedClients;
pub use self::changed::SeatKind;
use self::closure::Closure;
use self::records::{CLAIMED, LastCommand, Record, Records, bytes_of_seat};
use crate::rules::{CAPACITY_KEPT_MS, SETTLE_MS, millis};
use crate::{
    Change, LeftReason, Member, OpRefusal, OpResult, Operation, Requester, RoomRule, Rules, Seat, SeatStatus, Stamp,
};

/// One room. Two copies that apply the same operations at the same times are equal.
/// All times are in milliseconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Room {
    records: Records,
    blocks: Blocks,
    /// `None`: the room is open.
    closure: Option<Closure>,
    /// Its present epoch, from which new incarnations and places count.
    epoch: u64,
    /// Set by the first change, together with `incarnation`.
    version: Option<u64>,
    incarnation: u64,
    capacity: Option<u32>,
    /// `true` if an operator set `capacity`, so that it stays after the last seat.
    keeps_capacity: bool,
    /// `true` if it was full and admits no client any more, see [`Rules::seals`].
    is_sealed: bool,
    /// The last place. The next one is above it, and above the epoch.
    last_place: u64,
    /// End of restoring lost seats. Until then none expires, and rooms with a capacity give none.
    settled_at: i64,
    touched: i64,
}

/// One operation in progress.
struct Step<'a> {
    room: &'a mut Room,
    rules: &'a Rules,
    now: i64,
    changes: Vec<Change>,
    /// Rank of the client's last operation, which outranks this one.
    outranked: Option<Rank>,
    queue_moved: bool,
    /// Nodes of seats that an operator ended.
    informed: BTreeSet<NodeId>,
    refused: Option<OpRefusal>,
}

impl Room {
    /// Creates a room without clients in this epoch, above 0.
    pub fn new(epoch: u64) -> Self {
        Self {
            records: Records::default(),
            epoch,
            version: None,
            incarnation: 0,
            capacity: None,
            keeps_capacity: false,
            is_sealed: false,
            blocks: Blocks::default(),
            closure: None,
            last_place: epoch,
            settled_at: 0,
            touched: 0,
        }
    }

    /// Creates a room in place of a lost one. No seat expires, and with a capacity no client is
    /// admitted, for 5 s and for 5 s after each restored seat.
    pub fn rebuilt(now: u64, epoch: u64) -> Self {
        let settled_at = signed(now) + SETTLE_MS;
        Self { version: Some(epoch), incarnation: epoch, settled_at, touched: signed(now), ..Self::new(epoch) }
    }

    /// Begins a later epoch: another owner or backup applies operations from now on.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.last_place = self.last_place.max(epoch);
    }

    /// Returns the highest number of a counter in the room.
    pub fn highest_number(&self) -> u64 {
        let numbers = [self.epoch, self.incarnation, self.version.unwrap_or_default(), self.last_place];
        numbers.into_iter().fold(self.records.highest_rank(), u64::max)
    }

    /// Applies an operation, expires unclaimed seats and fills free ones. A time before that of the
    /// last operation counts as the time of that one. [`OpResult::epoch`] is 0.
    pub fn apply(&mut self, rules: &Rules, now: u64, op: &Operation) -> OpResult {
        let now = signed(now).max(self.touched);
        self.touched = now;
        let was_there = self.version.is_some() || !self.records.is_empty();
        let (changes, informed) = (Vec::new(), BTreeSet::new());
        let mut step =
            Step { room: self, rules, now, changes, outranked: None, queue_moved: false, informed, refused: None };
        step.room.blocks.expire(now);
        step.room.closure.take_if(|closure| closure.is_over(now));
        step.carry_out(op);
        step.expire();
        step.end_closed_seats();
        step.admit();
        step.room.is_sealed |= rules.seals && step.room.is_full(rules);
        if !step.room.keeps_capacity && step.room.records.is_vacant() {
            step.room.capacity = None;
        }
        let result = step.result(op);
        OpResult { created: !was_there && !self.records.is_empty(), ..result }
    }

    /// Has the claimed seats at a node expire after [`Rules::stale`]. `None`: at all nodes. A later
    /// `Join`, `Claim` or `Restore` of a seat's session claims the seat again.
    pub fn unclaim(&mut self, now: u64, node: Option<&NodeId>) {
        let unclaimed_at = signed(now).max(self.touched);
        for known in self.records.claimed_at(node) {
            self.records.put(Record { unclaimed_at, ..known });
        }
    }

    /// Handles the loss of operations: a node has a seat by a command that the room lacks. Nodes
    /// see another incarnation and restore their seats, as after [`Room::rebuilt`].
    pub fn lost_operations(&mut self, now: u64) {
        let now = signed(now).max(self.touched);
        self.incarnation = self.epoch.max(self.incarnation + 1);
        self.settled_at = now + SETTLE_MS;
    }

    /// Returns the state after the last operation. Both numbers are 0 in a new room.
    pub fn stamp(&self) -> Stamp {
        Stamp { incarnation: self.incarnation, version: self.version.unwrap_or_default() }
    }

    /// Returns `true` if an [`Operation::Claim`] claims a seat by a command that the room has lost:
    /// the record of its client is older. `false` without a record, and for other operations.
    pub fn has_lost_command(&self, op: &Operation) -> bool {
        let Operation::Claim { seats } = op else { return false };
        let is_lost = |last: LastCommand, claim: &Requester| !last.is_end_only() && last.lacks(claim);
        let last = |seat: &Seat| self.records.last(&seat.requester.client);
        seats.iter().any(|seat| last(seat).is_some_and(|last| is_lost(last, &seat.requester)))
    }

    /// Returns the nodes that serve members and waiting clients, sorted.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.records.nodes()
    }

    /// Returns `true` if the node serves members or waiting clients.
    pub fn has_seats_at(&self, node: &NodeId) -> bool {
        self.records.present().any(|record| record.seat.requester.node == *node)
    }

    /// Returns `true` if the room remembers seats that an operator ended. Their nodes may not have
    /// received that.
    pub fn has_ended_seats(&self) -> bool {
        self.records.has_ended_seats()
    }

    /// Returns the seats of members and waiting clients by client, without `ahead`, each with the
    /// time at which it expires unless it is claimed. `None`: it is claimed.
    pub fn seats(&self, rules: &Rules) -> impl Iterator<Item = (&Seat, Option<u64>)> {
        let expires = |at| (at != CLAIMED).then(|| unsigned(at + rules.stale_ms()));
        self.records.present().map(move |record| (&record.seat, expires(record.unclaimed_at)))
    }

    /// Returns the numbers of members and waiting clients.
    pub fn counts(&self) -> (u64, u64) {
        (self.records.member_count() as u64, self.records.waiting_count() as u64)
    }

    /// Returns `true` if the room can be forgotten. No client has a seat, is remembered or blocked,
    /// and no lost seat may be restored. A capacity of an operator, or a closure without
    /// an end, has not been used for 24 h.
    pub fn is_finished(&self, now: u64) -> bool {
        let now = signed(now);
        let is_unused = self.records.is_empty() && self.touched + self.kept_ms() < now;
        is_unused && now >= self.settled_at && self.last_ban_end() <= now
    }

    /// Returns how long it is kept after its last use without a client, in milliseconds.
    fn kept_ms(&self) -> i64 {
        let is_closed_for_good = self.closure.is_some_and(|closure| closure.end().is_none());
        if self.capacity.is_some() || is_closed_for_good { CAPACITY_KEPT_MS } else { 0 }
    }

    /// Returns the end of the last block and of a closure that has one, in ms since 1970.
    fn last_ban_end(&self) -> i64 {
        let closed_until = self.closure.and_then(|closure| closure.end());
        closed_until.max(self.blocks.last_end()).unwrap_or_default()
    }

    /// Returns `Some` without members and waiting clients: `true` if it has a capacity of its own
    /// or blocks, or is closed.
    pub fn vacancy(&self) -> Option<bool> {
        self.records.is_vacant().then_some(self.capacity.is_some() || self.blocks.len() > 0 || self.closure.is_some())
    }

    /// Returns the room's own capacity (0: no limit). `None`: the mesh's applies.
    pub fn own_capacity(&self) -> Option<u32> {
        self.capacity
    }

    /// Returns the estimated bytes of its clients and blocks.
    pub fn bytes(&self) -> usize {
        self.records.bytes() + self.blocks.bytes()
    }

    /// Returns the bytes that an operation would add: a new seat, larger `data`, or a block. 0 for
    /// a repeated join, a block in place of a seat, and other operations.
    pub fn growth(&self, op: &Operation) -> usize {
        let (requester, data) = match op {
            Operation::Join { requester, data, .. } => (requester, data),
            Operation::Remove { client, block: Some(_) } => {
                let is_known = self.records.get(client).is_some() || self.blocks.end(client).is_some();
                return if is_known { 0 } else { bytes_of_block(client) };
            }
            _ => return 0,
        };
        let Requester { client, node, .. } = requester;
        match (self.records.last(client), self.records.get(client)) {
            (Some(last), _) if last.has_done(requester) || last.outdates(requester) => 0,
            (_, Some(known)) => {
                let bytes = |data: Option<&str>| data.map_or(0, str::len);
                bytes(data.as_deref()).saturating_sub(bytes(known.seat.data.as_deref()))
            }
            (_, None) => self.records.map_growth() + bytes_of_seat(client, node, data.as_deref()),
        }
    }

    /// Returns when an operation would expire or admit a client, or the room ends; `None`: never.
    pub fn deadline(&self, rules: &Rules) -> Option<u64> {
        let settles = (self.settled_at > self.touched).then_some(self.settled_at);
        let expires = self.records.first_end(rules.stale_ms()).map(|at| at.max(self.settled_at));
        let is_unused = self.records.is_empty();
        let finished = is_unused.then(|| {
            let end = (self.touched + self.kept_ms() + 1).max(self.settled_at);
            end.max(self.last_ban_end())
        });
        let ends = self.closure.is_some_and(|closure| closure.is_ending_seats).then_some(self.touched);
        [settles, expires, finished, ends].into_iter().flatten().min().map(unsigned)
    }

    fn capacity(&self, rules: &Rules) -> Option<u32> {
        self.capacity.or(rules.capacity).filter(|&capacity| capacity > 0)
    }

    fn has_room(&self, rules: &Rules, now: i64) -> bool {
        let is_settled = now >= self.settled_at;
        !self.is_sealed
            && (self.closure.is_none() || !rules.keeps(RoomRule::Closures))
            && (self.capacity(rules).is_none() || (is_settled && !self.is_full(rules)))
    }

    fn is_full(&self, rules: &Rules) -> bool {
        self.capacity(rules).is_some_and(|capacity| self.records.member_count() >= capacity as usize)
    }
}

impl Step<'_> {
    fn carry_out(&mut self, op: &Operation) {
        match op {
            Operation::Join { requester, data, capacity } => {
                // An expired client has no seat to return to.
                self.expire();
                self.admit();
                self.join(requester, data.as_deref(), *capacity);
            }
            Operation::Leave { requester } => self.leave(requester),
            Operation::Revoke { requester } => self.revoke(requester),
            Operation::Remove { client, block } => self.remove(client, block.map(millis)),
            Operation::Unblock { client } => self.room.blocks.remove(client),
            Operation::Close { time } => self.room.closure = Some(Closure::new(self.now, time.map(millis))),
            Operation::Open => self.room.closure = self.room.closure.map(Closure::opened),
            Operation::Drop { requester, keep } => self.end_session(requester, millis(*keep)),
            Operation::Claim { seats } => seats.iter().for_each(|seat| self.claim(&seat.requester)),
            Operation::Restore { seats, confirmed_in, version, capacity } => {
                if self.now < self.room.settled_at {
                    self.room.capacity = self.room.capacity.or(*capacity);
                }
                let is_settled = self.now >= self.room.settled_at;
                if is_settled && self.room.version.is_some_and(|own| own < *version) {
                    // A node has received changes that the room lacks.
                    self.room.lost_operations(unsigned(self.now));
                }
                let mut is_news = false;
                seats.iter().for_each(|seat| is_news |= self.restore(seat, confirmed_in.0));
                // A query of the lost room was answered with its epoch as the version.
                let known = self.room.version.unwrap_or(self.room.epoch).max(*version);
                self.room.version = Some(known + u64::from(is_news));
            }
            Operation::List { .. } | Operation::Find { .. } => {}
            Operation::SetCapacity { capacity } => {
                (self.room.capacity, self.room.keeps_capacity) = (*capacity, capacity.is_some());
            }
        }
    }

    fn next_place(&mut self) -> u64 {
        self.room.last_place = self.room.last_place.saturating_add(1);
        self.room.last_place
    }

    fn join(&mut self, requester: &Requester, data: Option<&str>, capacity: Option<u32>) {
        let last = self.room.records.last(&requester.client);
        if last.is_some_and(|last| last.is_later_than(requester)) {
            self.outranked = last.and_then(|last| last.rank_above(requester));
            return;
        }
        if last.is_some_and(|last| last.has_done(requester)) {
            return self.claim(requester);
        }
        if let Some(closure) = self.room.closure.filter(|_| self.rules.keeps(RoomRule::Closures)) {
            self.refused = Some(OpRefusal::Closed { rest: closure.rest(self.now) });
            return;
        }
        if let Some(end) = self.room.blocks.end(&requester.client).filter(|_| self.rules.keeps(RoomRule::Blocks)) {
            let rest = Duration::from_millis(unsigned(end - self.now));
            self.refused = Some(OpRefusal::Blocked { rest });
            return;
        }
        let left = last.map_or(0, |last| last.last_leave(requester));
        if let Some(known) = self.room.records.get(&requester.client) {
            let status = known.seat.status;
            let changed = data.filter(|data| known.seat.data.as_deref() != Some(data)).map(Box::from);
            let is_news = changed.is_some() && status.is_member();
            let data = changed.or_else(|| known.seat.data.clone());
            let seat = Seat { requester: requester.clone(), status, data };
            if is_news {
                self.joined(&seat);
            }
            return self.put(seat, left);
        }
        if capacity.is_some() && capacity != self.room.capacity {
            (self.room.capacity, self.room.keeps_capacity) = (capacity, false);
            self.admit();
        }
        let is_admitted = self.room.has_room(self.rules, self.now);
        let is_full = |max: u32| self.room.records.waiting_count() >= max as usize;
        if !is_admitted && self.rules.max_waiting.is_some_and(is_full) {
            return;
        }
        let place = self.next_place();
        let status = match is_admitted {
            true => SeatStatus::Member { place },
            false => SeatStatus::Waiting { place, ahead: 0 },
        };
        let seat = Seat { requester: requester.clone(), status, data: data.map(Box::from) };
        if is_admitted {
            self.joined(&seat);
        }
        self.put(seat, left);
    }

    fn joined(&mut self, seat: &Seat) {
        let member = Member { client: seat.requester.client.clone(), data: seat.data.clone() };
        self.changes.push(Change::Joined(member));
    }

    /// Stores a claimed seat. `left`: the number of its session's last leave, or 0.
    fn put(&mut self, seat: Seat, left: u64) {
        self.room.records.put(Record { seat, left, has_ended: false, unclaimed_at: CLAIMED });
    }

    fn leave(&mut self, requester: &Requester) {
        let client = &requester.client;
        let Some(last) = self.room.records.last(client) else {
            return self.remember_unknown(client, LastCommand::after_leave(requester), LeftReason::Left);
        };
        if last.is_later_than(requester) || last.has_done(requester) {
            self.outranked = last.rank_above(requester);
            return;
        }
        let last = LastCommand::after_leave(requester);
        match self.room.records.get(client).is_some() {
            true => self.gone(client, last, LeftReason::Left),
            false => self.room.records.update_gone(client, last),
        }
    }

    /// Remembers a client without a record if its seat may be lost: a late restoration of the seat
    /// has no effect then.
    fn remember_unknown(&mut self, client: &ClientId, last: LastCommand, reason: LeftReason) {
        if self.now < self.room.settled_at {
            self.room.records.put_gone(client, last, reason, self.now + millis(self.rules.remembered));
        }
    }

    fn revoke(&mut self, requester: &Requester) {
        let Some(known) = self.room.records.get(&requester.client) else { return };
        let Requester { session, number, .. } = known.seat.requester;
        if (session, number) == (requester.session, requester.number) && !known.last().is_later_than(requester) {
            self.gone(&requester.client, LastCommand::after_leave(requester), LeftReason::Left);
        }
    }

    fn remove(&mut self, client: &ClientId, block: Option<i64>) {
        if let Some(block) = block
            && !self.room.blocks.insert(client, self.now + block)
        {
            self.refused = Some(OpRefusal::TooManyBlocks);
            return;
        }
        if let Some(last) = self.room.records.get(client).map(Record::last) {
            self.gone(client, last.as_leave(), LeftReason::Removed);
        }
    }

    /// Ends seats of a closed room, and the closure once it is over.
    fn end_closed_seats(&mut self) {
        let Some(mut closure) = self.room.closure else { return };
        if closure.is_ending_seats {
            for known in self.room.records.first_seats(self.rules.ended_at_once) {
                self.gone(&known.seat.requester.client, known.last().as_leave(), LeftReason::Closed);
            }
            closure.is_ending_seats = !self.room.records.is_vacant();
        }
        self.room.closure = Some(closure).filter(|closure| !closure.is_over(self.now));
    }

    /// Returns the reason for which a client can have no seat. `None`: it can.
    fn ban(&self, client: &ClientId) -> Option<LeftReason> {
        let is_blocked = self.room.blocks.end(client).is_some();
        match self.room.closure {
            Some(_) => Some(LeftReason::Closed),
            None => is_blocked.then_some(LeftReason::Removed),
        }
    }

    /// Ends the seat of a present client, and remembers it. `reason`: for the other members.
    fn gone(&mut self, client: &ClientId, last: LastCommand, reason: LeftReason) {
        let node = self.room.records.get(client).map(|known| &known.seat.requester.node);
        let is_informed = reason.is_by_operator() && self.rules.keeps(RoomRule::EndedSeats);
        self.informed.extend(node.filter(|_| is_informed).cloned());
        match self.room.records.get(client).is_some_and(Record::is_member) {
            true => self.changes.push(Change::Left { client: client.clone(), reason }),
            false => self.queue_moved = true,
        }
        self.room.records.put_gone(client, last, reason, self.now + millis(self.rules.remembered));
    }

    fn end_session(&mut self, requester: &Requester, keep: i64) {
        let client = &requester.client;
        let Some(mut known) = self.room.records.get(client).cloned() else {
            if self.room.records.last(client).is_none() {
                self.remember_unknown(client, LastCommand::after_end(requester), LeftReason::Expired);
            }
            return;
        };
        let Requester { ref node, attachment, number, .. } = known.seat.requester;
        let is_outdated = requester.attachment == attachment && requester.number < number;
        let order = known.last().order(requester);
        // A drop of a later attachment may come before that attachment's claim.
        let is_its = order == Some(Less) || (order == Some(Equal) && *node == requester.node);
        if is_its && !is_outdated {
            known.unclaimed_at = self.now - self.rules.stale_ms() + keep;
            known.has_ended = true;
            known.seat.requester = Requester { number, ..requester.clone() };
            self.room.records.put(known);
        }
    }

    fn claim(&mut self, requester: &Requester) {
        let known = self.room.records.get(&requester.client);
        let Some(known) = known.filter(|known| !known.last().outdates(requester)).cloned() else { return };
        let left = known.last().last_leave(requester);
        let is_lost = known.last().lacks(requester);
        let order = known.last().order(requester);
        let Record { mut seat, has_ended, .. } = known;
        let is_late = order == Some(Greater) || (order == Some(Equal) && has_ended);
        if is_lost || is_late {
            return;
        }
        let number = if order.is_some() { seat.requester.number.max(requester.number) } else { requester.number };
        seat.requester = Requester { number, ..requester.clone() };
        self.put(seat, left);
    }

    /// Restores a seat that was confirmed in this incarnation of the room (0: unknown). Returns
    /// `true` if the list of members may change, so that states sent before are outdated.
    fn restore(&mut self, seat: &Seat, incarnation: u64) -> bool {
        if self.ban(&seat.requester.client).is_some() {
            // The operator may have ended the seat before it came.
            return false;
        }
        let is_settling = self.now < self.room.settled_at;
        let records = &self.room.records;
        let (known, last) = (records.get(&seat.requester.client), records.last(&seat.requester.client));
        let is_lost = match last {
            // Only a loss gives a seat back, and each loss begins another incarnation. The time is
            // no evidence: a node may have been cut off for longer than the room settles.
            None => incarnation == 0 || incarnation != self.room.incarnation,
            Some(last) if last.is_past(seat) => false,
            Some(last) => {
                let was_admitted = known.is_some_and(|known| known.was_admitted(seat, is_settling));
                !last.outdates(&seat.requester) && (was_admitted || !last.has_done(&seat.requester))
            }
        };
        let place = match seat.status {
            SeatStatus::Member { place } | SeatStatus::Waiting { place, .. } if is_lost => place,
            _ => {
                self.claim(&seat.requester);
                return false;
            }
        };
        let mut seat = seat.clone();
        if let Some(later) = known.filter(|known| known.is_ahead_of(&seat)) {
            // The record of a later command of the session keeps its number and data.
            seat.requester.number = later.seat.requester.number;
            seat.data.clone_from(&later.seat.data);
        }
        let is_news = seat.status.is_member() || known.is_some_and(Record::is_member);
        self.queue_moved |= known.is_some_and(|known| !known.is_member());
        self.room.last_place = self.room.last_place.max(place);
        // Further seats may follow.
        self.room.settled_at = self.now + SETTLE_MS;
        let left = last.map_or(0, |last| last.last_leave(&seat.requester));
        self.put(seat, left);
        is_news
    }

    fn expire(&mut self) {
        if self.now < self.room.settled_at {
            return;
        }
        let (stale, max) = (self.rules.stale_ms(), self.rules.stale_at_once);
        for known in self.room.records.silent_members(self.now - stale, max) {
            self.gone(&known.seat.requester.client, known.last(), LeftReason::Expired);
        }
        for client in self.room.records.silent_others(self.now, stale, max) {
            match self.room.records.get(&client).map(Record::last) {
                Some(last) => self.gone(&client, last, LeftReason::Expired),
                None => self.room.records.remove(&client),
            }
        }
    }

    /// Admits waiting clients to free seats, first come first served.
    fn admit(&mut self) {
        while self.room.has_room(self.rules, self.now)
            && let Some(mut known) = self.room.records.first_waiting()
        {
            known.seat.status = SeatStatus::Member { place: self.next_place() };
            self.joined(&known.seat);
            self.room.records.put(known);
            self.queue_moved = true;
        }
    }

    /// Returns the status of one session, or without `session` of the client's current one.
    fn status(&self, client: &ClientId, session: Option<SessionId>) -> SeatStatus {
        let Some(known) = self.room.records.get(client) else {
            let Some((reason, last)) = self.room.records.end(client) else { return SeatStatus::Unknown };
            let is_its = session.is_none_or(|session| session == last);
            return SeatStatus::Out(if is_its { reason } else { LeftReason::Expired });
        };
        match known.seat.status {
            _ if session.is_some_and(|session| session != known.seat.requester.session) => {
                SeatStatus::Out(LeftReason::Expired)
            }
            SeatStatus::Waiting { place, .. } => {
                SeatStatus::Waiting { place, ahead: self.room.records.ahead(client, place) }
            }
            status => status,
        }
    }

    fn result(self, op: &Operation) -> OpResult {
        let of = |requester: &Requester| self.status(&requester.client, Some(requester.session));
        let claimed = |seat: &Seat| {
            let last = self.room.records.last(&seat.requester.client);
            let is_lost = last.is_some_and(|last| last.lacks(&seat.requester));
            if is_lost { SeatStatus::Unknown } else { of(&seat.requester) }
        };
        // A seat that was not restored has no record.
        let restored = |seat: &Seat| match of(&seat.requester) {
            SeatStatus::Unknown => SeatStatus::Out(self.ban(&seat.requester.client).unwrap_or(LeftReason::Expired)),
            status => status,
        };
        let statuses: Vec<_> = match op {
            Operation::Join { requester, .. }
            | Operation::Leave { requester }
            | Operation::Revoke { requester }
            | Operation::Drop { requester, .. } => vec![of(requester)],
            Operation::Claim { seats } => seats.iter().map(claimed).collect(),
            Operation::Restore { seats, .. } => seats.iter().map(restored).collect(),
            Operation::Find { client } | Operation::Remove { client, .. } => vec![self.status(client, None)],
            Operation::List { .. }
            | Operation::Unblock { .. }
            | Operation::Close { .. }
            | Operation::Open
            | Operation::SetCapacity { .. } => Vec::new(),
        };
        let listed = match op {
            Operation::List { after } => Some(after.as_ref()),
            Operation::Join { .. } if matches!(statuses[..], [SeatStatus::Member { .. }]) => Some(None),
            _ => None,
        };
        let (members, more) = listed.map(|after| self.page(after)).unwrap_or_default();
        let Self { room, rules, now, changes, outranked, queue_moved, mut informed, refused } = self;
        let version = room.version.unwrap_or(room.epoch) + changes.len() as u64;
        if !changes.is_empty() {
            room.version = Some(version);
        }
        if room.version.is_some() && room.incarnation == 0 {
            room.incarnation = room.epoch;
        }
        let is_news = queue_moved || !changes.is_empty();
        if is_news {
            informed.extend(room.records.nodes());
        }
        let count = room.records.member_count() as u64;
        let is_own = statuses.first().is_some_and(|status| status.is_member());
        OpResult {
            incarnation: room.incarnation,
            version,
            capacity: room.capacity(rules),
            count,
            waiting: room.records.waiting_count() as u64,
            informed: if changes.is_empty() { 0 } else { count.saturating_sub(u64::from(is_own)) },
            changes,
            outranked,
            queue_moved,
            nodes: if is_news { informed.into_iter().collect() } else { Vec::new() },
            statuses,
            members,
            more,
            settling: now < room.settled_at,
            refused,
            blocks: room.blocks.len() as u64,
            closed: room.closure.is_some(),
            closed_for: room.closure.and_then(|closure| closure.rest(now)),
            ..OpResult::default()
        }
    }

    fn page(&self, after: Option<&ClientId>) -> (Vec<Member>, bool) {
        let (mut members, mut bytes) = (Vec::new(), 0);
        for Record { seat: Seat { requester, data, .. }, .. } in self.room.records.members_after(after) {
            if members.len() >= self.rules.page || bytes >= self.rules.page_bytes {
                return (members, true);
            }
            bytes += requester.client.as_str().len() + data.as_deref().map_or(0, str::len);
            members.push(Member { client: requester.client.clone(), data: data.clone() });
        }
        (members, false)
    }
}

/// Converts milliseconds. A number that does not fit becomes `i64::MAX / 4`, so that sums do.
fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX / 4)
}

fn unsigned(time: i64) -> u64 {
    u64::try_from(time).unwrap_or_default()
}
