//! Bytes that count for their node while the value that has them lives.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use signaling_protocol::RoomName;

/// The sum of all [`CountedBytes`] of a node.
pub(crate) type ByteTotal = Rc<Cell<usize>>;

/// A part of a [`ByteTotal`], which ends with the value.
#[derive(Debug, Default)]
pub(crate) struct CountedBytes {
    total: ByteTotal,
    bytes: usize,
}

impl CountedBytes {
    pub(crate) fn new(total: &ByteTotal) -> Self {
        Self { total: Rc::clone(total), bytes: 0 }
    }

    pub(crate) fn set(&mut self, bytes: usize) {
        self.total.set(self.total.get() + bytes - self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A value of a [`CountedMap`].
pub(crate) trait Counted {
    /// Returns its estimated bytes, as the value of this room.
    fn bytes(&self, room: &RoomName) -> usize;
}

/// Values by room, whose bytes count. It is read like a map.
#[derive(Debug)]
pub(crate) struct CountedMap<T> {
    by_room: BTreeMap<RoomName, T>,
    bytes: CountedBytes,
}

impl<T: Counted> CountedMap<T> {
    pub(crate) fn new(total: &ByteTotal) -> Self {
        Self { by_room: BTreeMap::new(), bytes: CountedBytes::new(total) }
    }

    /// Inserts a value, and returns the former one.
    pub(crate) fn insert(&mut self, room: RoomName, value: T) -> Option<T> {
        let former = self.remove(&room);
        self.bytes.set(self.bytes.bytes + value.bytes(&room));
        self.by_room.insert(room, value);
        former
    }

    pub(crate) fn remove(&mut self, room: &RoomName) -> Option<T> {
        let value = self.by_room.remove(room)?;
        self.bytes.set(self.bytes.bytes - value.bytes(room));
        Some(value)
    }

    pub(crate) fn take(&mut self) -> BTreeMap<RoomName, T> {
        self.bytes.set(0);
        std::mem::take(&mut self.by_room)
    }

    /// Returns a value, whose bytes must not change.
    pub(crate) fn get_mut(&mut self, room: &RoomName) -> Option<&mut T> {
        self.by_room.get_mut(room)
    }

    /// Returns all values, whose bytes must not change.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&RoomName, &mut T)> {
        self.by_room.iter_mut()
    }

    /// Changes a value and its bytes. `None`: there is none.
    pub(crate) fn change<R>(&mut self, room: &RoomName, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let value = self.by_room.get_mut(room)?;
        let before = value.bytes(room);
        let changed = change(value);
        self.bytes.set(self.bytes.bytes - before + value.bytes(room));
        Some(changed)
    }
}

impl<T> Deref for CountedMap<T> {
    type Target = BTreeMap<RoomName, T>;

    fn deref(&self) -> &Self::Target {
        &self.by_room
    }
}
