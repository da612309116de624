//! Clients with a socket at this node, as the registry of the journal has them.

use std::collections::BTreeSet;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_rooms::Registrations;
use signaling_wire::Incarnation;

use super::NodeCore;

/// Maximum changed clients. Above it the registry is written anew.
const MAX_CHANGED: usize = 20_000;

/// Clients that were attached or detached since the last write.
#[derive(Debug, Default)]
pub(super) struct Registry {
    changed: BTreeSet<ClientId>,
    /// `true` if the registry may have any clients of this process: all are written anew.
    is_unknown: bool,
}

impl Registry {
    pub(super) fn mark(&mut self, client: &ClientId) {
        if !self.is_unknown {
            self.changed.insert(client.clone());
            if self.changed.len() > MAX_CHANGED {
                self.forget();
            }
        }
    }

    fn forget(&mut self) {
        self.changed.clear();
        self.is_unknown = true;
    }
}

impl NodeCore {
    /// Takes at most `max` changes. Without a journal there are none.
    pub fn take_registrations(&mut self, max: usize) -> Registrations {
        let Some(mut registry) = self.directory.registry.take() else { return Registrations::default() };
        let starts_anew = std::mem::take(&mut registry.is_unknown);
        if starts_anew {
            registry.changed = self.directory.attached_clients().cloned().collect();
        }
        let mut changes = Registrations { starts_anew, ..Registrations::default() };
        for _ in 0..max {
            let Some(client) = registry.changed.pop_first() else { break };
            let is_present = self.directory.attached(client.as_str()).is_some();
            if is_present { &mut changes.present } else { &mut changes.absent }.push(client);
        }
        self.directory.registry = Some(registry);
        changes
    }

    /// Returns `true` if the registry must not have a process of a node: the node is not in the
    /// view, or runs with another incarnation. `false` without a view.
    pub fn is_former_process(&self, node: &str, incarnation: Incarnation) -> bool {
        if !self.peers.has_view() {
            return false;
        }
        if node == self.settings.id.as_str() {
            return incarnation != self.settings.incarnation;
        }
        let is_other = |peer| self.peers.incarnation(peer).is_some_and(|known| known != incarnation);
        self.peers.view().get(node).is_none() || self.peers.key(node).is_some_and(is_other)
    }

    /// Returns `true` if this node removes the entries of a dead process of a node: it is the first
    /// one of the ranking for that node's name.
    pub fn cleans(&self, node: &str) -> bool {
        self.peers.has_view() && self.peers.owner_by_view(KeyHash::of(node)).is_none()
    }

    /// Has the registry be written anew: it lost entries, or did not answer.
    pub fn forget_registrations(&mut self) {
        if let Some(registry) = &mut self.directory.registry {
            registry.forget();
        }
    }
}
