//! Seats in the rooms that this node owns: claims after a loss or a takeover, and expiry.

use std::collections::BTreeSet;

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;

use super::MeshRooms;
use super::owner::{LogEntry, OwnedRoom};
use crate::{Context, Operation, Step};

/// Maximum rooms with due seats, and rooms with lost nodes in one sweep.
const ROOMS_PER_SWEEP: usize = 500;
/// Maximum reports of seats in rooms that this node has served all the time, checked in one sweep.
const REPORTS_PER_SWEEP: usize = 4_000;

impl MeshRooms {
    /// Queues a request for claims to a node that reports sessions in an owned room, unless the
    /// room has seats there. It may lack the seats of sessions that have just moved.
    pub(super) fn queue_claim_request(&mut self, room: RoomName, node: NodeId) {
        if self.owned.get(&room).is_some_and(|owned| !owned.room.has_seats_at(&node)) {
            self.claim_requests.add(room, node);
        }
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Checks at most 4,000 reports, and sends queued requests. Sweeps do the rest.
    pub(super) fn ask_for_claims(&mut self) {
        for _ in 0..REPORTS_PER_SWEEP {
            let Some((room, node)) = self.mesh.reported.pop_front() else { break };
            self.mesh.queue_claim_request(room, node);
        }
        for (room, node) in self.mesh.claim_requests.take_some() {
            if node == self.mesh.id {
                self.claim_seats(&room);
            } else if self.has_room(&node) {
                self.send_item(&node, &Item::ClaimSeats(room.as_str()), true);
            } else if self.mesh.members.contains(&node) {
                self.mesh.claim_requests.add(room, node);
            }
        }
    }

    /// Claims the seats of this node's sessions in a room: queues their claims for its owner.
    pub(crate) fn claim_seats(&mut self, room: &RoomName) {
        self.local.schedule_claims(room);
        self.claim_unconfirmed(room);
    }

    /// Queues the unclaims of nodes that have left the view. A view and this work at once would
    /// cause a long pause. Nodes outside the view send no requests that an unclaim must precede.
    pub(super) fn queue_unclaims_of_left(&mut self) {
        for node in std::mem::take(&mut self.mesh.left) {
            self.queue_unclaims(&node);
        }
    }

    /// Queues a [`LogEntry::Unclaim`] of a lost or restarted node, in rooms with seats there.
    pub(super) fn queue_unclaims(&mut self, node: &NodeId) {
        let has = |owned: &OwnedRoom| owned.room.has_seats_at(node);
        for (room, _) in self.mesh.owned.iter().filter(|(_, owned)| has(owned)) {
            self.mesh.expiring.entry(room.clone()).or_default().insert(node.clone());
        }
    }

    /// Applies queued unclaims in at most 500 rooms. `Rules::stale` later the seats expire, unless
    /// their sessions claim them at any node.
    pub(super) fn apply_unclaims(&mut self) {
        for _ in 0..ROOMS_PER_SWEEP {
            let Some((room, nodes)) = self.mesh.expiring.pop_first() else { break };
            self.unclaim_seats(&room, nodes);
        }
    }

    pub(super) fn unclaim_seats(&mut self, room: &RoomName, lost: BTreeSet<NodeId>) {
        for node in lost {
            self.apply_entry(room, &LogEntry::Unclaim(node), None);
        }
    }

    /// Handles passed deadlines of at most 500 rooms: unclaimed seats expire, and clients waiting
    /// for the end of `SETTLE_MS` are admitted. Forgets rooms that are finished.
    pub(super) fn handle_deadlines(&mut self) {
        let due = self.mesh.deadlines.iter().take_while(|(at, _)| *at <= self.now);
        let due: Vec<_> = due.take(ROOMS_PER_SWEEP).cloned().collect();
        for (at, name) in due {
            let Some(owned) = self.mesh.owned.get(&name).filter(|owned| owned.deadline == Some(at)) else {
                debug_assert!(false, "{name} is not due at {at:?}");
                self.mesh.deadlines.remove(&(at, name));
                continue;
            };
            if !owned.room.is_finished(owned.clock.time(self.now)) {
                self.apply_entry(&name, &LogEntry::Operation(Operation::Claim { seats: Vec::new() }), None);
                continue;
            }
            self.end_room(&name);
        }
    }
}
