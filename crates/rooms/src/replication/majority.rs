//! The majority of the view. A node without it serves no rooms, as owner and as backup: other nodes
//! may own them by a view without it.

use std::time::{Duration, Instant};

use signaling_protocol::NodeId;
use signaling_wire::forward::LogPosition;

use super::MeshRooms;
use crate::{Context, RoomRule, Step};

/// Time in which an answer counts.
const LEASE: Duration = Duration::from_secs(2);
/// Time after its last answer in which a node may own rooms: the lease, and as much as clocks
/// differ in it or a process is late.
pub(super) const HANDOVER: Duration = Duration::from_millis(2_500);

/// Rank of a new room whose epoch no backup has confirmed.
const EARLIEST: LogPosition = LogPosition { epoch: 0, number: 1 };

/// Evidence that other nodes own no room of this one.
#[derive(Debug, Default)]
pub(super) struct Majority {
    /// The latest known time at which this node had the majority. `None`: it never had.
    last: Option<Instant>,
    /// The latest known time at which the processes of all other members were gone, or there were
    /// none. `None`: never.
    alone: Option<Instant>,
    /// `true` if it had the majority in the last review.
    pub(super) is_held: bool,
    /// `true` after a pause of the process, which its clock may not have counted.
    was_paused: bool,
}

fn is_recent(now: Instant, at: Option<Instant>) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < LEASE)
}

impl MeshRooms {
    fn other_members(&self) -> impl Iterator<Item = &NodeId> {
        self.members.iter().filter(|member| **member != self.id)
    }

    /// Gives up all rooms and follows no owner, as if this node adopted its view again.
    fn give_up_all(&mut self) {
        self.adoptions += 1;
        self.barrier.unproven = self.other_members().cloned().collect();
        for (_, copy) in self.copies.iter_mut() {
            copy.from = None;
        }
        for room in self.owned.keys().cloned().collect::<Vec<_>>() {
            if let Some(owned) = self.owned.get_mut(&room) {
                // A new room stays as the earliest copy. Its backup may have announced operations
                // in it, and does not send a room that it has from this node.
                owned.unconfirmed = owned.unconfirmed.map(|rank| rank.max(EARLIEST));
            }
            self.give_up(&room);
        }
    }

    #[cfg(test)]
    pub(crate) fn keeps_majority(&mut self, now: Instant) {
        self.majority.last = Some(now);
    }

