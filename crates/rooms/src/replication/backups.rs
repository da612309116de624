//! Backups of the rooms that this node owns, and the epochs that begin with them.
//!
//! An epoch of a room has one owner and at most one backup. It begins with a copy of the room for
//! the backup, or with the first entry of a new room. Each has a higher number than the one before.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use signaling_protocol::{NodeId, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_wire::codec;
use signaling_wire::forward::{CopyAnswer, Item, LogPosition};

use super::candidates::{Fitness, Health};
use super::majority::HANDOVER;
use super::owner::OwnedRoom;
use crate::{Context, OpResult, Stamp, Step};

/// Maximum rooms that get a backup in one sweep.
const BACKUPS_PER_SWEEP: usize = 250;
/// Time in which the best fitness stays before it replaces backups of the same health. A node that
/// comes and goes would cost a copy of each room every time.
const STEADY_FOR: Duration = Duration::from_secs(60);
/// Maximum copies that one sweep sends after their lanes had no room.
const COPIES_PER_SWEEP: usize = 500;

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Queues the owned rooms whose backup is to change at once. Sweeps assign their backups.
    pub fn check_backups(&mut self) {
        let best = self.best_fitness();
        let lacks = |(_, owned): &(&RoomName, &OwnedRoom)| self.lacks_backup(owned, best);
        let rooms: Vec<_> = self.mesh.owned.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
        self.mesh.unassigned.extend(rooms);
    }

    /// Returns `true` if the backup of an owned room is to change at once: it does not answer, is
    /// no member, or has a worse health than the best candidate. `false` for a room without a
    /// backup, which sweeps find.
    pub(super) fn lacks_backup(&self, owned: &OwnedRoom, best: Option<Fitness>) -> bool {
        let health = |fitness: Option<Fitness>| fitness.map(|fitness| fitness.health);
        owned.backup.as_ref().is_some_and(|backup| {
            let fitness = self.fitness_of(backup);
            fitness.is_none() || health(fitness) < health(best)
        })
    }

    /// Gives backups to at most 250 rooms: those without one if there is a candidate, those whose
    /// backup is to change, and then those with a backup that is too near.
    pub(super) fn assign_backups(&mut self) {
        let best = self.best_fitness();
        if best.is_some() {
            let alone = std::mem::take(&mut self.mesh.alone);
            self.mesh.unassigned.extend(alone);
        }
        self.queue_outranked(best);
        for _ in 0..BACKUPS_PER_SWEEP {
            if let Some(room) = self.mesh.unassigned.pop_first() {
                self.assign_backup(&room);
                continue;
            }
            let Some(room) = self.mesh.outranked.pop_first() else { break };
            if self.mesh.owned.get(&room).is_some_and(|owned| self.is_outranked(owned, best)) {
                self.assign_backup(&room);
            }
        }
    }

    /// Queues the rooms with less fit backups, once the best fitness and the view have been the
    /// same for 60 s.
    fn queue_outranked(&mut self, best: Option<Fitness>) {
        if std::mem::replace(&mut self.mesh.best_backup, best) != best {
            self.await_steady_backups();
        }
        if self.mesh.review_at.take_if(|at| *at <= self.now).is_some() {
            let outranked = |(_, owned): &(&RoomName, &OwnedRoom)| self.is_outranked(owned, best);
            let rooms: Vec<_> = self.mesh.owned.iter().filter(outranked).map(|(name, _)| name.clone()).collect();
            self.mesh.outranked.extend(rooms);
        }
    }

    /// Starts the wait before less fit backups are replaced.
    pub(super) fn await_steady_backups(&mut self) {
        self.mesh.review_at = Some(self.now + STEADY_FOR);
    }

    fn is_outranked(&self, owned: &OwnedRoom, best: Option<Fitness>) -> bool {
        owned.backup.as_ref().is_some_and(|backup| self.fitness_of(backup) < best)
    }

    /// Begins the next epoch of a room with the backup of [`Self::backup_for`], which gets a copy.
    /// If there is none, the epoch has no backup. No effect unless this node owns the room.
    pub(super) fn assign_backup(&mut self, name: &RoomName) {
        let backup = self.backup_for(name);
        self.mesh.unassigned.remove(name);
        self.mesh.alone.remove(name);
        let epoch = self.next_number();
        let Some(owned) = self.mesh.owned.get_mut(name) else { return };
        owned.former.extend(owned.backup.take());
        owned.unconfirmed = backup.as_ref().map(|_| owned.unconfirmed.unwrap_or(owned.at));
        if owned.at.number > 0 {
            // An epoch without entries, in which nothing was assigned, was not announced.
            owned.base = owned.at.epoch;
        }
        // The copy has number 1, which the log of a new room begins with: a backup that lost the
        // copy must not take the room for new.
        owned.at = LogPosition { epoch, number: 1 };
        owned.room.begin_epoch(epoch);
        owned.is_sent = backup.is_none();
        owned.backup = backup;
        match owned.backup {
            Some(_) => self.send_owned_copy(name),
            None => {
                self.mesh.alone.insert(name.clone());
                self.retire_former(name);
            }
        }
        self.mesh.note_change(name, true);
        self.announce_version(name);
    }

    /// Returns the backup for a room that this node owns: of the candidates with the best fitness
    /// the one with the highest score. `None`: no other member answers.
    pub(super) fn backup_for(&self, room: &RoomName) -> Option<NodeId> {
        let best = self.best_fitness()?;
        let ranking = &self.mesh.candidates.ranking;
        let index = ranking.owner_where(KeyHash::of(room.as_str()), |index| self.fitness(index) == Some(best))?;
        NodeId::new(ranking.id(index)).ok()
    }

    /// Returns the fitness of the best candidates, the same for all rooms of this node.
    pub(super) fn best_fitness(&self) -> Option<Fitness> {
        (0..self.mesh.candidates.ranking.len()).filter_map(|index| self.fitness(index)).max()
    }

    /// Returns `true` if any other member can be a backup.
    pub(super) fn has_candidate(&self) -> bool {
        (0..self.mesh.candidates.ranking.len()).any(|index| self.fitness(index).is_some())
    }

    fn fitness_of(&self, node: &NodeId) -> Option<Fitness> {
        self.fitness(self.mesh.candidates.ranking.index_of(node.as_str())?)
    }

    /// Returns the fitness of a candidate. `None`: it does not answer.
    fn fitness(&self, index: usize) -> Option<Fitness> {
        let id = self.mesh.candidates.ranking.id(index);
        let peer = self.cx.peer(id).filter(|peer| peer.answers)?;
        let is_recent = |at: &Instant| self.now.saturating_duration_since(*at) < HANDOVER;
        let health = match (peer.is_suspect, self.mesh.ranking.index_of(id)) {
            _ if self.mesh.refusals.get(id).is_some_and(is_recent) => Health::Refusing,
            (true, _) => Health::InProbation,
            (false, None) => Health::Draining,
            (false, Some(_)) => Health::Healthy,
        };
        Some(Fitness { health, distance: self.mesh.candidates.distance(index)? })
    }

    /// Announces the version of a room, so that nodes that miss changes request the state. Any node
    /// can have had a seat that an operator ended.
    fn announce_version(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get(name) else { return };
        let Stamp { incarnation, version } = owned.room.stamp();
        let mut nodes: BTreeSet<_> = owned.room.nodes().into_iter().collect();
        if owned.room.has_ended_seats() {
            nodes.extend(self.mesh.members.iter().cloned());
        }
        let (epoch, base, nodes) = (owned.at.epoch, owned.base, nodes.into_iter().collect());
        let mut result =
            OpResult { incarnation, epoch, base, version, nodes, queue_moved: true, ..OpResult::default() };
        self.announce(name, &mut result);
    }

    /// Sends the copy that begins an epoch, or notes it for later if the lane has no room.
    fn send_owned_copy(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get(name) else { return };
        let Some(backup) = owned.backup.clone() else { return };
        let (state, time) = (codec::to_bytes(&owned.room), owned.clock.time(self.now));
        let at = (owned.at, owned.base);
        let is_sent = self.send_copy(&backup, name, (&state, time), at);
        self.mesh.counts.copied += u64::from(is_sent);
        if let Some(owned) = self.mesh.owned.get_mut(name) {
            owned.is_sent = is_sent;
        }
        match is_sent {
            true => self.mesh.unsent.remove(name),
            false => self.mesh.unsent.insert(name.clone()),
        };
    }

    /// Sends at most 500 copies for which the lanes had no room before.
    pub(super) fn send_unsent_copies(&mut self) {
        let rooms: Vec<_> = self.mesh.unsent.iter().take(COPIES_PER_SWEEP).cloned().collect();
        for room in rooms {
            self.send_owned_copy(&room);
        }
    }

    /// Handles the answer of a backup about the copy or log of an epoch. Ignores one of another
    /// epoch or node, or about a room that this node does not own. After a refusal this node gives
    /// the room up, and asks all members again for their copies (`barrier`).
    pub(crate) fn room_copied(&mut self, sender: &NodeId, room: &str, epoch: u64, answer: CopyAnswer) {
        let Ok(room) = RoomName::new(room) else { return };
        let is_current = |owned: &&OwnedRoom| owned.is_backed_up_by(sender) && owned.at.epoch == epoch;
        if self.mesh.owned.get(&room).filter(is_current).is_none() {
            return;
        }
        match answer {
            CopyAnswer::Accepted => {
                if let Some(owned) = self.mesh.owned.get_mut(&room) {
                    owned.unconfirmed = None;
                }
                self.retire_former(&room);
            }
            CopyAnswer::Refused => {
                // The backup has seen another owner, or lacks an operation: all members are asked.
                self.mesh.give_up(&room);
                self.restart_barrier();
            }
            CopyAnswer::NotNow => {
                self.mesh.refusals.insert(sender.clone(), self.now);
                self.mesh.unassigned.insert(room);
            }
        }
    }

    /// Requests the nodes with former copies to remove them, except the present backup. A copy may
    /// be of the present epoch: its backup sent it to a node that owned the room for a while.
    pub(super) fn retire_former(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get_mut(name) else { return };
        let (epoch, backup) = (owned.at.epoch + 1, owned.backup.clone());
        for node in std::mem::take(&mut owned.former) {
            if Some(&node) != backup.as_ref() {
                self.send_item(&node, &Item::RoomRetired { room: name.as_str(), epoch }, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_membership::{NodeEntry, Zone};
    use signaling_wire::RoomRequestId;

    use super::super::requests::Requester;
    use super::*;
    use crate::Operation;
    use crate::fixtures::{self, Node, member};

    /// Returns a member by `ID`, `ID@ZONE` or `-ID@ZONE`, which drains.
    fn of(text: &str) -> NodeEntry {
        let (draining, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (id, zone) = text.split_once('@').map_or((text, None), |(id, zone)| (id, Zone::new(zone).ok()));
        NodeEntry { draining, zone, ..member(id) }
    }

    /// Returns node `n0` with a view of `members`, and the names of `rooms` rooms that it owns.
    fn owner(members: &str, rooms: usize) -> (Node, Vec<RoomName>) {
        let mut node = Node::new("n0", &["n0"]);
        set_view(&mut node, members);
        node.rooms.mesh.barrier.waiting.clear();
        node.sweep();
        let names = (0..).map(|number| RoomName::new(&format!("r{number}")).unwrap());
        let names: Vec<_> = names.filter(|name| node.rooms.mesh.owner_of(name) == Some("n0")).take(rooms).collect();
        for name in &names {
            let requester = Requester { node: NodeId::new("n0").unwrap(), id: RoomRequestId(1) };
            let member = fixtures::requester("alice", "n0", 1);
            let join = Operation::Join { requester: member, data: None, capacity: None };
            node.step().room_requested(requester, (name.clone(), 0), join);
        }
        (node, names)
    }

    #[test]
    fn node_that_refuses_is_the_last_choice_for_a_while() {
        let (mut node, names) = owner("n0 n1 n2", 1);
        let room = &names[0];
        let (refuser, epoch) =
            (node.rooms.mesh.owned[room].backup.clone().unwrap(), node.rooms.mesh.owned[room].at.epoch);
        node.step().room_copied(&refuser, room.as_str(), epoch, CopyAnswer::NotNow);
        let backup = |node: &mut Node| node.step().backup_for(room);
        assert_ne!(backup(&mut node), Some(refuser.clone()));
        node.now += HANDOVER;
        assert_eq!(backup(&mut node), Some(refuser.clone()));
        set_view(&mut node, &format!("n0 {refuser}"));
        node.rooms.mesh.refusals.insert(refuser.clone(), node.now);
        assert_eq!(backup(&mut node), Some(refuser), "there is no other one");
    }

    #[test]
    fn epoch_names_the_last_one_that_was_announced() {
        let (mut node, names) = owner("n0 n1", 1);
        let room = &names[0];
        let epoch = |node: &Node| (node.rooms.mesh.owned[room].at.epoch, node.rooms.mesh.owned[room].base);
        let (first, base) = epoch(&node);
        assert_eq!(base, 0, "the room was new");
        node.step().assign_backup(room);
        let (second, base) = epoch(&node);
        assert_eq!(base, first);
        let items = node.fill_lanes();
        let copied = items.iter().find_map(|bytes| match Item::take(&mut &bytes[..]) {
            Ok(Item::RoomCopy { at, base, .. }) => Some((at.epoch, base)),
            _ => None,
        });
        assert_eq!(copied, Some((second, first)), "the backup announces it too");

        set_view(&mut node, "n0");
        node.sweep();
        let (third, base) = epoch(&node);
        assert_eq!((third > second, base), (true, second));
        set_view(&mut node, "n0 n1");
        node.step().assign_backup(room);
        assert_eq!(epoch(&node).1, third, "also one without a backup and an entry");

        let n1 = NodeId::new("n1").unwrap();
        let last = epoch(&node).0;
        node.step().room_copied(&n1, room.as_str(), last, CopyAnswer::Accepted);
        node.rooms.mesh.give_up(room);
        node.step().take_over_rooms(BTreeSet::new());
        node.step().assign_backup(room);
        assert_eq!(epoch(&node).1, last, "that of the takeover had no entry and no assignment");
    }

    fn set_view(node: &mut Node, members: &str) {
        node.set_members(members.split_whitespace().map(of));
    }

    fn backup_of<'a>(node: &'a Node, room: &RoomName) -> Option<&'a str> {
        node.rooms.backup_of(room.as_str()).map(NodeId::as_str)
    }

    fn backed_up_by(node: &Node, rooms: &[RoomName], backup: &str) -> usize {
        rooms.iter().filter(|room| backup_of(node, room) == Some(backup)).count()
    }

    #[test]
    fn backup_is_healthy_and_then_as_far_as_possible() {
        for (members, suspects, backup) in [
            ("n0@a n1@a n2@a n3@b", &[][..], "n3"),
            ("n0@a n1@a n2@b n3@b", &[("n2", false)], "n3"),
            ("n0@a n1@a n2@b n3@b", &[("n2", true), ("n3", true)], "n1"),
            ("n0@a n1@a -n2@b", &[], "n1"),
            ("n0@a -n1@a -n2@b", &[], "n2"),
            ("n0@a -n1@a n2@b", &[("n2", true)], "n1"),
            ("n0@a n1@a n2@b", &[("n1", true), ("n2", true)], "n2"),
        ] {
            let (mut node, _) = owner("n0", 0);
            suspects.iter().for_each(|(suspect, answers)| node.suspect(suspect, Some(*answers)));
            set_view(&mut node, members);
            let room = node.room_of("n0");
            assert_eq!(node.step().backup_for(&room).unwrap().as_str(), backup, "{members} {suspects:?}");
        }
    }

    #[test]
    fn backup_is_on_another_host_without_another_zone() {
        for zone in ["", "@a"] {
            let (mut node, _) = owner("n0", 0);
            let members = [("n0", "one:1"), ("n1", "one:2"), ("n2", "two:1"), ("n3", "one:3")]
                .map(|(id, address)| NodeEntry { address: address.parse().unwrap(), ..of(&format!("{id}{zone}")) });
            node.set_members(members);
            let room = node.room_of("n0");
            assert_eq!(node.step().backup_for(&room).unwrap().as_str(), "n2", "{zone:?}");
        }
    }

    #[test]
    fn suspect_that_answers_is_a_backup() {
        let (mut node, rooms) = owner("n0 n1", 1);
        assert_eq!(backup_of(&node, &rooms[0]), Some("n1"));
        for (answers, backup) in [(Some(false), None), (Some(true), Some("n1")), (Some(false), None)] {
            node.suspect("n1", answers);
            node.sweep();
            assert_eq!(backup_of(&node, &rooms[0]), backup, "{answers:?}");
        }
        node.suspect("n1", Some(true));
        node.sweep();
        let epoch = node.rooms.mesh.epoch_of(&rooms[0]);
        node.suspect("n1", None);
        node.sweep();
        assert_eq!(node.rooms.mesh.epoch_of(&rooms[0]), epoch, "it stays when its probation ends");
    }

    #[test]
    fn draining_backup_is_replaced_at_once_whatever_its_zone() {
        let (mut node, rooms) = owner("n0@a n1@a n2@b", 1);
        assert_eq!(backup_of(&node, &rooms[0]), Some("n2"));
        set_view(&mut node, "n0@a n1@a -n2@b");
        node.sweep();
        assert_eq!(backup_of(&node, &rooms[0]), Some("n1"));
    }

    #[test]
    fn better_zone_replaces_backups_after_a_minute() {
        for better in ["n0@a n1@a n2@b", "n0@a n1@b n2@a"] {
            let (mut node, rooms) = owner("n0 n1 n2", 600);
            let new = if better.contains("n2@b") { "n2" } else { "n1" };
            let before = backed_up_by(&node, &rooms, new);
            assert!((200..350).contains(&before), "{before}");
            set_view(&mut node, better);
            node.sweep();
            node.now += STEADY_FOR - Duration::from_secs(1);
            node.sweep();
            assert_eq!(backed_up_by(&node, &rooms, new), before);
            node.now += Duration::from_secs(1);
            for rest in [600 - before - BACKUPS_PER_SWEEP, 0] {
                node.sweep();
                assert_eq!(backed_up_by(&node, &rooms, new), 600 - rest);
            }
            assert!(node.rooms.mesh.outranked.is_empty() && node.rooms.mesh.review_at.is_none());
        }
    }

    #[test]
    fn backup_that_comes_into_the_zone_of_the_owner_is_replaced() {
        let (mut node, rooms) = owner("n0@a n1@a n2@b", 1);
        node.sweep();
        node.now += 2 * STEADY_FOR;
        node.sweep();
        assert_eq!(backup_of(&node, &rooms[0]), Some("n2"));
        set_view(&mut node, "n0@a n1@b n2@a");
        node.now += STEADY_FOR;
        node.sweep();
        assert_eq!(backup_of(&node, &rooms[0]), Some("n1"));
    }

    #[test]
    fn better_zone_replaces_no_backup_while_it_comes_and_goes() {
        let (mut node, rooms) = owner("n0 n1 n2", 20);
        let near: Vec<_> = rooms.into_iter().filter(|room| backup_of(&node, room) == Some("n1")).collect();
        set_view(&mut node, "n0@a n1@a n2@b");
        for (answers, seconds) in [(None, 40), (Some(false), 10)].iter().cycle().take(9) {
            node.suspect("n2", *answers);
            node.sweep();
            node.now += Duration::from_secs(*seconds);
            node.sweep();
            assert_eq!(backed_up_by(&node, &near, "n1"), near.len());
        }
        node.now += Duration::from_secs(20);
        node.sweep();
        assert_eq!(backed_up_by(&node, &near, "n2"), near.len());
    }
}
