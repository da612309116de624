//! What is read back from the journal: rooms of which all copies may be lost.

use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_protocol::ids::is_reserved;

use super::super::MeshRooms;
use super::super::owner::LogEntry;
use super::Journal;
use crate::journal::{JournalBans, JournalRead};
use crate::{Context, Operation, Output, Step};

/// Maximum rooms that are read at a time.
pub(super) const MAX_READS: usize = 256;
/// Time after the start, or after the loss of two members within it, in which rooms may have lost
/// all copies: their first operations read the journal.
pub(super) const READING_TIME: Duration = Duration::from_secs(60);

impl Journal {
    /// Records lost members of the view.
    pub(in super::super) fn members_lost(&mut self, now: Instant, count: usize) {
        for _ in 0..count.min(2) {
            self.losses = [self.losses[1], Some(now)];
        }
    }

    /// Returns `true` if a room without a copy may be in the journal.
    fn may_have_lost_copies(&self, now: Instant) -> bool {
        let is_within = |from: Instant, until: Instant| until.saturating_duration_since(from) < READING_TIME;
        let both_lost = match self.losses {
            [Some(first), Some(second)] => is_within(first, second) && is_within(second, now),
            _ => false,
        };
        is_within(self.start, now) || both_lost
    }

    /// Returns `true` if the journal's content of a room is still to be read.
    pub(super) fn is_read(&self, room: &RoomName) -> bool {
        self.reading.contains(room) || self.unread.contains(room)
    }
}

impl MeshRooms {
    /// Returns `true` if the first operation of a room reads the journal. A room without a waiting
    /// queue would refuse the clients that wait for it.
    pub(in super::super) fn reads_new_room(&self, now: Instant, room: &RoomName) -> bool {
        let journal = self.journal.as_ref().filter(|journal| journal.is_up && !is_reserved(room.as_str()));
        journal.is_some_and(|journal| journal.may_have_lost_copies(now))
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Requests a room from the journal, at once or after others.
    pub(in super::super) fn read_journal(&mut self, room: &RoomName) {
        if let Some(journal) = self.mesh.journal.as_mut().filter(|journal| journal.is_up && !journal.is_read(room)) {
            journal.unread.insert(room.clone());
            self.continue_reading();
        }
    }

    /// Requests rooms that wait for others to be read.
    pub(in super::super) fn continue_reading(&mut self) {
        let Some(journal) = &mut self.mesh.journal else { return };
        while journal.reading.len() < MAX_READS
            && let Some(room) = journal.unread.pop_first()
        {
            journal.reading.insert(room.clone());
            journal.counts.reads += 1;
            self.local.outputs.push(Output::ReadJournal { room });
        }
    }

    /// Handles what the journal has of a room. No effect unless it was requested by
    /// [`Output::ReadJournal`]. A room that has settled takes blocks and a closure alone.
    pub fn journal_read(&mut self, JournalRead { room, found }: JournalRead) {
        let Some(journal) = &mut self.mesh.journal else { return };
        let was_awaited = journal.reading.remove(&room);
        if was_awaited && !self.serves() && self.mesh.owned.contains_key(&room) {
            // Others may own the room meanwhile. If not, it is read once this node serves again. If
            // its wait is over by then, only blocks and a closure count.
            self.mesh.journal.as_mut().map(|journal| journal.unread.insert(room));
            return;
        }
        // Rooms that were given up have left their places in the queue too.
        self.continue_reading();
        if !was_awaited {
            return;
        }
        let is_full = self.mesh.is_full();
        let now = self.now;
        let found = found.filter(|found| !is_full && self.receive_from_journal(found.highest_number()));
        let taken = found.as_ref().and_then(|found| {
            self.mesh.owned.change(&room, |owned| owned.room.take_journal(owned.clock.time(now), found))
        });
        match (found, taken) {
            (Some(found), Some(has_taken_seats)) if has_taken_seats || found.bans != JournalBans::default() => {
                self.mesh.update_deadline(now, &room);
                if has_taken_seats {
                    self.ask_for_read_claims(&room);
                }
                self.assign_backup(&room);
                if !has_taken_seats || found.seats.is_empty() {
                    self.apply_entry(&room, &LogEntry::Operation(Operation::Claim { seats: Vec::new() }), None);
                }
                self.remove_blocked_clients(&room);
            }
            _ => self.end_wait_for_journal(&room),
        }
        self.mesh.note_change(&room, true);
    }

    /// Ends the seats that clients got before their blocks were read.
    fn remove_blocked_clients(&mut self, room: &RoomName) {
        let blocked = self.mesh.owned.get(room).map(|owned| owned.room.blocked_clients());
        for client in blocked.unwrap_or_default() {
            self.apply_entry(room, &LogEntry::Operation(Operation::Remove { client, block: None }), None);
        }
    }

    /// Admits the clients that wait for the journal of a room.
    pub(super) fn end_wait_for_journal(&mut self, room: &RoomName) {
        if self.serves() && self.mesh.owned.get(room).is_some_and(|owned| owned.room.awaits_journal()) {
            self.apply_entry(room, &LogEntry::NotInJournal, None);
        }
    }

    /// Queues requests to the nodes that had the seats of the journal.
    fn ask_for_read_claims(&mut self, room: &RoomName) {
        let Some(owned) = self.mesh.owned.get(room) else { return };
        owned.room.nodes().into_iter().for_each(|node| self.mesh.claim_requests.add(room.clone(), node));
    }
}
