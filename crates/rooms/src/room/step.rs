//! One operation on a room: what it changes, and its result.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::BTreeSet;
use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::{Rank, SessionId};

use super::closure::Closure;
use super::records::{CLAIMED, LastCommand, Record};
use super::{Room, signed, unsigned};
use crate::rules::{SETTLE_MS, millis};
use crate::{Change, LeftReason, Member, OpRefusal, OpResult, Operation, Requester, RoomRule, Rules, Seat, SeatStatus};

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
        step.room.has_new_bans |= op.changes_bans();
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
        let last = last.left_by(requester);
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
        if self.room.ban(&seat.requester.client).is_some() {
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
            SeatStatus::Unknown => {
                SeatStatus::Out(self.room.ban(&seat.requester.client).unwrap_or(LeftReason::Expired))
            }
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
