//! Rooms that the client is in or waits for, for `Core`. It rejoins them in a new session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::request::Request;
use crate::rules::MAX_ROOMS;
use crate::saved::SavedRoom;

/// Rooms in the order joined. Serialized as a plain list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Rooms {
    rooms: Vec<SavedRoom>,
}

impl Rooms {
    /// Returns `true` if the limit of 256 rooms allows a join of `room`. `pending` are the rooms of
    /// joins without an answer, which count too. A room that counts already may be joined again.
    pub(crate) fn may_join<'a>(&'a self, room: &str, pending: impl Iterator<Item = &'a str>) -> bool {
        let names: BTreeSet<&str> = self.rooms.iter().map(|kept| kept.room.as_str()).chain(pending).collect();
        names.len() < MAX_ROOMS || names.contains(room)
    }

    /// Adds a room after its join was acknowledged, or replaces the data that the client shows to
    /// the room's members. `None` keeps the present data, as the mesh does.
    pub(crate) fn enter(&mut self, room: &str, data: Option<Box<RawValue>>) {
        match self.rooms.iter_mut().find(|kept| kept.room == room) {
            Some(kept) => kept.data = data.or_else(|| kept.data.take()),
            None => self.rooms.push(SavedRoom { room: room.to_owned(), data }),
        }
    }

    /// Forgets a room: a new session does not rejoin it. Ignores an unknown room.
    pub(crate) fn leave(&mut self, room: &str) {
        self.rooms.retain(|kept| kept.room != room);
    }

    /// Returns a join request per room, in the order joined.
    pub(crate) fn joins(&self) -> impl DoubleEndedIterator<Item = Request> {
        self.rooms.iter().map(|kept| Request::Join { room: kept.room.clone(), data: kept.data.clone() })
    }
}
