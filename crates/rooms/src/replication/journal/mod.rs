//! The journal of the rooms that this node owns: what is written. `reading` has what is read back.
//!
//! Each owned room marks its changed clients. [`Rooms::take_journal`] turns the marks into writes
//! with the present state. Writes of a room are numbered, so that the journal detects a lost one.
//! A whole write begins each epoch, and follows each loss.

mod reading;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, RoomName};

use super::MeshRooms;
use super::owner::OwnedRoom;
use crate::journal::{
    JournalBans, JournalBeat, JournalClient, JournalCounts, JournalOutcome, JournalState, JournalWrite,
};
use crate::room::ChangedClients;
use crate::{Context, Rooms, Seat, Step};

/// Interval of signs of life of a room.
const BEAT_INTERVAL: Duration = Duration::from_secs(60);
/// Signs of life until the journal is asked to keep the room for longer.
const BEATS_PER_RENEWAL: u32 = 60;
/// Bytes at which one write of a whole room ends. Others follow.
const PART_BYTES: usize = 1024 * 1024;
/// Estimated bytes of a written client beside its id and data.
const CLIENT_BYTES: usize = 300;
/// Estimated bytes of a client's sign of life beside its id.
const BEAT_BYTES: usize = 20;
/// Maximum ended rooms that are not written yet. Further ones stay in the journal until it forgets
/// them.
const MAX_ENDED: usize = 10_000;
/// Numbers of a journal that are higher by this than all of the mesh are damaged: more than a year
/// of a counter. A program that writes to the Redis need not know the mesh secret.
const MAX_AHEAD: u64 = 1 << 45;

/// State of an owned room in the journal.
#[derive(Debug, Default)]
pub(super) struct JournalPlace {
    /// Epoch of the last write. 0: there was none.
    epoch: u64,
    /// Number of the last write.
    number: u64,
    /// The last client that a whole write has, while others are left. `None` in it: no client yet.
    unwritten_after: Option<Option<ClientId>>,
    /// Time of the next sign of life. `None`: before the first write.
    beat_at: Option<Instant>,
    is_beat_due: bool,
    /// Number of signs of life.
    beats: u32,
}

/// The journal of a node's rooms.
#[derive(Debug)]
pub(super) struct Journal {
    /// `false` while it does not answer. Marks are then one bit per room.
    is_up: bool,
    start: Instant,
    /// Owned rooms with marks or due signs of life.
    queue: BTreeSet<RoomName>,
    /// The last room of the last writes.
    taken_until: Option<RoomName>,
    beats: BTreeSet<(Instant, RoomName)>,
    /// Ended rooms, with the epoch and number of their last write.
    ended: BTreeMap<RoomName, (u64, u64)>,
    /// Rooms that wait to be read.
    unread: BTreeSet<RoomName>,
    reading: BTreeSet<RoomName>,
    /// Times of the last two losses of members.
    losses: [Option<Instant>; 2],
    pub(super) counts: JournalCounts,
}

impl Journal {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            is_up: true,
            start,
            queue: BTreeSet::new(),
            taken_until: None,
            beats: BTreeSet::new(),
            ended: BTreeMap::new(),
            unread: BTreeSet::new(),
            reading: BTreeSet::new(),
            losses: [None; 2],
            counts: JournalCounts::default(),
        }
    }

    /// Returns the next room with marks, after that of the last write.
    fn next(&mut self) -> Option<RoomName> {
        let after = self.taken_until.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.queue.range::<RoomName, _>((after, Bound::Unbounded)).next();
        let next = behind.or_else(|| self.queue.first()).cloned();
        self.taken_until.clone_from(&next);
        next
    }
}

impl MeshRooms {
    /// Begins the journal of a room that this node owns from now on.
    pub(super) fn begin_journal(&mut self, room: &RoomName) {
        let Some(journal) = &mut self.journal else { return };
        journal.ended.remove(room);
        journal.queue.insert(room.clone());
        if let Some(owned) = self.owned.get_mut(room) {
            owned.room.watch_clients();
        }
    }

    /// Ends the journal of a room that this node does not own any more.
    pub(super) fn forget_journal(&mut self, room: &RoomName, owned: &mut OwnedRoom) {
        let Some(journal) = &mut self.journal else { return };
        owned.room.unwatch_clients();
        journal.queue.remove(room);
        journal.reading.remove(room);
        journal.unread.remove(room);
        if let Some(at) = owned.journal.beat_at {
            journal.beats.remove(&(at, room.clone()));
        }
    }

    /// Has the journal forget a room that ended.
    pub(super) fn end_journal(&mut self, room: &RoomName, owned: &OwnedRoom) {
        let Some(journal) = &mut self.journal else { return };
        if owned.journal.epoch > 0 && journal.ended.len() < MAX_ENDED {
            journal.ended.insert(room.clone(), (owned.at.epoch, owned.journal.number));
        }
    }

