//! Attaches and detaches for the operators' registry, which the shell takes from here.

use std::collections::BTreeMap;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_rooms::Registration;
use signaling_wire::SessionId;

use super::super::NodeCore;
use super::{RoomCounts, RoomFigures};

/// Maximum pending clients. Beyond it, all attached clients are registered again.
const MAX_PENDING: usize = 200_000;

/// Changes that the registry has not received, with the latest one of each client.
#[derive(Debug)]
pub(super) struct RegistryChanges {
    is_enabled: bool,
    pending: BTreeMap<ClientId, (SessionId, bool)>,
    /// Some changes were dropped.
    overflowed: bool,
}

impl RegistryChanges {
    /// Creates an empty list. A disabled one stays empty.
    pub(super) fn new(is_enabled: bool) -> Self {
        Self { is_enabled, pending: BTreeMap::new(), overflowed: false }
    }

    fn note(&mut self, client: &ClientId, session: SessionId, here: bool) {
        if !self.is_enabled {
            return;
        }
        let newer_is_here = |&(known, is_here): &(SessionId, bool)| is_here && known != session;
        if !here && self.pending.get(client).is_some_and(newer_is_here) {
            return;
        }
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(client) {
            self.overflowed = true;
            return;
        }
        self.pending.insert(client.clone(), (session, here));
    }
}

impl NodeCore {
    /// Queues the attach of a client.
    pub(in crate::node) fn register(&mut self, client: &ClientId, session: SessionId) {
        self.rooms.registry_changes.note(client, session, true);
    }

    /// Queues the detach of a client, unless another session of it is queued as attached.
    pub(in crate::node) fn unregister(&mut self, client: &ClientId, session: SessionId) {
        self.rooms.registry_changes.note(client, session, false);
    }

    /// Takes at most `most` pending changes for the registry; empty without any.
    pub fn take_registrations(&mut self, most: usize) -> Vec<Registration> {
        let registry_changes = &mut self.rooms.registry_changes;
        if std::mem::take(&mut registry_changes.overflowed) {
            self.register_all_again();
        }
        let registry_changes = &mut self.rooms.registry_changes;
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((client, (session, here))) = registry_changes.pending.pop_first()
        {
            taken.push(Registration { client, session, here });
        }
        taken
    }

    /// Puts back changes that the registry has not received. Newer changes have precedence.
    pub fn return_registrations(&mut self, registrations: Vec<Registration>) {
        for Registration { client, session, here } in registrations {
            self.rooms.registry_changes.pending.entry(client).or_insert((session, here));
        }
    }

    /// Registers all attached clients again, after the registry lost its data. The room store is on
    /// the same server, so all seats are refreshed too.
    pub fn register_all_again(&mut self) {
        self.rooms.refresh_at = self.settings.epoch.0;
        for client in self.directory.attached_clients() {
            if let Some((_, session)) = self.directory.holder(client.as_str()) {
                self.rooms.registry_changes.pending.insert(client.clone(), (session.id, true));
            }
        }
    }

    /// Returns `true` if this node owns a client or room of this name, or has no view.
    pub fn owns_name(&self, name: &str) -> bool {
        self.peers.owner(KeyHash::of(name)).is_none()
    }

    /// Returns the present numbers of rooms and seats.
    pub fn room_figures(&self) -> RoomFigures {
        let local = self.rooms.local.values();
        let members = local.clone().map(|local| local.members.len()).sum();
        let waiting = local.map(|local| local.waiting.len()).sum();
        RoomFigures { rooms: self.rooms.local.len(), members, waiting }
    }

    /// Returns the counts of room events since the start.
    pub fn room_counts(&self) -> RoomCounts {
        self.rooms.counts
    }
}
