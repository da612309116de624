//! Rooms that the client is in or waits for, for `Core`. It rejoins them in a new session.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::Ms;
use super::request::Request;
use crate::rules::{MAX_REJOIN_WAIT, MAX_ROOMS, MIN_REJOIN_WAIT};
use crate::saved::SavedRoom;

/// Rooms in the order joined.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    rooms: Vec<Kept>,
    /// Earliest time of the next repetition of a rejoin.
    paused_until: Ms,
}

#[derive(Debug)]
struct Kept {
    room: String,
    data: Option<Box<RawValue>>,
    seat: Seat,
}

/// State of a seat in this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    Held,
    /// A rejoin has no answer yet.
    Requested,
    /// A rejoin was refused. The next one is due at this time.
    RetryAt(Ms),
}

impl Rooms {
    /// Restores the rooms of another process. Those without a seat are rejoined.
    pub(crate) fn restore(saved: Vec<SavedRoom>) -> Self {
        let kept = |SavedRoom { room, data, rejoins }| {
            let seat = if rejoins { Seat::RetryAt(MIN_REJOIN_WAIT) } else { Seat::Held };
            Kept { room, data, seat }
        };
        Self { rooms: saved.into_iter().map(kept).collect(), paused_until: 0 }
    }

    pub(crate) fn save(&self) -> Vec<SavedRoom> {
        let saved = |kept: &Kept| {
            let rejoins = kept.seat != Seat::Held;
            SavedRoom { room: kept.room.clone(), data: kept.data.clone(), rejoins }
        };
        self.rooms.iter().map(saved).collect()
    }

    /// Returns `true` if the limit of 256 rooms allows a join of `room`. `pending` are the rooms of
    /// joins without an answer, which count too. A room that counts already may be joined again.
    pub(crate) fn may_join<'a>(&'a self, room: &str, pending: impl Iterator<Item = &'a str>) -> bool {
        let names: BTreeSet<&str> = self.rooms.iter().map(|kept| kept.room.as_str()).chain(pending).collect();
        names.len() < MAX_ROOMS || names.contains(room)
    }

    /// Adds a room after its join was acknowledged, or replaces the data that the client shows to
    /// the room's members. `None` keeps the present data, as the mesh does.
    pub(crate) fn enter(&mut self, room: &str, data: Option<Box<RawValue>>) {
        self.paused_until = 0;
        match self.rooms.iter_mut().find(|kept| kept.room == room) {
            Some(kept) => {
                kept.data = data.or_else(|| kept.data.take());
                kept.seat = Seat::Held;
            }
            None => self.rooms.push(Kept { room: room.to_owned(), data, seat: Seat::Held }),
        }
    }

    /// Forgets a room: a new session does not rejoin it. Ignores an unknown room.
    pub(crate) fn leave(&mut self, room: &str) {
        self.rooms.retain(|kept| kept.room != room);
    }

    /// Returns `true` for a kept room without a seat in this session.
    pub(crate) fn lacks_seat(&self, room: &str) -> bool {
        self.rooms.iter().any(|kept| kept.room == room && kept.seat != Seat::Held)
    }

    /// Starts a new session, without seats. Returns a join request per room, in the order joined.
    pub(crate) fn start_again(&mut self) -> Vec<Request> {
        self.rooms.iter_mut().map(Kept::rejoin).collect()
    }

    /// Repeats a refused rejoin after `wait`, but after at least 0.1 s and at most 30 s.
    pub(crate) fn retry(&mut self, now: Ms, room: &str, wait: Ms) {
        if let Some(kept) = self.rooms.iter_mut().find(|kept| kept.room == room) {
            kept.seat = Seat::RetryAt(now + wait.clamp(MIN_REJOIN_WAIT, MAX_REJOIN_WAIT));
        }
    }

    /// Returns when [`Rooms::take_due`] has a rejoin; `None` for never.
    pub(crate) fn deadline(&self) -> Option<Ms> {
        self.rooms.iter().filter_map(Kept::retry_at).min().map(|at| at.max(self.paused_until))
    }

    /// Takes the next due rejoin, if any. It waits while a join of its room is among the `pending`
    /// ones, whose data may be newer.
    pub(crate) fn take_due<'a>(&mut self, now: Ms, mut pending: impl Iterator<Item = &'a str>) -> Option<Request> {
        self.deadline().filter(|at| *at <= now)?;
        self.paused_until = now + MIN_REJOIN_WAIT;
        let first =
            self.rooms.iter_mut().filter(|kept| kept.retry_at().is_some()).min_by_key(|kept| kept.retry_at())?;
        if pending.any(|room| room == first.room) {
            first.seat = Seat::RetryAt(self.paused_until);
            return None;
        }
        Some(first.rejoin())
    }
}

impl Kept {
    fn rejoin(&mut self) -> Request {
        self.seat = Seat::Requested;
        Request::Join { room: self.room.clone(), data: self.data.clone() }
    }

    fn retry_at(&self) -> Option<Ms> {
        match self.seat {
            Seat::RetryAt(at) => Some(at),
            Seat::Held | Seat::Requested => None,
        }
    }
}
