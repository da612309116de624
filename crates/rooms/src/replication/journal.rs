//! The journal of the rooms that this node owns: what is written, and what is read back.
//!
//! Each owned room marks its changed clients. [`Rooms::take_journal`] turns the marks into writes
//! with the present state. Writes of a room are numbered, so that the journal detects a lost one.
//! A whole write begins each epoch, and follows each loss.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use signaling_protocol::ids::is_reserved;
use signaling_protocol::{ClientId, NodeId, RoomName};

use super::MeshRooms;
use super::owner::{LogEntry, OwnedRoom};
use crate::journal::{
    JournalBeat, JournalClient, JournalCounts, JournalOutcome, JournalRead, JournalState, JournalWrite,
};
use crate::room::ChangedClients;
use crate::{Context, Operation, Output, Rooms, Seat, Step};

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
/// Maximum rooms that are read at a time.
const MAX_READS: usize = 256;
/// Maximum ended rooms that are not written yet. Further ones stay in the journal until it forgets
/// them.
const MAX_ENDED: usize = 10_000;
/// Time after the start, or after the loss of two members within it, in which rooms may have lost
/// all copies: their first operations read the journal.
const READING_TIME: Duration = Duration::from_secs(60);
/// Epochs of a journal from here on are damaged: JSON has no larger integers.
const MAX_EPOCH: u64 = 1 << 53;

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

    /// Records lost members of the view.
    pub(super) fn members_lost(&mut self, now: Instant, count: usize) {
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
    fn is_read(&self, room: &RoomName) -> bool {
        self.reading.contains(room) || self.unread.contains(room)
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

    /// Queues a room whose clients, capacity or epoch changed.
    pub(super) fn note_change(&mut self, room: &RoomName, is_certain: bool) {
        let Some(journal) = &mut self.journal else { return };
        let Some(owned) = self.owned.get_mut(room) else { return };
        if !is_certain && !owned.room.has_changed_clients() {
            return;
        }
        if !journal.is_up {
            owned.room.watch_clients();
        }
        if !journal.queue.contains(room) {
            journal.queue.insert(room.clone());
        }
    }

    /// Returns `true` if the first operation of a room reads the journal. A room without a waiting
    /// queue would refuse the clients that wait for it.
    pub(super) fn reads_new_room(&self, now: Instant, room: &RoomName) -> bool {
        let journal = self.journal.as_ref().filter(|journal| journal.is_up && !is_reserved(room.as_str()));
        journal.is_some_and(|journal| journal.may_have_lost_copies(now))
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
    fn take_write(&mut self, room: &RoomName) -> Option<(JournalWrite, usize)> {
        let journal = self.journal.as_mut()?;
        journal.queue.remove(room);
        if journal.is_read(room) {
            // A write would remove what is read. The answer queues the room again.
            return None;
        }
        let owned = self.owned.get_mut(room)?;
        let (write, bytes) = owned.next_write(room);
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
    fn next_write(&mut self, room: &RoomName) -> (JournalWrite, usize) {
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
        if is_whole {
            place.unwritten_after = Some(None);
        }
        if let Some(after) = place.unwritten_after.take() {
            for seat in self.room.seats_after(after.as_ref()) {
                if bytes >= PART_BYTES {
                    place.unwritten_after = Some(clients.last().map(|last: &JournalClient| last.client.clone()));
                    break;
                }
                bytes += bytes_of(&seat.requester.client, Some(seat));
                let (client, seat) = (seat.requester.client.clone(), Some(seat.clone()));
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
        let state = Some(JournalState { summary, counts, clients, is_partial, beat });
        (JournalWrite { room: room.clone(), epoch: place.epoch, number: place.number, after, state }, bytes)
    }
}

fn bytes_of(client: &ClientId, seat: Option<&Seat>) -> usize {
    let data = seat.and_then(|seat| seat.data.as_deref()).map_or(0, str::len);
    CLIENT_BYTES + 2 * client.as_str().len() + data
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
    /// Queues signs of life that are due.
    pub(super) fn sweep_journal(&mut self) {
        self.mesh.queue_beats(self.now);
    }

    /// Requests a room from the journal, at once or after others.
    pub(super) fn read_journal(&mut self, room: &RoomName) {
        if let Some(journal) = self.mesh.journal.as_mut().filter(|journal| journal.is_up && !journal.is_read(room)) {
            journal.unread.insert(room.clone());
            self.continue_reading();
        }
    }

    fn continue_reading(&mut self) {
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
    /// [`Output::ReadJournal`], and the room still settles.
    pub fn journal_read(&mut self, JournalRead { room, found }: JournalRead) {
        let Some(journal) = &mut self.mesh.journal else { return };
        if !journal.reading.remove(&room) {
            return;
        }
        self.continue_reading();
        let is_full = self.mesh.is_full();
        let clock = self.mesh.clock(self.now);
        let found = found.filter(|found| !is_full && self.serves() && self.receive_number(found.highest_number()));
        let taken = found.filter(|found| {
            let taken = self.mesh.owned.change(&room, |owned| owned.room.take_journal(clock, found));
            taken.unwrap_or_default()
        });
        if let Some(found) = taken {
            self.mesh.update_deadline(clock, &room);
            self.ask_for_read_claims(&room);
            self.assign_backup(&room);
            if found.seats.is_empty() {
                self.apply_entry(&room, &LogEntry::Operation(Operation::Claim { seats: Vec::new() }), None);
            }
        } else {
            self.end_wait_for_journal(&room);
        }
        self.mesh.note_change(&room, true);
    }

    /// Admits the clients that wait for the journal of a room.
    fn end_wait_for_journal(&mut self, room: &RoomName) {
        if self.serves() && self.mesh.owned.get(room).is_some_and(|owned| owned.room.awaits_journal()) {
            self.apply_entry(room, &LogEntry::NotInJournal, None);
        }
    }

    /// Queues requests to the nodes that had the seats of the journal.
    fn ask_for_read_claims(&mut self, room: &RoomName) {
        let Some(owned) = self.mesh.owned.get(room) else { return };
        let nodes: Vec<NodeId> = owned.room.nodes();
        nodes.into_iter().for_each(|node| self.mesh.claim_requests.add(room.clone(), node));
    }

    /// Handles the result of a write. After a refusal this node begins a later epoch than that of
    /// the journal, if all members have confirmed that it owns the room. Else the next sign of life
    /// tries again.
    pub fn journal_written(&mut self, room: &RoomName, number: u64, outcome: JournalOutcome) {
        let is_serving = self.serves_new_rooms();
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
                let is_later = owned.at.epoch <= epoch && epoch < MAX_EPOCH;
                if let Some(journal) = &mut self.mesh.journal {
                    journal.counts.refused += 1;
                    // A journal that refuses the first write is asked again.
                    if place.beat_at.is_none() {
                        place.beat_at = Some(self.now + BEAT_INTERVAL);
                        journal.beats.insert((self.now + BEAT_INTERVAL, room.clone()));
                    }
                }
                if is_serving && is_later && self.receive_number(epoch) {
                    self.assign_backup(room);
                }
                self.mesh.write_whole(room);
                if is_serving && epoch < MAX_EPOCH {
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
    pub fn take_journal(&mut self, max_bytes: usize) -> Vec<JournalWrite> {
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
            if let Some((write, size)) = mesh.take_write(&room) {
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

#[cfg(test)]
mod tests {
    use signaling_wire::{Rank, RoomRequestId, SessionId};

    use super::super::requests::Requester as Request;
    use super::*;
    use crate::fixtures::{Node, requester};
    use crate::journal::{JournalRoom, JournalSummary};
    use crate::{RoomSettings, Rules, SeatKind, SeatStatus};

    const NOW: Duration = Duration::ZERO;

    /// Returns the only node of a mesh, whose rooms have two members each, this long after its
    /// start.
    fn node(age: Duration) -> Node {
        let rules = Rules { capacity: Some(2), ..Rules::default() };
        let mut node = Node::with("n0", &["n0"], RoomSettings { has_journal: true, rules, ..RoomSettings::default() });
        node.now += age;
        node
    }

    fn name(room: &str) -> RoomName {
        RoomName::new(room).unwrap()
    }

    fn ask(node: &mut Node, room: &str, op: Operation) {
        let requester = Request { node: NodeId::new("n0").unwrap(), id: RoomRequestId(1) };
        node.step().room_requested(requester, (name(room), 0), op);
    }

    fn join(client: &str, number: u64) -> Operation {
        Operation::Join { requester: requester(client, "n0", number), data: None, capacity: None }
    }

    fn leave(client: &str) -> Operation {
        Operation::Leave { requester: requester(client, "n0", 9) }
    }

    /// Takes all writes and reports each as written.
    fn write(node: &mut Node) -> Vec<JournalWrite> {
        let mut all = Vec::new();
        loop {
            let writes = node.rooms.take_journal(1);
            if writes.is_empty() {
                return all;
            }
            for write in &writes {
                node.step().journal_written(&write.room, write.number, JournalOutcome::Written);
            }
            all.extend(writes);
        }
    }

    /// Returns each client of the only write with its former and present kind.
    fn clients(writes: &[JournalWrite]) -> Vec<(&str, Option<SeatKind>, Option<SeatKind>)> {
        let [JournalWrite { state: Some(state), .. }] = writes else { panic!("{writes:?}") };
        let kind = |seat: &Seat| if seat.status.is_member() { SeatKind::Member } else { SeatKind::Waiting };
        state.clients.iter().map(|it| (it.client.as_str(), it.former, it.seat.as_ref().map(kind))).collect()
    }

    fn reads(node: &mut Node) -> Vec<String> {
        let outputs = node.rooms.take_outputs().queue.into_iter();
        outputs
            .filter_map(|it| if let Output::ReadJournal { room } = it { Some(room.to_string()) } else { None })
            .collect()
    }

    fn seat(client: &str, status: SeatStatus) -> Seat {
        Seat { requester: requester(client, "n0", 1), status, data: None }
    }

    /// Answers a read with members alice and bob, and carol in the queue.
    fn found(node: &mut Node, epoch: u64) {
        let seats = vec![
            seat("alice", SeatStatus::Member { place: 5 }),
            seat("bob", SeatStatus::Member { place: 6 }),
            seat("carol", SeatStatus::Waiting { place: 7, ahead: 0 }),
        ];
        let summary = JournalSummary { incarnation: 3, version: 4, capacity: Some(2), keeps_capacity: true };
        let found = Some(JournalRoom { epoch, summary, seats });
        node.step().journal_read(JournalRead { room: name("r"), found });
    }

    fn counts(node: &Node) -> (u64, u64) {
        node.rooms.owned("r").unwrap().counts()
    }

    #[test]
    fn write_has_the_present_state_of_changed_clients() {
        use SeatKind::{Member, Waiting};
        let mut node = node(READING_TIME);
        ["alice", "bob", "carol"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
        let first = write(&mut node);
        assert_eq!((first[0].number, first[0].after), (1, None));
        let all = [("alice", None, Some(Member)), ("bob", None, Some(Member)), ("carol", None, Some(Waiting))];
        assert_eq!(clients(&first), all);

        ask(&mut node, "r", leave("alice"));
        ask(&mut node, "r", join("dave", 1));
        ask(&mut node, "r", join("erin", 1));
        ask(&mut node, "r", leave("erin"));
        let second = write(&mut node);
        assert_eq!((second[0].number, second[0].after), (2, Some(1)));
        let changed =
            [("alice", Some(Member), None), ("carol", Some(Waiting), Some(Member)), ("dave", None, Some(Waiting))];
        assert_eq!(clients(&second), changed);
        assert_eq!(second[0].state.as_ref().unwrap().counts, (2, 1));
        ask(&mut node, "r", join("bob", 1));
        assert_eq!(write(&mut node), [], "a repeated join changes nothing");
    }

    #[test]
    fn whole_room_follows_a_loss_a_new_epoch_and_an_outage() {
        let mut node = node(READING_TIME);
        ["alice", "bob"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
        write(&mut node);
        ask(&mut node, "r", leave("alice"));
        let lost = node.rooms.take_journal(1).remove(0);
        node.step().journal_written(&lost.room, lost.number, JournalOutcome::Lost);
        let whole = |node: &mut Node, number| {
            let writes = write(node);
            assert_eq!((writes[0].number, writes[0].after), (number, None));
            assert_eq!(clients(&writes), [("bob", None, Some(SeatKind::Member))]);
        };
        whole(&mut node, 3);
        node.step().assign_backup(&name("r"));
        whole(&mut node, 4);
        node.step().set_journal_up(false);
        ask(&mut node, "r", join("alice", 10));
        ask(&mut node, "r", leave("alice"));
        assert!(matches!(node.rooms.mesh.owned["r"].room.clone().take_changed_clients(), ChangedClients::All));
        node.step().set_journal_up(true);
        ask(&mut node, "r", Operation::Leave { requester: requester("alice", "n0", 11) });
        whole(&mut node, 5);
    }

    #[test]
    fn refused_owner_begins_a_later_epoch_if_all_members_confirm_it() {
        for is_confirmed in [true, false] {
            let mut node = node(READING_TIME);
            ask(&mut node, "r", join("alice", 1));
            let refused = node.rooms.take_journal(1).remove(0);
            if !is_confirmed {
                node.rooms.mesh.barrier.waiting.insert(NodeId::new("n1").unwrap());
            }
            let later = refused.epoch + 1_000_000;
            node.step().journal_written(&refused.room, refused.number, JournalOutcome::Refused(later));
            let next = write(&mut node).first().map(|write| (write.epoch, write.after));
            assert_eq!(next, is_confirmed.then_some((later + 1, None)));
            assert_eq!(node.rooms.journal_counts().refused, 1);
        }
    }

    #[test]
    fn large_room_is_written_in_parts() {
        let mut node = node(READING_TIME);
        let data = Some("x".repeat(50_000).into());
        for client in 0..60 {
            let requester = requester(&format!("c{client:02}"), "n0", 1);
            ask(&mut node, "r", Operation::Join { requester, data: data.clone(), capacity: Some(100) });
        }
        let first = node.rooms.take_journal(1);
        node.step().journal_written(&name("r"), first[0].number, JournalOutcome::Written);
        // A change between two parts.
        ask(&mut node, "r", leave("c00"));
        let rest = write(&mut node);
        let partial = |write: &JournalWrite| write.state.as_ref().unwrap().is_partial;
        assert!(partial(&first[0]) && !partial(rest.last().unwrap()) && rest.len() >= 2);
        let parts = first.iter().chain(&rest);
        assert!(parts.clone().skip(1).all(|write| write.after == Some(write.number - 1)));
        let all: BTreeSet<_> = parts.flat_map(|it| &it.state.as_ref().unwrap().clients).map(|it| &it.client).collect();
        assert_eq!(all.len(), 60);
        let left = rest[0].state.as_ref().unwrap().clients.iter().find(|it| it.client.as_str() == "c00").unwrap();
        assert_eq!((left.former, &left.seat), (Some(SeatKind::Member), &None));
    }

    #[test]
    fn room_gives_signs_of_life_until_it_ends() {
        let mut node = node(READING_TIME);
        ["alice", "bob", "carol"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
        write(&mut node);
        for (beat, renews) in [(1, true), (2, false)] {
            node.now += BEAT_INTERVAL;
            node.sweep();
            let writes = write(&mut node);
            let [JournalWrite { after: Some(_), state: Some(state), .. }] = &writes[..] else { panic!("{writes:?}") };
            let clients = |clients: &[ClientId]| clients.iter().map(ToString::to_string).collect::<Vec<_>>();
            let alive = state.beat.as_ref().unwrap();
            assert_eq!(clients(&alive.members), ["alice", "bob"]);
            assert_eq!((clients(&alive.waiting), alive.renews), (vec!["carol".to_owned()], renews), "{beat}");
        }
        node.step().end_room(&name("r"));
        let writes = write(&mut node);
        assert!(matches!(writes[..], [JournalWrite { number: 4, after: None, state: None, .. }]), "{writes:?}");
        assert!(node.rooms.mesh.journal.unwrap().beats.is_empty());
    }

    #[test]
    fn room_without_journal_marks_no_changes() {
        let mut node = Node::new("n0", &["n0"]);
        ask(&mut node, "r", join("alice", 1));
        assert!(matches!(node.rooms.mesh.owned["r"].room.clone().take_changed_clients(), ChangedClients::Unwatched));
        assert_eq!((node.rooms.take_journal(1), reads(&mut node)), (vec![], vec![]));
    }

    #[test]
    fn clients_of_the_journal_are_back_until_they_expire() {
        let mut node = node(NOW);
        let later = Operation::Join {
            requester: crate::Requester { session: SessionId([2; 16]), rank: Rank(2), ..requester("alice", "n0", 1) },
            data: None,
            capacity: None,
        };
        ask(&mut node, "r", later);
        ask(&mut node, "r", join("dave", 1));
        assert_eq!((reads(&mut node), counts(&node)), (vec!["r".to_owned()], (0, 2)));
        assert_eq!(write(&mut node), [], "a write would remove what is read");

        found(&mut node, 1);
        assert_eq!(counts(&node), (2, 2));
        let seats = |node: &Node| {
            let seats = node.rooms.owned("r").unwrap().seats_after(None);
            let of =
                |seat: &Seat| (seat.requester.client.to_string(), seat.requester.session.0[0], seat.status.is_member());
            seats.map(of).collect::<Vec<_>>()
        };
        let of = |client: &str, session, is_member| (client.to_owned(), session, is_member);
        let all = [of("alice", 2, true), of("bob", 1, true), of("carol", 1, false), of("dave", 1, false)];
        assert_eq!(seats(&node), all, "the new session of alice has her seat");
        let dave = node.rooms.owned("r").unwrap().seat(&ClientId::new("dave").unwrap()).unwrap().status;
        assert_eq!(dave, SeatStatus::Waiting { place: 8, ahead: 0 }, "a newcomer is behind the queue of the journal");
        assert_eq!(write(&mut node)[0].after, None);

        node.now += Duration::from_secs(46);
        node.sweep();
        assert_eq!(seats(&node), [of("alice", 2, true), of("dave", 1, true)]);
    }

    #[test]
    fn epoch_of_the_owner_is_above_that_of_the_journal() {
        let mut node = node(NOW);
        ask(&mut node, "r", join("alice", 1));
        let later = node.rooms.mesh.owned["r"].at.epoch + 1_000_000;
        found(&mut node, later);
        assert_eq!(write(&mut node)[0].epoch, later + 1);
    }

    #[test]
    fn newcomer_waits_for_the_journal_for_at_most_one_second() {
        for is_answered in [true, false] {
            let mut node = node(NOW);
            ask(&mut node, "r", join("alice", 1));
            assert_eq!(counts(&node), (0, 1));
            if is_answered {
                node.step().journal_read(JournalRead { room: name("r"), found: None });
            } else {
                node.now += Duration::from_millis(1_001);
                node.sweep();
            }
            assert_eq!(counts(&node), (1, 0), "{is_answered}");
            if !is_answered {
                found(&mut node, 1);
                assert_eq!(counts(&node), (1, 0), "others may have the seats");
            }
        }
    }

    #[test]
    fn first_operation_reads_only_after_a_start_or_two_losses() {
        let mut node = node(READING_TIME);
        ask(&mut node, "a", join("alice", 1));
        ask(&mut node, "~mb.2s:path:id", join("alice", 1));
        node.set_view(&["n0", "n1", "n2", "n3"]);
        node.set_view(&["n0", "n1"]);
        node.set_view(&["n0"]);
        assert_eq!(reads(&mut node), [""; 0]);
        ask(&mut node, "b", join("alice", 1));
        node.step().set_journal_up(false);
        ask(&mut node, "c", join("alice", 1));
        node.step().set_journal_up(true);
        node.now += READING_TIME;
        ask(&mut node, "d", join("alice", 1));
        assert_eq!(reads(&mut node), ["b"]);
    }

    #[test]
    fn at_most_256_rooms_are_read_at_a_time() {
        let mut node = node(NOW);
        for room in 0..300 {
            ask(&mut node, &format!("r{room:03}"), join("alice", 1));
        }
        assert_eq!(reads(&mut node).len(), MAX_READS);
        node.step().journal_read(JournalRead { room: name("r000"), found: None });
        assert_eq!(reads(&mut node), ["r256"]);
        node.step().set_journal_up(false);
        node.step().journal_read(JournalRead { room: name("r001"), found: None });
        assert_eq!(reads(&mut node), [""; 0], "a journal that is down is not read");
    }
}