    fn is_only_member(&self) -> bool {
        self.members.len() == 1 && self.members.contains(&self.id)
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Returns `true` if this node has the majority: more than half of the members of its view
    /// count. These are itself, and each whose last answer of the last 2 s says that its own view
    /// has this node. Members without a process leave both numbers.
    pub(super) fn has_majority(&self) -> bool {
        let MeshRooms { majority, .. } = &self.mesh;
        is_recent(self.now, majority.last) || self.mesh.is_only_member() || !self.mesh.rules.keeps(RoomRule::Majority)
    }

    /// Returns `true` if no other member has a process.
    pub(super) fn is_alone(&self) -> bool {
        is_recent(self.now, self.mesh.majority.alone) || self.mesh.is_only_member()
    }

    /// Returns `true` if this node may carry out operations as an owner: it has the majority, and
    /// another member can be a backup, if any has a process.
    pub(super) fn serves(&self) -> bool {
        let may_commit = || self.is_alone() || self.has_candidate() || !self.mesh.rules.keeps(RoomRule::Majority);
        self.has_majority() && may_commit()
    }

    /// Loses the majority: this process was paused, and other nodes may have owned its rooms.
    pub fn on_process_pause(&mut self) {
        self.mesh.majority = Majority { was_paused: true, ..Majority::default() };
    }

    /// Finds the latest time at which this node had the majority. If other nodes may have owned its
    /// rooms since the last one, it begins as with a new view: it gives them up, follows no owner,
    /// and asks all members for their copies.
    pub fn review_majority(&mut self) {
        let (last, had) = (self.mesh.majority.last, self.has_majority());
        self.mesh.majority.last = self.majority_at().max(last);
        self.mesh.majority.alone = self.alone_at();
        self.mesh.majority.is_held = self.has_majority();
        if had || !self.mesh.majority.is_held {
            return;
        }
        let was_paused = std::mem::take(&mut self.mesh.majority.was_paused);
        let is_lost = was_paused || last.is_some_and(|last| self.now.saturating_duration_since(last) >= HANDOVER);
        if is_lost && self.mesh.rules.keeps(RoomRule::Regain) {
            self.mesh.give_up_all();
            self.start_barrier();
        }
        self.finish_barrier();
    }

    /// Returns the latest time at which more than half of the members counted.
    fn majority_at(&self) -> Option<Instant> {
        let MeshRooms { members, id, .. } = &self.mesh;
        // A member counts twice, one without a process once: it leaves both numbers.
        let weight = |member| {
            let contact = self.cx.contact(member);
            contact.names_us.map(|at| (at, 2)).or_else(|| contact.refused.map(|at| (at, 1)))
        };
        let mut weights: Vec<_> = self.mesh.other_members().filter_map(|member| weight(member.as_str())).collect();
        weights.extend(members.contains(id).then_some((self.now, 2)));
        weights.sort_unstable_by(|one, other| other.cmp(one));
        let mut sum = 0;
        let mut reached = weights.into_iter().filter_map(|(at, weight)| {
            sum += weight;
            (sum > members.len()).then_some(at)
        });
        reached.next()
    }

    /// Returns the latest time at which no other member had a process.
    fn alone_at(&self) -> Option<Instant> {
        let earliest = |at: Instant, member: &NodeId| Some(at.min(self.cx.contact(member.as_str()).refused?));
        self.mesh.other_members().try_fold(self.now, earliest)
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::RoomName;
    use signaling_wire::forward::Item;
    use signaling_wire::{RoomRequestId, codec};

    use super::super::owner::LogEntry;
    use super::super::requests::Requester;
    use super::*;
    use crate::fixtures::{Node, requester};
    use crate::{Contact, Operation};

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the node `n0` of three, with its room. All members have confirmed the view.
    fn owner() -> (Node, RoomName) {
        let mut node = Node::new("n0", &["n0", "n1", "n2"]);
        complete(&mut node);
        let room = node.room_of("n0");
        join(&mut node, &room, 1);
        (node, room)
    }

    fn complete(node: &mut Node) {
        node.rooms.mesh.barrier.waiting.clear();
        node.step().continue_barrier();
    }

    fn join(node: &mut Node, room: &RoomName, number: u64) {
        let from = Requester { node: NodeId::new("n1").unwrap(), id: RoomRequestId(number) };
        let requester = requester(&format!("c{number}"), "n1", 1);
        let join = Operation::Join { requester, data: None, capacity: None };
        node.step().room_requested(from, (room.clone(), 0), join);
    }

    fn members(node: &Node, room: &RoomName) -> Option<u64> {
        node.rooms.owned(room.as_str()).map(|room| room.counts().0)
    }

    fn contact(node: &mut Node, peer: &str, contact: Contact) {
        node.around.contacts.insert(NodeId::new(peer).unwrap(), contact);
    }

    #[test]
    fn isolated_owner_waits() {
        for (silence, goes_on) in [(Duration::from_millis(2_400), true), (Duration::from_millis(2_500), false)] {
            let (mut node, room) = owner();
            let epoch = node.rooms.mesh.epoch_of(&room);
            node.now += LEASE - Duration::from_millis(1);
            join(&mut node, &room, 2);
            assert_eq!(members(&node, &room), Some(2));
            node.now += Duration::from_millis(1);
            join(&mut node, &room, 3);
            assert_eq!(members(&node, &room), Some(2), "it waits");
            node.now += silence - LEASE;
            let contact_now = Contact { names_us: Some(node.now), ..Contact::default() };
            contact(&mut node, "n1", contact_now);
            node.step().review_majority();
            assert_eq!(members(&node, &room), goes_on.then_some(3), "{silence:?}");
            complete(&mut node);
            assert_eq!(members(&node, &room), Some(3), "{silence:?}");
            assert_eq!(node.rooms.mesh.epoch_of(&room) == epoch, goes_on);
        }
    }

    #[test]
    fn pause_that_the_clock_has_not_counted_loses_the_majority() {
        let (mut node, room) = owner();
        let epoch = node.rooms.mesh.epoch_of(&room);
        node.around.contacts.clear();
        node.step().on_process_pause();
        join(&mut node, &room, 2);
        assert_eq!(members(&node, &room), Some(1), "it waits");
        let names_us = Contact { names_us: Some(node.now), ..Contact::default() };
        contact(&mut node, "n1", names_us);
        node.step().review_majority();
        assert_eq!(members(&node, &room), None, "others may own it");
        complete(&mut node);
        assert_eq!(members(&node, &room), Some(2));
        assert!(node.rooms.mesh.epoch_of(&room) > epoch);
    }

    #[test]
    fn own_entries_wait_for_the_majority() {
        let (mut node, room) = owner();
        node.step().queue_unclaims(&NodeId::new("n1").unwrap());
        node.now += LEASE;
        for is_queued in [true, false] {
            node.step().sweep(&[]);
            assert_eq!(node.rooms.mesh.expiring.contains_key(&room), is_queued);
            node.all_answer();
        }
    }

    #[test]
    fn members_count_that_name_the_node_or_have_no_process() {
        let (mut node, _) = owner();
        let at = node.now;
        let named = Contact { names_us: Some(at), ..Contact::default() };
        let gone = Contact { refused: Some(at), ..Contact::default() };
        let silent = Contact::default();
        for (others, has_majority, is_alone) in [
            ([named, silent], true, false),
            ([silent, silent], false, false),
            ([gone, silent], false, false),
            ([gone, named], true, false),
            ([gone, gone], true, true),
        ] {
            contact(&mut node, "n1", others[0]);
            contact(&mut node, "n2", others[1]);
            node.rooms.mesh.majority = Majority::default();
            node.step().review_majority();
            assert_eq!((node.step().has_majority(), node.step().is_alone()), (has_majority, is_alone), "{others:?}");
            node.now += LEASE;
            assert!(!node.step().has_majority());
            node.now -= LEASE;
        }
    }

    #[test]
    fn backup_without_the_majority_refuses_the_log() {
        for (silence, accepts) in [(SECOND, true), (LEASE, false)] {
            let (mut node, _) = owner();
            let room = node.room_of("n1");
            node.rooms.mesh.barrier.unproven.clear();
            node.now += silence;
            let (at, entry) = (LogPosition { epoch: 1, number: 1 }, codec::to_bytes(&LogEntry::Lost));
            let item = Item::RoomLog { room: room.as_str(), at, time: 1, entry: &entry, requester: None };
            node.step().room_logged(&NodeId::new("n1").unwrap(), &item);
            assert_eq!(node.rooms.mesh.copies.contains_key(&room), accepts);
        }
    }

    #[test]
    fn backup_follows_a_node_once_it_has_confirmed_the_view() {
        let mut node = Node::new("n0", &["n0", "n1", "n2"]);
        let (room, n1, part) = (node.room_of("n1"), NodeId::new("n1").unwrap(), codec::to_bytes(&crate::Room::new(1)));
        let follows = |node: &mut Node, epoch| {
            let at = LogPosition { epoch, number: 1 };
            let item = Item::RoomCopy { room: room.as_str(), at, base: 0, time: 1, offset: 0, part: &part, last: true };
            node.step().room_copy_part(&n1, &item);
            node.rooms.mesh.copies.get(&room).is_some_and(|copy| copy.at == at)
        };
        for (epoch, silence) in [(1, Duration::ZERO), (3, HANDOVER)] {
            node.now += silence;
            let names_us = Contact { names_us: Some(node.now), ..Contact::default() };
            contact(&mut node, "n2", names_us);
            node.step().review_majority();
            assert!(!follows(&mut node, epoch), "its lane may carry what it sent before");
            let query = node.rooms.mesh.barrier.query;
            node.step().view_confirmed(&n1, (query, 1), (&[], &[]), true);
            assert!(follows(&mut node, epoch + 1), "{silence:?}");
        }
    }

    #[test]
    fn new_owner_waits_for_a_node_that_may_serve() {
        let id = |id| NodeId::new(id).unwrap();
        for case in ["silent", "confirms", "restarts", "refused", "not answered", "started", "named by n2"] {
            let (mut node, _) = owner();
            let (at, gone) = (Some(node.now), case == "refused");
            let named = Contact { named: at, refused: at.filter(|_| gone), ..Contact::default() };
            let is_named = ["silent", "confirms", "restarts", "refused"].contains(&case);
            contact(&mut node, "n1", if is_named { named } else { Contact::default() });
            if case == "started" {
                node.rooms.mesh.barrier.start = at;
            }
            node.set_view(&["n0", "n2"]);
            let query = node.rooms.mesh.barrier.query;
            let former: &[&str] = if case == "named by n2" { &["n1"] } else { &[] };
            node.step().view_confirmed(&id("n2"), (query, 1), (&[], former), true);
            match case {
                "confirms" => node.step().view_confirmed(&id("n1"), (query, 1), (&[], &[]), true),
                "restarts" => node.step().room_peer_restarted(&id("n1")),
                _ => {}
            }
            node.sweep();
            let serves = |node: &mut Node| node.step().serves_new_rooms();
            assert_eq!(serves(&mut node), !["silent", "started", "named by n2"].contains(&case), "{case}");
            node.now += HANDOVER;
            node.sweep();
            assert!(serves(&mut node), "{case}");
        }
    }
}
