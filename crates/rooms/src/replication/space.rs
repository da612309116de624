//! Memory for rooms at this node: its limit, the joins that it refuses, and the end of the oldest
//! rooms without clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;

use super::MeshRooms;
use super::requests::Requester;
use crate::counted::ByteTotal;
use crate::{Context, OpRefusal, OpResult, Operation, Step};

/// Bytes of a room beside its clients: its fields, its name, and entries in maps.
pub(super) const ENTRY_BYTES: usize = 700;
/// Maximum bytes of one room. A copy of it takes less in a lane.
const MAX_ROOM_BYTES: usize = 8 * 1024 * 1024;
/// Maximum owned rooms without clients, and as many that are kept for an operator.
const MAX_VACANT: usize = 10_000;
/// Maximum rooms that one request or sweep ends to make space.
const ENDED_AT_ONCE: usize = 100;
/// Interval of reports to all peers while no bytes are left.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Validity of a peer's report.
const REPORT_VALIDITY: Duration = Duration::from_secs(3);

/// Limit of the bytes of rooms, and what it needs to know.
#[derive(Debug)]
pub(super) struct Space {
    /// Maximum bytes of owned rooms, copies and seats of clients. Copies are taken above it too.
    limit: usize,
    /// Bytes of owned rooms, complete copies and seats of clients. `MeshRooms` adds the copies that
    /// have arrived in part.
    bytes: ByteTotal,
    /// Owned rooms without clients, and those kept for an operator. Each with the time since when.
    vacant: [BTreeSet<(Instant, RoomName)>; 2],
    /// Peers without bytes for rooms, with the time of their last report.
    full_peers: BTreeMap<NodeId, Instant>,
    reported_at: Option<Instant>,
}

impl Space {
    pub(super) fn new(limit: usize, bytes: ByteTotal) -> Self {
        Self { limit, bytes, vacant: Default::default(), full_peers: BTreeMap::new(), reported_at: None }
    }

    pub(super) fn vacant_rooms(&self) -> usize {
        self.vacant.iter().map(BTreeSet::len).sum()
    }
}

impl MeshRooms {
    /// Returns the estimated bytes of owned rooms, copies and seats of clients.
    pub(super) fn bytes(&self) -> usize {
        self.partial.values().map(Vec::len).sum::<usize>() + self.space.bytes.get()
    }

