//! The rules of rooms, without I/O or clock. The scripts in `redis/` implement the same rules in
//! Lua; `tests/conformance` checks both. Nodes that own rooms keep a [`Room`] for each.

mod gone;
mod record;
mod room;

use std::collections::BTreeMap;

use signaling_protocol::RoomName;

pub use self::room::Room;
use self::room::signed;
use crate::rules::MIN_SETTLE_MS;
use crate::{OpResult, Request, Rules};

/// Rooms of a store in memory, which tests and simulations use in place of a Redis.
#[derive(Debug, Clone, Default)]
pub struct Rooms {
    rules: Rules,
    /// Number of the current server process. Rooms that another one wrote last may lack writes.
    run: u64,
    replaced_at: Option<i64>,
    room_by_name: BTreeMap<RoomName, Room>,
    next_idle_check_at: i64,
}

impl Rooms {
    /// Creates an empty set of rooms.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Continues as another process, which may lack the last or all writes. `now`: ms since 1970.
    pub fn restarted(&mut self, now: u64) {
        self.run += 1;
        self.replaced_at = Some(signed(now));
    }

    /// Removes all rooms and continues as another server process. `now`: milliseconds since 1970.
    pub fn replaced(&mut self, now: u64) {
        self.room_by_name.clear();
        self.restarted(now);
    }

    /// Applies one operation at the time `now`, in milliseconds since 1970. Also forgets rooms over
    /// their [`Rules::idle`], once per [`Rules::stale`].
    pub fn apply(&mut self, now: u64, request: &Request) -> OpResult {
        let now = signed(now);
        self.forget_idle(now);
        let room = self.room_by_name.entry(request.room.clone()).or_default();
        let settled_at = self.replaced_at.map(|at| at + MIN_SETTLE_MS);
        if let Some(settled_at) = settled_at.filter(|settled_at| now < *settled_at) {
            room.may_be_lost(settled_at);
        }
        let result = room.apply_in_run(&self.rules.of(&request.room), self.run, now, &request.op);
        if room.is_blank() {
            self.room_by_name.remove(&request.room);
        }
        result
    }

    /// Returns a room. `None`: it is not known.
    pub fn room(&self, name: &RoomName) -> Option<&Room> {
        self.room_by_name.get(name)
    }

    fn forget_idle(&mut self, now: i64) {
        let Self { rules, room_by_name, next_idle_check_at, .. } = self;
        if now >= *next_idle_check_at {
            *next_idle_check_at = now + rules.stale_ms();
            room_by_name.retain(|_, room| !room.is_over(rules, now));
        }
    }
}
