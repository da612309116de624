//! Links to nodes, and the attachment of sessions to them, for the edge's backend.

use std::time::Instant;

use rustc_hash::FxHashMap;
use signaling_dialects::request::Lifetime;
use signaling_wire::trunk::{Attach, Slot, ToNode};
use signaling_wire::{Batches, Counter, RateDebts, RemainingTtl};

use super::confirms::Confirms;
use super::session::{Attachment, Session};
use super::{ClientKey, ConnectRequest, DialectClient, EdgeCore, Effect, LinkKey, Newcomer};
use crate::lateness::{Lateness, TrunkClock};

/// Maximum bytes of a report about the edge's server.
const MAX_STATUS_BYTES: usize = 64 * 1024;

/// Queued frames and used slots of one link: a balancer's trunk, or the path to the node of the
/// same process.
#[derive(Debug)]
pub(super) struct Link {
    /// Frames other than confirms.
    pub(super) out: Batches,
    /// Confirms. They follow each batch, so that a backlog does not delay them.
    pub(super) lazy: Batches,
    /// Sessions bound to the link, by their slots.
    pub(super) client_by_slot: FxHashMap<Slot, ClientKey>,
    /// Clients with something to confirm, written when the batch is taken.
    pub(super) to_confirm: Vec<ClientKey>,
    /// Time of the queued frames, and lateness of the arriving ones.
    clock: TrunkClock,
    pub(super) lateness: Lateness,
    next_slot: Slot,
}

impl Link {
    fn new(asked: Instant, now: Instant) -> Self {
        Self {
            out: Batches::default(),
            lazy: Batches::default(),
            client_by_slot: FxHashMap::default(),
            to_confirm: Vec::new(),
            clock: TrunkClock::new(asked),
            lateness: Lateness::new(now),
            next_slot: 0,
        }
    }

    /// Returns a slot that this link never used before; `None` after 2^32 slots.
    pub(super) fn assign(&mut self, client: ClientKey) -> Option<Slot> {
        let slot = self.next_slot;
        self.next_slot = slot.checked_add(1)?;
        self.client_by_slot.insert(slot, client);
        Some(slot)
    }

    /// Queues a frame for the next batch.
    pub(super) fn send(&mut self, frame: &ToNode<'_>) {
        self.out.add(|out| frame.append(out));
    }

    /// Queues a frame with a TTL, and its time.
    pub(super) fn send_timed(&mut self, now: Instant, counter: &Counter, frame: &ToNode<'_>) {
        let elapsed = self.clock.time(now);
        let clock = |out: &mut Vec<u8>| ToNode::Clock { elapsed, counter: counter.present(now) }.append(out);
        self.out.add_stamped(elapsed, clock, |out| frame.append(out));
    }

    /// Sends the time and the counter if no other frame has done so.
    pub(super) fn beat(&mut self, now: Instant, counter: &Counter) {
        if let Some(elapsed) = self.clock.beat(now) {
            self.send(&ToNode::Clock { elapsed, counter: counter.present(now) });
        }
    }
}

impl EdgeCore {
    /// Adds a link that is up, and queues all known kicks for its node. Returns its key. `asked`:
    /// the time at which this edge began to open it.
    pub fn link_up(&mut self, asked: Instant, now: Instant) -> LinkKey {
        let mut link = Link::new(asked, now);
        for (name, at) in self.kicks.iter() {
            link.send(&ToNode::Kicked { name: name.as_str(), at });
        }
        self.links.insert(link)
    }

    /// Returns `true` if the link is up.
    pub fn has_link(&self, link: LinkKey) -> bool {
        self.links.contains_key(link)
    }

    /// Queues a report about the edge's server for a node, as JSON of at most 64 KiB.
    pub fn send_status(&mut self, link: LinkKey, report: &[u8]) {
        if let Some(link) = self.links.get_mut(link).filter(|_| report.len() <= MAX_STATUS_BYTES) {
            link.send(&ToNode::Status { report });
        }
    }

