//! The journal of a node's rooms: writes and reads that its shell carries out.

use std::time::Instant;

use signaling_protocol::RoomName;
use signaling_rooms::{JournalOutcome, JournalRead, JournalWrite};

use super::NodeCore;

impl NodeCore {
    /// Takes writes of about `max_bytes`. Each is to be reported by [`Self::journal_written`]
    /// before others are taken.
    pub fn take_journal(&mut self, now: Instant, max_bytes: usize) -> Vec<JournalWrite> {
        self.rooms.take_journal(now, max_bytes)
    }

    /// Handles the result of a write with this number.
    pub fn journal_written(&mut self, now: Instant, room: &RoomName, number: u64, outcome: JournalOutcome) {
        self.with_rooms(now, |rooms| rooms.journal_written(room, number, outcome));
    }

    /// Returns `true` if rooms are to be read from the journal.
    pub fn has_journal_reads(&self) -> bool {
        !self.journal_reads.is_empty()
    }

    /// Takes the rooms to read from the journal, at most 256. Each is to be answered by
    /// [`Self::journal_read`], also if the journal does not answer.
    pub fn take_journal_reads(&mut self) -> Vec<RoomName> {
        std::mem::take(&mut self.journal_reads)
    }

    /// Handles what the journal has of a room.
    pub fn journal_read(&mut self, now: Instant, read: JournalRead) {
        self.with_rooms(now, |rooms| rooms.journal_read(read));
    }

    /// Records whether the journal answers.
    pub fn set_journal_up(&mut self, now: Instant, is_up: bool) {
        self.with_rooms(now, |rooms| rooms.set_journal_up(is_up));
    }
}
