//! One room: records, version and capacity. Its owner and its backup apply operations.

mod blocks;
mod changed;
mod closure;
mod gone;
mod journal;
mod records;
mod step;

use serde::{Deserialize, Serialize};
use signaling_protocol::{ClientId, NodeId};

use self::blocks::{Blocks, bytes_of_block};
pub(crate) use self::changed::ChangedClients;
pub use self::changed::SeatKind;
use self::closure::Closure;
use self::records::{CLAIMED, LastCommand, Record, Records, bytes_of_seat};
use crate::rules::{CAPACITY_KEPT_MS, SETTLE_MS};
use crate::{LeftReason, Operation, Requester, RoomRule, Rules, Seat, Stamp};

/// One room. Two copies that apply the same operations at the same times are equal.
/// All times are room times, in milliseconds since its creation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Room {
    records: Records,
    blocks: Blocks,
    /// `None`: the room is open.
    closure: Option<Closure>,
    /// `true` if `blocks` or `closure` changed since the last write to a journal. Copies at other
    /// nodes do not have it.
    #[serde(skip)]
    has_new_bans: bool,
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
            has_new_bans: false,
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

    /// Returns the end of the last block and of a closure that has one, in ms of room time.
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

    /// Returns the reason for which a client can have no seat. `None`: it can.
    fn ban(&self, client: &ClientId) -> Option<LeftReason> {
        let is_blocked = self.blocks.end(client).is_some();
        match self.closure {
            Some(_) => Some(LeftReason::Closed),
            None => is_blocked.then_some(LeftReason::Removed),
        }
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

/// Converts milliseconds, at most `i64::MAX / 4`, so that sums fit.
fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

fn unsigned(time: i64) -> u64 {
    u64::try_from(time).unwrap_or_default()
}
