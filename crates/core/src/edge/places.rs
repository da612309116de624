//! Where sessions are served: links, placement and handoff.

use std::time::Instant;

use signaling_wire::RemainingTtl;
use signaling_wire::trunk::{Attach, ToNode};

use super::confirms::Confirms;
use super::link::Link;
use super::session::{Place, Session};
use super::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer};

impl EdgeCore {
    /// Adds a link that is up.
    pub fn link_up(&mut self) -> LinkKey {
        let mut link = Link::default();
        for (client_id, at) in self.kicks.iter() {
            link.send(&ToNode::Kicked { client_id: client_id.as_str(), at });
        }
        self.links.insert(link)
    }

    /// Whether the link is up, for all that this edge knows.
    #[must_use]
    pub fn has_link(&self, link: LinkKey) -> bool {
        self.links.contains_key(link)
    }

    /// Removes a link: its sessions need a new place.
    pub fn link_down(&mut self, link: LinkKey) {
        let Some(link) = self.links.remove(link) else { return };
        let mut clients: Vec<_> = link.client_by_slot.into_values().collect();
        clients.sort_unstable();
        for client in clients {
            self.displace(client);
        }
    }

    /// A client asks to be let in: [`Effect::Place`] follows.
    pub fn connect(&mut self, now: Instant, newcomer: Newcomer) -> ClientKey {
        let client = self.sessions.insert(Session::new(now, newcomer, &self.settings));
        self.effects.push_back(Effect::Place(client));
        client
    }

    /// Gives the client a place: attaches it, and sends again what has no fate.
    pub fn attach(&mut self, now: Instant, client: ClientKey, link_key: LinkKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(link) = self.links.get_mut(link_key) else { return };
        if session.at().is_some() {
            return;
        }
        let Some(slot) = link.assign(client) else { return };
        let none = ConnectRequest::default();
        let attach = Attach {
            slot,
            session: session.id,
            client_id: session.client_id.as_str(),
            accepted_at_us: session.accepted_at_us,
            reliable: session.receipts.is_some(),
            seq: session.store.last(),
            request: session.request.as_deref().unwrap_or(&none).as_wire(),
            grant: session.proven.as_ref().map(|proven| &*proven.grant),
            state: session.state.as_deref(),
            gone: session.phase.closed(),
        };
        link.send(&ToNode::Attach(attach));
        for (seq, kept) in session.store.iter() {
            let left = session.hold.saturating_sub(now.saturating_duration_since(kept.seen));
            link.send(&ToNode::Up { slot, seq, left: RemainingTtl::from_duration(left), payload: &kept.payload });
            self.counts.resends += 1;
        }
        session.place = Place::At { link: link_key, slot, confirms: Confirms::default() };
    }

    /// Starts a handoff: the node is told, [`Effect::Place`] follows once it has let go.
    pub fn release(&mut self, client: ClientKey, to: &str) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let place = std::mem::replace(&mut session.place, Place::Nowhere);
        let Place::At { link, slot, confirms } = place else {
            session.place = place;
            return;
        };
        session.place = Place::Leaving { link, slot, confirms };
        if let Some(link) = self.links.get_mut(link) {
            link.send(&ToNode::Release { slot, to });
            self.counts.handoffs += 1;
        }
    }

    /// The session has lost its place, if it had one.
    pub(super) fn displace(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.leave_place();
        session.confirm_is_listed = false;
        if session.state.is_none() {
            // The node that it asked may still let it in: that must look older than what the next one makes of it.
            session.accepted_at_us += 1;
        }
        if session.is_over() {
            self.remove(client);
        } else {
            self.effects.push_back(Effect::Place(client));
        }
    }
}