    /// Returns `true` if no bytes are left for new seats and larger data.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.space.limit
    }

    /// Records since when an owned room has no clients.
    pub(super) fn update_vacancy(&mut self, now: Instant, name: &RoomName) {
        let Some(owned) = self.owned.get_mut(name) else { return };
        let vacancy = owned.room.vacancy().map(usize::from);
        if owned.vacant.map(|(kind, _)| kind) == vacancy {
            return;
        }
        let former = std::mem::replace(&mut owned.vacant, vacancy.map(|kind| (kind, now)));
        self.forget_vacancy(name, former);
        if let Some(kind) = vacancy {
            self.space.vacant[kind].insert((now, name.clone()));
        }
    }

    pub(super) fn forget_vacancy(&mut self, name: &RoomName, vacant: Option<(usize, Instant)>) {
        if let Some((kind, since)) = vacant {
            self.space.vacant[kind].remove(&(since, name.clone()));
        }
    }

    /// Returns `true` if a join or block must not add bytes here or at the backup.
    fn refuses(&self, now: Instant, room: &RoomName, backup: Option<&NodeId>, op: &Operation) -> bool {
        let known = self.owned.get(room).map(|owned| &owned.room);
        let growth = known.map_or_else(|| ENTRY_BYTES + crate::Room::new(0).growth(op), |it| it.growth(op));
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < REPORT_VALIDITY;
        let backup_is_full = || backup.and_then(|backup| self.space.full_peers.get(backup)).is_some_and(is_recent);
        matches!(op, Operation::Join { .. } | Operation::Remove { block: Some(_), .. })
            && growth > 0
            && (self.bytes() + growth > self.space.limit
                || known.map_or(0, crate::Room::bytes) + growth > MAX_ROOM_BYTES
                || backup_is_full())
    }

    /// Returns the oldest room to end: of too many without clients, or above 75% of the bytes.
    fn next_to_end(&self) -> Option<RoomName> {
        let [plain, of_operators] = &self.space.vacant;
        let is_short = plain.len() > MAX_VACANT || self.bytes() > self.space.limit / 4 * 3;
        let kept = || of_operators.first().filter(|_| of_operators.len() > MAX_VACANT);
        plain.first().filter(|_| is_short).or_else(kept).map(|(_, name)| name.clone())
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Refuses a join or block for lack of bytes. Returns `false` if it may be carried out. A
    /// refusal changes nothing, so it needs no backup.
    pub(super) fn refuse_for_space(
        &mut self,
        requester: &Requester,
        (room, seen): (&RoomName, u64),
        op: &Operation,
    ) -> bool {
        let owned = self.mesh.owned.get(room);
        let backup = owned.map_or_else(|| self.backup_for(room), |owned| owned.backup.clone());
        if !self.mesh.refuses(self.now, room, backup.as_ref(), op) {
            return false;
        }
        // The requesting node ignores results of earlier epochs.
        let epoch = self.mesh.epoch_of(room).0.max(seen);
        let result = OpResult { epoch, refused: Some(OpRefusal::NoBytes), ..OpResult::default() };
        match requester.node == self.mesh.id {
            true => self.request_answered(requester.id, result),
            false => self.send_result(requester, &result),
        }
        true
    }

    /// Ends the oldest rooms without clients while there are too many, or bytes are scarce.
    pub(super) fn make_space(&mut self) {
        for _ in 0..ENDED_AT_ONCE {
            let Some(room) = self.mesh.next_to_end() else { return };
            self.end_room(&room);
        }
    }

    /// Reports to all peers, once per second, that this node has no bytes left for rooms.
    pub(super) fn report_full_rooms(&mut self) {
        let is_due = |at: Instant| self.now.saturating_duration_since(at) >= REPORT_INTERVAL;
        if self.mesh.is_full() && self.mesh.space.reported_at.is_none_or(is_due) {
            self.mesh.space.reported_at = Some(self.now);
            self.send_item_to_all(&Item::RoomsFull);
        }
    }

    /// Handles the report of a peer that has no bytes left for rooms.
    pub(crate) fn peer_rooms_full(&mut self, sender: &NodeId) {
        let MeshRooms { members, space, .. } = &mut self.mesh;
        if members.contains(sender) {
            space.full_peers.retain(|peer, _| members.contains(peer));
            space.full_peers.insert(sender.clone(), self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::ClientId;
    use signaling_wire::RoomRequestId;

    use super::*;
    use crate::RoomSettings;
    use crate::fixtures::{Node, requester};

    /// Returns the only node of a mesh, with this limit.
    fn node(max_bytes: usize) -> Node {
        Node::with("n0", &["n0"], RoomSettings { max_bytes, ..RoomSettings::default() })
    }

    fn name(number: usize) -> RoomName {
        RoomName::new(&format!("r{number}")).unwrap()
    }

    fn join(client: &str, number: u64, data: usize) -> Operation {
        let (requester, data) = (requester(client, "n0", number), Some("x".repeat(data).into()));
        Operation::Join { requester, data, capacity: None }
    }

    fn leave(number: u64) -> Operation {
        Operation::Leave { requester: requester("alice", "n0", number) }
    }

    fn ask(node: &mut Node, room: usize, op: Operation) {
        let requester = Requester { node: NodeId::new("n0").unwrap(), id: RoomRequestId(1) };
        node.step().room_requested(requester, (name(room), 0), op);
    }

    #[test]
    fn join_is_refused_without_bytes_until_a_room_ends() {
        let mut node = node(1_000_000);
        (0..1_000).for_each(|room| ask(&mut node, room, join("alice", 1, 0)));
        let (owned, bytes) = (node.rooms.mesh.owned.len(), node.rooms.mesh.bytes());
        assert!((600..1_000).contains(&owned) && (990_000..=1_000_000).contains(&bytes), "{owned} {bytes}");
        ask(&mut node, 0, join("alice", 2, 10_000));
        assert_eq!(node.rooms.mesh.bytes(), bytes, "larger data is refused");
        ask(&mut node, 0, join("alice", 1, 10_000));
        ask(&mut node, 0, leave(3));
        assert!(node.rooms.mesh.bytes() < bytes, "a room without clients ends above 75%");
        ask(&mut node, 999, join("alice", 1, 0));
        assert!(node.rooms.mesh.owned.contains_key(&name(999)));
        for room in 1..1_000 {
            ask(&mut node, room, leave(4));
        }
        assert!(node.rooms.mesh.bytes() <= 750_000);
    }

    #[test]
    fn block_is_refused_without_bytes_unless_it_ends_a_seat() {
        let mut node = node(0);
        let block = |client| Operation::Remove { client: ClientId::new(client).unwrap(), block: Some(REPORT_INTERVAL) };
        node.rooms.mesh.space.limit = usize::MAX;
        ask(&mut node, 0, join("alice", 1, 0));
        node.rooms.mesh.space.limit = 0;
        assert!(node.rooms.mesh.refuses(node.now, &name(0), None, &block("bob")));
        assert!(!node.rooms.mesh.refuses(node.now, &name(0), None, &block("alice")));
    }

    #[test]
    fn room_takes_no_seat_beyond_its_limit() {
        let mut node = node(usize::MAX);
        for number in 1..12 {
            ask(&mut node, 0, join(&format!("c{number}"), 1, 1_000_000));
        }
        assert_eq!(node.rooms.mesh.owned[&name(0)].room.counts().0, 8);
    }

    #[test]
    fn oldest_of_10000_rooms_without_clients_ends() {
        let mut node = node(usize::MAX);
        for room in 0..MAX_VACANT + 5 {
            ask(&mut node, room, join("alice", 1, 0));
            ask(&mut node, room, leave(2));
        }
        assert_eq!((node.rooms.mesh.owned.len(), node.rooms.mesh.space.vacant_rooms()), (MAX_VACANT, MAX_VACANT));
        let capacity = Some(3);
        (20_000..20_002).for_each(|room| ask(&mut node, room, Operation::SetCapacity { capacity }));
        assert_eq!(node.rooms.mesh.space.vacant.each_ref().map(BTreeSet::len), [MAX_VACANT, 2]);
    }

    #[test]
    fn bytes_are_those_of_all_rooms() {
        let mut node = node(usize::MAX);
        for step in 0..200_u64 {
            let room = usize::try_from(step % 7).unwrap();
            match step % 5 {
                0 => ask(&mut node, room, leave(step)),
                1 => node.step().end_room(&name(room)),
                _ => ask(&mut node, room, join("alice", step, room * 10)),
            }
            let all = node.rooms.mesh.owned.values().map(|owned| ENTRY_BYTES + owned.room.bytes()).sum::<usize>();
            assert_eq!(node.rooms.mesh.bytes(), all, "{step}");
        }
    }

    #[test]
    fn join_is_refused_while_the_backup_reports_no_bytes() {
        let mut node = node(usize::MAX);
        node.set_view(&["n0", "n1"]);
        let backup = NodeId::new("n1").unwrap();
        node.step().peer_rooms_full(&backup);
        let refuses = |node: &Node, after| {
            node.rooms.mesh.refuses(node.now + after, &name(0), Some(&backup), &join("alice", 1, 0))
        };
        assert!(refuses(&node, REPORT_INTERVAL) && !refuses(&node, REPORT_VALIDITY));
        assert!(!node.rooms.mesh.refuses(node.now, &name(0), None, &join("alice", 1, 0)));
    }
}
