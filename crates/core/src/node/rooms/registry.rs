//! Attaches and detaches for the operators' registry, with the latest state of each client.

use std::collections::BTreeMap;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_rooms::Registration;
use signaling_wire::SessionId;

use super::super::NodeCore;
use super::{RoomCounts, RoomFigures};

/// Maximum pending clients. Beyond it, all attached clients are registered again.
const MAX_WAITING: usize = 200_000;

/// Changes that the registry has not received.
#[derive(Debug)]
pub(super) struct Arrivals {
    wanted: bool,
    last_word: BTreeMap<ClientId, (SessionId, bool)>,
    /// Some changes were dropped.
    overflowed: bool,
}

impl Arrivals {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, last_word: BTreeMap::new(), overflowed: false }
    }

    fn note(&mut self, client: &ClientId, session: SessionId, here: bool) {
        if !self.wanted {
            return;
        }
        let newer_is_here = |&(known, is_here): &(SessionId, bool)| is_here && known != session;
        if !here && self.last_word.get(client).is_some_and(newer_is_here) {
            return;
        }
        if self.last_word.len() >= MAX_WAITING && !self.last_word.contains_key(client) {
            self.overflowed = true;
            return;
        }
        self.last_word.insert(client.clone(), (session, here));
    }
}

impl NodeCore {
    pub(in crate::node) fn has_come(&mut self, client: &ClientId, session: SessionId) {
        self.rooms.arrivals.note(client, session, true);
    }

    pub(in crate::node) fn has_gone(&mut self, client: &ClientId, session: SessionId) {
        self.rooms.arrivals.note(client, session, false);
    }

    /// Takes at most `most` pending changes for the registry.
    pub fn take_registrations(&mut self, most: usize) -> Vec<Registration> {
        let arrivals = &mut self.rooms.arrivals;
        if std::mem::take(&mut arrivals.overflowed) {
            self.register_all_again();
        }
        let arrivals = &mut self.rooms.arrivals;
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((client, (session, here))) = arrivals.last_word.pop_first()
        {
            taken.push(Registration { client, session, here });
        }
        taken
    }

    /// Returns changes that the registry has not received. Newer changes have precedence.
    pub fn return_registrations(&mut self, registrations: Vec<Registration>) {
        for Registration { client, session, here } in registrations {
            self.rooms.arrivals.last_word.entry(client).or_insert((session, here));
        }
    }

    /// Registers all attached clients again, after the registry lost its data. The room store
    /// shares its place, so all seats are refreshed too.
    pub fn register_all_again(&mut self) {
        self.rooms.refresh_at = self.settings.epoch.0;
        for client in self.directory.attached_clients() {
            if let Some((_, session)) = self.directory.holder(client.as_str()) {
                self.rooms.arrivals.last_word.insert(client.clone(), (session.id, true));
            }
        }
    }

    /// Returns `true` if this node owns a name.
    #[must_use]
    pub fn owns_name(&self, name: &str) -> bool {
        self.peers.owner(KeyHash::of(name)).is_none()
    }

    /// Returns the present numbers of rooms and seats.
    #[must_use]
    pub fn room_figures(&self) -> RoomFigures {
        let here = self.rooms.here.values();
        let (all, waiting) =
            here.fold((0, 0), |(all, waiting), here| (all + here.sessions.len(), waiting + here.waiting.len()));
        RoomFigures { rooms: self.rooms.here.len(), members: all - waiting, waiting }
    }

    /// Returns the counts of room events since the start.
    #[must_use]
    pub fn room_counts(&self) -> RoomCounts {
        self.rooms.counts
    }
}