    /// Queues a room whose clients, capacity, blocks, closure or epoch changed.
    pub(super) fn note_change(&mut self, room: &RoomName, is_certain: bool) {
        let Some(journal) = &mut self.journal else { return };
        let Some(owned) = self.owned.get_mut(room) else { return };
        if !is_certain && !owned.room.has_changes() {
            return;
        }
        if !journal.is_up {
            owned.room.watch_clients();
        }
        if !journal.queue.contains(room) {
            journal.queue.insert(room.clone());
        }
    }

    /// Queues the signs of life that are due.
    fn queue_beats(&mut self, now: Instant) {
        let Some(journal) = &mut self.journal else { return };
        while journal.beats.first().is_some_and(|(at, _)| *at <= now)
            && let Some((at, room)) = journal.beats.pop_first()
        {
            let Some(owned) = self.owned.get_mut(&room) else { continue };
            debug_assert_eq!(owned.journal.beat_at, Some(at), "{room}");
            owned.journal.beat_at = Some(now + BEAT_INTERVAL);
            owned.journal.is_beat_due = true;
            journal.beats.insert((now + BEAT_INTERVAL, room.clone()));
            journal.queue.insert(room);
        }
    }

    /// Has the next write of a room be a whole one.
    fn write_whole(&mut self, room: &RoomName) {
        if let Some(owned) = self.owned.get_mut(room) {
            owned.room.watch_clients();
        }
    }

    /// Takes the next write of a queued room. `None`: there is nothing to write.
    fn take_write(&mut self, now: Instant, room: &RoomName) -> Option<(JournalWrite, usize)> {
        let journal = self.journal.as_mut()?;
        journal.queue.remove(room);
        if journal.is_read(room) {
            // A write would remove what is read. The answer queues the room again.
            return None;
        }
        let owned = self.owned.get_mut(room)?;
        let (write, bytes) = owned.next_write(owned.clock.time(now), room);
        let state = write.state.as_ref()?;
        journal.counts.taken += 1;
        if state.is_partial {
            journal.queue.insert(room.clone());
        }
        Some((write, bytes))
    }
}

impl OwnedRoom {
    /// Returns the next write of the room, with its estimated bytes.
    fn next_write(&mut self, time: u64, room: &RoomName) -> (JournalWrite, usize) {
        let place = &mut self.journal;
        let is_epoch_new = place.epoch != self.at.epoch;
        let mut bytes = CLIENT_BYTES;
        let mut clients = Vec::new();
        let mut is_whole = is_epoch_new;
        match self.room.take_changed_clients() {
            ChangedClients::Some(changed) if !is_epoch_new => {
                for (client, former) in changed {
                    let seat = self.room.seat(&client).cloned();
                    if former.is_none() && seat.is_none() {
                        continue;
                    }
                    bytes += bytes_of(&client, seat.as_ref());
                    clients.push(JournalClient { client, former, seat });
                }
            }
            _ => is_whole = true,
        }
        let bans = self.room.new_bans(time, is_whole);
        bytes += bans.as_ref().map_or(0, bytes_of_bans);
        if is_whole {
            place.unwritten_after = Some(None);
        }
        if let Some(after) = place.unwritten_after.take() {
            // Changed clients before are no part of the way through all.
            let mut written = after.clone();
            for seat in self.room.seats_after(after.as_ref()) {
                if bytes >= PART_BYTES {
                    place.unwritten_after = Some(written);
                    break;
                }
                bytes += bytes_of(&seat.requester.client, Some(seat));
                let (client, seat) = (seat.requester.client.clone(), Some(seat.clone()));
                written = Some(client.clone());
                clients.push(JournalClient { client, former: None, seat });
            }
        }
        let is_partial = place.unwritten_after.is_some();
        let beat = (!is_partial && std::mem::take(&mut place.is_beat_due)).then(|| {
            place.beats += 1;
            beat_of(self.room.seats_after(None), place.beats % BEATS_PER_RENEWAL == 1)
        });
        bytes += beat.as_ref().map_or(0, bytes_of_beat);
        let after = (!is_whole).then_some(place.number);
        place.number += 1;
        place.epoch = self.at.epoch;
        let (summary, counts) = (self.room.journal_summary(), self.room.counts());
        let state = Some(JournalState { summary, bans, counts, clients, is_partial, beat });
        (JournalWrite { room: room.clone(), epoch: place.epoch, number: place.number, after, state }, bytes)
    }
}

fn bytes_of(client: &ClientId, seat: Option<&Seat>) -> usize {
    let data = seat.and_then(|seat| seat.data.as_deref()).map_or(0, str::len);
    CLIENT_BYTES + 2 * client.as_str().len() + data
}

fn bytes_of_bans(bans: &JournalBans) -> usize {
    bans.blocks.iter().map(|(client, _)| BEAT_BYTES + client.as_str().len()).sum()
}

fn bytes_of_beat(beat: &JournalBeat) -> usize {
    let clients = beat.members.iter().chain(&beat.waiting);
    clients.map(|client| BEAT_BYTES + client.as_str().len()).sum()
}

