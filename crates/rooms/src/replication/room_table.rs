//! Rooms by name, with the bytes that all of them take.

use std::collections::BTreeMap;
use std::ops::Deref;

use signaling_protocol::RoomName;

use crate::Room;

/// Bytes of a room beside its clients: its fields, its name, and entries in maps.
pub(super) const ENTRY_BYTES: usize = 700;

/// An entry with a room.
pub(super) trait RoomEntry {
    fn room(&self) -> &Room;
}

/// Rooms by name. All changes of a room count its bytes again.
#[derive(Debug)]
pub(super) struct RoomTable<T> {
    by_name: BTreeMap<RoomName, T>,
    bytes: usize,
}

impl<T> Default for RoomTable<T> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), bytes: 0 }
    }
}

impl<T: RoomEntry> RoomTable<T> {
    /// Returns the estimated bytes of all rooms.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Inserts an entry, and returns the former one.
    pub(super) fn insert(&mut self, name: RoomName, entry: T) -> Option<T> {
        self.bytes += bytes_of(&entry);
        let former = self.by_name.insert(name, entry);
        self.bytes -= former.as_ref().map_or(0, bytes_of);
        former
    }

    /// Removes and returns an entry.
    pub(super) fn remove(&mut self, name: &RoomName) -> Option<T> {
        let removed = self.by_name.remove(name);
        self.bytes -= removed.as_ref().map_or(0, bytes_of);
        removed
    }

    /// Changes an entry, except for its room.
    pub(super) fn get_mut(&mut self, name: &RoomName) -> Option<&mut T> {
        self.by_name.get_mut(name)
    }

    /// Changes all entries, except for their rooms.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&RoomName, &mut T)> {
        self.by_name.iter_mut()
    }

    /// Changes the room of an entry. `None`: there is none.
    pub(super) fn change<R>(&mut self, name: &RoomName, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let entry = self.by_name.get_mut(name)?;
        self.bytes -= bytes_of(entry);
        let changed = change(entry);
        self.bytes += bytes_of(entry);
        Some(changed)
    }
}

/// Reads the entries like a map.
impl<T> Deref for RoomTable<T> {
    type Target = BTreeMap<RoomName, T>;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

fn bytes_of<T: RoomEntry>(entry: &T) -> usize {
    ENTRY_BYTES + entry.room().bytes()
}
