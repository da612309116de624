//! One room.

use signaling_protocol::ClientId;
use signaling_wire::SessionId;

use super::record::{Place, Record, Records};
use crate::rules::millis;
use crate::{Change, Member, Op, Outcome, Reason, Rules, Seat, SeatStatus, Who};

#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    records: Records,
    /// Set by the first change, together with `incarnation` and `run`.
    version: Option<u64>,
    incarnation: u64,
    /// The server process that wrote it last.
    run: u64,
    capacity: Option<u32>,
    /// The latest time given out as a place, so that no two places are equal.
    last_place: i64,
    /// End of the time in which lost seats are restored. Until then no other client gets a seat and
    /// no seat expires.
    settled_at: i64,
    touched: i64,
}

/// One operation in progress.
struct Step<'a> {
    room: &'a mut Room,
    rules: &'a Rules,
    now: i64,
    changes: Vec<Change>,
    line_moved: bool,
}

impl Room {
    pub(super) fn apply(&mut self, rules: &Rules, run: u64, now: i64, op: &Op) -> Outcome {
        if now - self.touched > rules.stale_ms() && self.records.members() > 0 {
            // The store was unreachable, so present clients get time to refresh their seats.
            self.settled_at = now + rules.settle_ms();
        }
        if self.version.is_some() && self.run != run {
            // The last writes may not have reached this server.
            self.incarnation = unsigned(now).max(self.incarnation + 1);
            self.settled_at = now + rules.settle_ms();
        }
        self.run = run;
        self.touched = now;
        let mut step = Step { room: self, rules, now, changes: Vec::new(), line_moved: false };
        step.carry_out(op);
        step.expire();
        step.admit();
        step.outcome(op)
    }

    /// Delays admission until `settled_at` if the room has no record, since it may be lost rather
    /// than new.
    pub(super) fn may_be_lost(&mut self, settled_at: i64) {
        if self.version.is_none() {
            self.settled_at = self.settled_at.max(settled_at);
        }
    }

    /// Returns `true` if the room was never changed.
    pub(super) fn is_blank(&self) -> bool {
        self.records.is_empty() && self.version.is_none() && self.capacity.is_none()
    }

    pub(super) fn is_over(&self, rules: &Rules, now: i64) -> bool {
        let life = if self.capacity.is_some() { rules.idle * 100 } else { rules.idle };
        self.touched + millis(life) < now
    }

    fn capacity(&self, rules: &Rules) -> Option<u32> {
        self.capacity.or(rules.capacity).filter(|&capacity| capacity > 0)
    }

    fn has_room(&self, rules: &Rules, now: i64) -> bool {
        let is_settled = now >= self.settled_at;
        self.capacity(rules).is_none_or(|capacity| is_settled && self.records.members() < capacity as usize)
    }
}