fn beat_of<'a>(seats: impl Iterator<Item = &'a Seat>, renews: bool) -> JournalBeat {
    let mut beat = JournalBeat { renews, ..JournalBeat::default() };
    for seat in seats {
        let kind = if seat.status.is_member() { &mut beat.members } else { &mut beat.waiting };
        kind.push(seat.requester.client.clone());
    }
    beat
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Raises the node's counter to a number from the journal. Returns `false` if it is damaged.
    fn receive_from_journal(&mut self, number: u64) -> bool {
        number <= self.counter.present(self.now).saturating_add(MAX_AHEAD) && self.receive_number(number)
    }

    /// Queues signs of life that are due.
    pub(super) fn sweep_journal(&mut self) {
        self.mesh.queue_beats(self.now);
    }

    /// Handles the result of a write. After a refusal this node begins a later epoch than that of
    /// the journal, if all members have confirmed that it owns the room. Else the next sign of life
    /// tries again.
    pub fn journal_written(&mut self, room: &RoomName, number: u64, outcome: JournalOutcome) {
        let is_serving = self.serves_new_rooms();
        let is_plausible = matches!(outcome, JournalOutcome::Refused(epoch) if self.receive_from_journal(epoch));
        let Some(owned) = self.mesh.owned.get_mut(room) else { return };
        let place = &mut owned.journal;
        if number > place.number {
            return;
        }
        match outcome {
            JournalOutcome::Written => {
                if place.beat_at.is_none()
                    && let Some(journal) = &mut self.mesh.journal
                {
                    place.beat_at = Some(self.now + BEAT_INTERVAL);
                    journal.beats.insert((self.now + BEAT_INTERVAL, room.clone()));
                }
            }
            JournalOutcome::Lost => {
                self.mesh.write_whole(room);
                self.mesh.note_change(room, true);
            }
            JournalOutcome::Refused(epoch) => {
                let is_later = is_plausible && owned.at.epoch <= epoch;
                if let Some(journal) = &mut self.mesh.journal {
                    journal.counts.refused += 1;
                    // A journal that refuses the first write is asked again.
                    if place.beat_at.is_none() {
                        place.beat_at = Some(self.now + BEAT_INTERVAL);
                        journal.beats.insert((self.now + BEAT_INTERVAL, room.clone()));
                    }
                }
                if is_serving && is_later {
                    self.assign_backup(room);
                }
                self.mesh.write_whole(room);
                if is_serving && is_plausible {
                    self.mesh.note_change(room, true);
                }
            }
        }
    }

    /// Records whether the journal answers. While it does not, nothing is read, and rooms with
    /// changes are written whole afterwards. The answer to each read has to follow in both cases.
    pub fn set_journal_up(&mut self, is_up: bool) {
        let Some(journal) = &mut self.mesh.journal else { return };
        if std::mem::replace(&mut journal.is_up, is_up) == is_up || is_up {
            return;
        }
        let queued: Vec<_> = journal.queue.iter().cloned().collect();
        let unread = std::mem::take(&mut journal.unread);
        queued.iter().for_each(|room| self.mesh.write_whole(room));
        for room in unread {
            self.end_wait_for_journal(&room);
            self.mesh.note_change(&room, true);
        }
    }
}

impl<M> Rooms<M> {
    /// Takes writes for the journal, of about `max_bytes`, or one larger write. Each write has to
    /// be reported by [`Step::journal_written`](crate::Step), before others are taken. Empty
    /// without a journal.
    pub fn take_journal(&mut self, now: Instant, max_bytes: usize) -> Vec<JournalWrite> {
        let mesh = &mut self.mesh;
        let (mut writes, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes
            && let Some(journal) = &mut mesh.journal
        {
            if let Some((room, (epoch, number))) = journal.ended.pop_first() {
                bytes += CLIENT_BYTES;
                writes.push(JournalWrite { room, epoch, number: number + 1, after: None, state: None });
                continue;
            }
            let Some(room) = journal.next() else { break };
            if let Some((write, size)) = mesh.take_write(now, &room) {
                bytes += size;
                writes.push(write);
            }
        }
        writes
    }

    /// Returns `true` if the journal has to be written.
    pub fn has_journal_writes(&self) -> bool {
        self.mesh.journal.as_ref().is_some_and(|journal| !journal.queue.is_empty() || !journal.ended.is_empty())
    }

    /// Returns the events of the journal since the start. All 0 without one.
    pub fn journal_counts(&self) -> JournalCounts {
        self.mesh.journal.as_ref().map(|journal| journal.counts).unwrap_or_default()
    }

    /// Returns the epoch and number of the last write of a room that this node owns. `None`: it
    /// owns no such room, or has not written it.
    pub fn journal_place(&self, room: &str) -> Option<(u64, u64)> {
        let place = &self.mesh.owned.get(room)?.journal;
        (place.epoch > 0).then_some((place.epoch, place.number))
    }

    /// Returns `true` if a room is this node's by the view, but the node has no such room: its
    /// journal is left over. `false` until all members have confirmed the view.
    pub fn is_left_over(&self, room: &RoomName) -> bool {
        self.mesh.owns(room)
            && self.mesh.majority.is_held
            && self.mesh.barrier.is_finished()
            && !self.mesh.owned.contains_key(room)
    }
}