    /// Removes a link. [`Effect::AssignNode`] follows for its sessions, unless they are over.
    pub fn link_down(&mut self, link: LinkKey) {
        let Some(link) = self.links.remove(link) else { return };
        let mut clients: Vec<_> = link.client_by_slot.into_values().collect();
        clients.sort_unstable();
        for client in clients {
            self.reassign(client);
        }
    }

    /// Adds a client that requests admission. `dialect`: `None` for the native protocol.
    /// [`Effect::AssignNode`] follows.
    pub fn connect(&mut self, now: Instant, newcomer: Newcomer, dialect: Option<DialectClient>) -> ClientKey {
        let buckets = self.rate_buckets.acquire(now, &newcomer.client_id, newcomer.request.token.as_ref());
        let client = self.sessions.insert(Session::new(now, newcomer, dialect, buckets, &self.settings));
        self.effects.push_back(Effect::AssignNode(client));
        client
    }

    /// Attaches a session to a node, and retransmits its messages without an outcome. No effect if
    /// it is attached or being released, or if it or the link is gone.
    pub fn attach(&mut self, now: Instant, client: ClientKey, link_key: LinkKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(link) = self.links.get_mut(link_key) else { return };
        if session.attached_to().is_some() {
            return;
        }
        let Some(slot) = link.assign(client) else { return };
        session.attachments += 1;
        let none = ConnectRequest::default();
        let cause = session.phase.closed();
        let dialect = session.dialect.as_deref();
        let attach = Attach {
            slot,
            session: session.id,
            client_id: session.client_id.as_str(),
            socket: session.socket,
            rank: session.rank,
            attachment: session.attachments,
            since_ms: session.since_ms,
            reliable: session.is_reliable(),
            live: session.proof.as_ref().is_some_and(|proof| proof.is_given),
            ends_with_socket: dialect.is_some_and(|client| client.lifetime == Lifetime::EndsWithSocket),
            seq: session.buffer.last(),
            credential: dialect.and_then(|client| client.credential),
            request: session.request.as_deref().unwrap_or(&none).as_wire(),
            grant: session.token.as_ref().map(|token| &*token.grant),
            state: session.state.as_deref(),
            cause,
            // The node's answer would charge an open socket once more.
            debts: cause.map_or_else(RateDebts::default, |_| self.rate_buckets.debts(&session.rate_buckets)),
        };
        link.send(&ToNode::Attach(attach));
        for (seq, kept) in session.buffer.iter() {
            let ttl = session.hold.saturating_sub(now.saturating_duration_since(kept.seen));
            let ttl = RemainingTtl::from_duration(ttl);
            link.send_timed(now, &self.counter, &ToNode::Up { slot, seq, ttl, payload: &kept.payload });
            self.counts.retransmissions += 1;
        }
        session.attachment =
            Some(Attachment { link: link_key, slot, is_releasing: false, confirms: Confirms::default() });
    }

    /// Starts a handoff of an attached session to node `to`, which the old node forwards messages
    /// to. [`Effect::AssignNode`] follows once the old node has released it. No effect on other
    /// sessions.
    pub fn release(&mut self, client: ClientKey, to: &str) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(attachment) = session.attachment.as_mut().filter(|it| !it.is_releasing) else { return };
        attachment.is_releasing = true;
        if let Some(link) = self.links.get_mut(attachment.link) {
            let slot = attachment.slot;
            // The node sends unconfirmed messages again through the next node.
            if let Some((up_to, exceptions)) = attachment.confirms.take() {
                link.send(&ToNode::Confirm { slot, up_to, exceptions });
            }
            link.send(&ToNode::Release { slot, to });
            self.counts.handoffs += 1;
        }
    }

    /// Detaches a session. [`Effect::AssignNode`] follows, unless the session is over.
    pub(super) fn reassign(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.detach();
        session.confirm_is_listed = false;
        if session.is_over() {
            self.remove(client);
        } else {
            self.effects.push_back(Effect::AssignNode(client));
        }
    }
}