impl Step<'_> {
    fn carry_out(&mut self, op: &Op) {
        match op {
            Op::Join { who, data } => {
                // An expired client has no seat to return to.
                self.expire();
                self.admit();
                self.join(who, data.as_deref());
            }
            Op::Leave { who } => self.leave(who),
            Op::Drop { who, keep } => self.lose(who, millis(*keep)),
            Op::Refresh { seats } => seats.iter().for_each(|seat| self.refresh(&seat.who)),
            Op::Restore { seats, version } => {
                let mut is_news = false;
                seats.iter().for_each(|seat| is_news |= self.restore(seat));
                // A query of the lost room was answered with a version made from the current time.
                let known = self.room.version.unwrap_or(unsigned(self.now)).max(*version);
                self.room.version = Some(known + u64::from(is_news));
            }
            Op::List { .. } | Op::Find { .. } => {}
            Op::SetCapacity { capacity } => self.room.capacity = *capacity,
        }
    }

    fn next_place(&mut self) -> i64 {
        self.room.last_place = self.now.max(self.room.last_place + 1);
        self.room.last_place
    }

    fn join(&mut self, who: &Who, data: Option<&str>) {
        let known = self.room.records.get(&who.client).cloned();
        match known {
            Some(known) if known.outdates(who) => {}
            Some(known) if known.has_done(who) => self.refresh(who),
            Some(known) if known.place != Place::Gone => {
                let changed = data.filter(|data| known.data.as_deref() != Some(data)).map(Box::from);
                let shown = changed.is_some() && known.place == Place::Member;
                let data = changed.or(known.data);
                if shown {
                    self.changes.push(Change::Joined(Member { client: who.client.clone(), data: data.clone() }));
                }
                self.put(who, known.since, data, known.place);
            }
            _ => {
                let is_in = self.room.has_room(self.rules, self.now);
                if !is_in && self.rules.line.is_some_and(|line| self.room.records.waiting() >= line as usize) {
                    return;
                }
                let (since, data) = (self.next_place(), data.map(Box::from));
                if is_in {
                    self.changes.push(Change::Joined(Member { client: who.client.clone(), data: data.clone() }));
                }
                self.put(who, since, data, if is_in { Place::Member } else { Place::Waiting });
            }
        }
    }

    fn put(&mut self, who: &Who, since: i64, data: Option<Box<str>>, place: Place) {
        let Who { ref client, session, accepted_at_us, number, ref node } = *who;
        let record = Record { session, accepted_at_us, number, node: node.clone(), since, data, place, sign: self.now };
        self.room.records.put(client, record);
    }

    fn leave(&mut self, who: &Who) {
        let Some(known) = self.room.records.get(&who.client).cloned() else { return };
        if known.outdates(who) || known.has_done(who) {
            return;
        }
        if known.place == Place::Gone {
            let Who { session, accepted_at_us, number, .. } = *who;
            return self.room.records.put(&who.client, Record { session, accepted_at_us, number, ..known });
        }
        let Who { session, accepted_at_us, number, .. } = *who;
        self.gone(&who.client, Record { session, accepted_at_us, number, ..known }, Reason::Left);
    }

    /// Marks a client as gone and keeps its record.
    fn gone(&mut self, client: &ClientId, known: Record, reason: Reason) {
        match known.place {
            Place::Member => self.changes.push(Change::Left { client: client.clone(), reason }),
            Place::Waiting => self.line_moved = true,
            Place::Gone => {}
        }
        let sign = self.now - self.rules.stale_ms() + self.rules.remembered_ms();
        self.room.records.put(client, Record { place: Place::Gone, sign, data: None, ..known });
    }

    fn lose(&mut self, who: &Who, keep: i64) {
        let Some(known) = self.room.records.get(&who.client).cloned() else { return };
        if known.session == who.session && known.node == who.node && known.place != Place::Gone {
            let sign = self.now - self.rules.stale_ms() + keep;
            self.room.records.put(&who.client, Record { sign, ..known });
        }
    }

    fn refresh(&mut self, who: &Who) {
        let Some(known) = self.room.records.get(&who.client).cloned() else { return };
        if !known.outdates(who) && known.place != Place::Gone {
            let number = if known.session == who.session { known.number.max(who.number) } else { who.number };
            self.put(&Who { number, ..who.clone() }, known.since, known.data, known.place);
        }
    }

    /// Returns `true` if the list of members changes, so that states sent meanwhile are outdated.
    fn restore(&mut self, seat: &Seat) -> bool {
        let is_settling = self.now < self.room.settled_at;
        let known = self.room.records.get(&seat.who.client);
        let is_lost = known.is_none_or(|known| known.is_behind(seat, is_settling));
        let was = known.map(|known| known.place);
        // The record of a later command of the session keeps its number and data.
        let later = known.filter(|known| known.session == seat.who.session && known.number > seat.who.number);
        let number = later.map_or(seat.who.number, |known| known.number);
        let data = later.map_or_else(|| seat.data.clone(), |known| known.data.clone());
        let (place, since) = match seat.standing {
            SeatStatus::Member { place } if is_lost => (Place::Member, place),
            SeatStatus::Waiting { place, .. } if is_lost => (Place::Waiting, place),
            _ => {
                self.refresh(&seat.who);
                return false;
            }
        };
        self.line_moved |= was == Some(Place::Waiting);
        let since = i64::try_from(since).unwrap_or(self.now);
        self.room.last_place = self.room.last_place.max(since);
        // Further seats may follow.
        self.room.settled_at = self.now + self.rules.settle_ms();
        self.put(&Who { number, ..seat.who.clone() }, since, data, place);
        place == Place::Member || was == Some(Place::Member)
    }

    fn expire(&mut self) {
        if self.now < self.room.settled_at {
            return;
        }
        let (until, most) = (self.now - self.rules.stale_ms(), self.rules.stale_at_once);
        for client in self.room.records.silent_members(until, most) {
            if let Some(known) = self.room.records.get(&client).cloned() {
                self.gone(&client, known, Reason::Expired);
            }
        }
        for client in self.room.records.silent_others(until, most) {
            if let Some(known) = self.room.records.remove(&client) {
                self.line_moved |= known.place == Place::Waiting;
            }
        }
    }

    /// Admits waiting clients to free seats, first come first served.
    fn admit(&mut self) {
        while self.room.has_room(self.rules, self.now)
            && let Some(client) = self.room.records.first_in_line()
            && let Some(known) = self.room.records.get(&client).cloned()
        {
            let since = self.next_place();
            self.changes.push(Change::Joined(Member { client: client.clone(), data: known.data.clone() }));
            self.room.records.put(&client, Record { since, place: Place::Member, ..known });
            self.line_moved = true;
        }
    }

    /// Returns the status of one session, or of the client's current session if `session` is
    /// `None`.
    fn standing(&self, client: &ClientId, session: Option<SessionId>) -> SeatStatus {
        let records = &self.room.records;
        let Some(known) = records.get(client) else { return SeatStatus::Unknown };
        let place = u64::try_from(known.since).unwrap_or_default();
        match known.place {
            _ if session.is_some_and(|session| session != known.session) => SeatStatus::Out,
            Place::Member => SeatStatus::Member { place },
            Place::Waiting => SeatStatus::Waiting { place, ahead: records.ahead(client, known.since) as u64 },
            Place::Gone => SeatStatus::Out,
        }
    }

    fn outcome(self, op: &Op) -> Outcome {
        let of = |who: &Who| self.standing(&who.client, Some(who.session));
        let standings: Vec<_> = match op {
            Op::Join { who, .. } | Op::Leave { who } | Op::Drop { who, .. } => vec![of(who)],
            Op::Refresh { seats } | Op::Restore { seats, .. } => seats.iter().map(|seat| of(&seat.who)).collect(),
            Op::Find { client } => vec![self.standing(client, None)],
            Op::List { .. } | Op::SetCapacity { .. } => Vec::new(),
        };
        let listed = match op {
            Op::List { after } => Some(after.as_ref()),
            Op::Join { .. } if matches!(standings[..], [SeatStatus::Member { .. }]) => Some(None),
            _ => None,
        };
        let (members, more) = listed.map(|after| self.page(after)).unwrap_or_default();
        let Self { room, rules, now, changes, line_moved } = self;
        let version = room.version.unwrap_or(unsigned(now)) + changes.len() as u64;
        if !changes.is_empty() {
            room.version = Some(version);
        }
        if room.version.is_some() && room.incarnation == 0 {
            room.incarnation = unsigned(now);
        }
        let tells = line_moved || !changes.is_empty();
        Outcome {
            incarnation: room.incarnation,
            version,
            capacity: room.capacity(rules),
            count: room.records.members() as u64,
            waiting: room.records.waiting() as u64,
            changes,
            line_moved,
            nodes: if tells { room.records.nodes() } else { Vec::new() },
            standings,
            members,
            more,
            settling: now < room.settled_at,
        }
    }

    fn page(&self, after: Option<&ClientId>) -> (Vec<Member>, bool) {
        let (mut members, mut bytes) = (Vec::new(), 0);
        for (client, record) in self.room.records.members_after(after) {
            if members.len() >= self.rules.page || bytes >= self.rules.page_bytes {
                return (members, true);
            }
            bytes += client.as_str().len() + record.data.as_deref().map_or(0, str::len);
            members.push(Member { client: client.clone(), data: record.data.clone() });
        }
        (members, false)
    }
}

fn unsigned(time: i64) -> u64 {
    u64::try_from(time).unwrap_or_default()
}
