//! Locations: clients at other nodes than the ranking names. Nodes report their clients to owners.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::SessionId;
use signaling_wire::forward::{Attachment, Item};

use super::directory::Directory;
use super::peers::Peers;
use super::route::Route;
use super::session::Session;
use super::takeover::REPLACED_BY_NEWER;
use super::{NodeCore, PeerKey, SessionKey};

/// Time after a report in which messages can arrive that were at that node before the client. A
/// held message is retransmitted after 5 s, with the nodes that relayed it.
const LOCATION_SETTLE_TIME: Duration = Duration::from_secs(6);
/// Maximum locations sent at a time: about 10 ms.
const MAX_ANNOUNCED: usize = 10_000;
/// Maximum locations at a time that do not fit into their lanes.
const MAX_REFUSED: usize = 1_000;

/// The node of a client, as that node reported it.
#[derive(Debug)]
pub(super) struct Location {
    /// The node that has the client.
    pub(super) peer: PeerKey,
    /// The client's attachment to it. If `released`, to this node.
    attachment: Attachment,
    reported_at: Instant,
    /// Time at which the location expires.
    pub(super) until: Instant,
    /// `true` if handed off from here. Valid until the next view, which names the owner.
    pub(super) released: bool,
}

/// Returns the item that reports a client as attached here, or as detached.
fn located(session: &Session, here: bool) -> Item<'_> {
    Item::Located { client_id: session.client_id.as_str(), attachment: session.attachment(), here }
}

impl Directory {
    /// Returns the peer that has the client, against the ranking. `None`: no peer reported it, or
    /// the peer does not answer. The peer may be suspect.
    pub(super) fn location(&self, client: &str, peers: &Peers) -> Option<PeerKey> {
        let peer = self.locations.get(client)?.peer;
        peers.is_answering(peer).then_some(peer)
    }

    /// Returns `true` if a peer reported that it has this session of the client.
    pub(super) fn is_located(&self, client: &str, session: SessionId) -> bool {
        self.locations.get(client).is_some_and(|known| known.attachment.session == session)
    }
}

impl NodeCore {
    /// Returns `true` if a peer that answers reported a later attachment of the session.
    pub(super) fn is_outdated(&self, client: &str, attachment: Attachment) -> bool {
        let is_later = |known: &Location| {
            known.attachment.session == attachment.session && known.attachment.is_later_than(attachment)
        };
        self.directory.location(client, &self.peers).is_some()
            && self.directory.locations.get(client).is_some_and(is_later)
    }

    /// Forgets a client's location, since a message has been there. Either the message was there
    /// before the client, or the client has left: a location that was reported in the last 6 s is
    /// kept.
    pub(super) fn doubt_location(&mut self, now: Instant, client: &str) {
        let is_old = |known: &Location| now.saturating_duration_since(known.reported_at) >= LOCATION_SETTLE_TIME;
        if self.directory.locations.get(client).is_some_and(is_old) {
            self.directory.locations.remove(client);
        }
    }

    /// Stores the location of a client that was handed off from here to a peer.
    pub(super) fn released_to(&mut self, now: Instant, client: ClientId, attachment: Attachment, peer: PeerKey) {
        let until = now + self.settings.rules.located_for;
        let location = Location { peer, attachment, reported_at: now, until, released: true };
        self.directory.locations.insert(client, location);
    }

    /// Handles a peer's report that it has the client (`here`), or no longer has it. A report of an
    /// earlier attachment of the session than the known one has no effect: lanes of two peers have
    /// no common order.
    pub(super) fn located(
        &mut self,
        now: Instant,
        peer: PeerKey,
        client: ClientId,
        attachment: Attachment,
        here: bool,
    ) {
        let before = self.directory.locations.get(client.as_str());
        if !here {
            if before.is_some_and(|known| known.peer == peer && !known.attachment.is_later_than(attachment)) {
                self.directory.locations.remove(client.as_str());
                self.custody.routes_dirty = true;
            }
            return;
        }
        let lingering = self.directory.lingering.get(&client).map(|lingering| lingering.attachment);
        let is_later = |known: Attachment| known.session == attachment.session && known.is_later_than(attachment);
        let is_over = |lost: Attachment| lost.is_same_socket(attachment) && !attachment.is_later_than(lost);
        if before.is_some_and(|known| is_later(known.attachment)) || lingering.is_some_and(is_over) {
            return;
        }
        let until = now + self.settings.rules.located_for;
        let known = Location { peer, attachment, reported_at: now, until, released: false };
        if let Some((key, holder)) = self.directory.holder(client.as_str()) {
            let held = holder.attachment();
            if held.is_same_socket(attachment) {
                if attachment.is_later_than(held) {
                    // It counts once the socket's edge has detached it here, unless the peer takes
                    // it back before.
                    self.directory.locations.insert(client, known);
                }
                return;
            }
            if held.is_later_than(attachment) {
                return self.send_location(key, peer, true);
            }
            self.supersede(now, key, REPLACED_BY_NEWER);
        }
        if lingering.is_some_and(|known| attachment.is_later_than(known)) {
            self.directory.lingering.remove(&client);
        }
        if let Some(node) = self.peers.id(peer).cloned() {
            self.with_rooms(now, |rooms| rooms.forward_seats(&node, attachment));
        }
        if self.directory.locations.insert(client.clone(), known).is_none_or(|before| before.peer != peer) {
            self.custody.routes_dirty = true;
            self.replace_held(now, &client);
        }
    }

    /// Sends the location of a client to its owners by the ranking with and without suspects. If a
    /// lane is full, a later sweep sends it.
    pub(super) fn send_location_to_owners(&mut self, key: SessionKey) {
        if !self.announce(key) {
            self.directory.unannounced.push_back(key);
        }
    }

    /// Sends the location of a client to its owners. Returns `false` if a lane had no room.
    fn announce(&mut self, key: SessionKey) -> bool {
        let Some(session) = self.directory.get_mut(key).filter(|session| !session.socket_ended) else { return true };
        let (owner, stand_in) = (self.peers.owner_by_view(session.key), self.peers.owner(session.key));
        let owners = [owner, stand_in.filter(|stand_in| owner != Some(*stand_in))];
        let owners: Vec<_> = owners.into_iter().flatten().collect();
        let mut former = std::mem::replace(&mut session.informed_peers, owners.clone());
        former.retain(|peer| !owners.contains(peer));
        let mut had_room = true;
        for owner in owners {
            if self.peers.is_answering(owner) {
                had_room &= self.peers.note_if_roomy(owner, &located(session, true));
            }
        }
        for peer in former {
            if !self.peers.note_if_roomy(peer, &located(session, false)) {
                // The report did not fit, so a later try sends it.
                session.informed_peers.push(peer);
                had_room = false;
            }
        }
        had_room
    }

    /// Queues the locations of all clients for their owners, and sends the first of them.
    pub(super) fn send_all_locations(&mut self, now: Instant) {
        self.directory.announce_all(now + self.settings.rules.located_every);
        self.announce_waiting();
    }

    /// Sends queued locations of clients to owners. Sweeps send those past the limits.
    pub(super) fn announce_waiting(&mut self) {
        let mut refused = 0;
        for _ in 0..self.directory.unannounced.len().min(MAX_ANNOUNCED) {
            let Some(key) = self.directory.unannounced.pop_front() else { return };
            if !self.announce(key) {
                self.directory.unannounced.push_back(key);
                refused += 1;
                if refused >= MAX_REFUSED {
                    return;
                }
            }
        }
    }

    /// Reports to the owners of a client that it is no longer here.
    pub(super) fn withdraw_from_owners(&mut self, key: SessionKey) {
        let informed = self.directory.get_mut(key).map(|session| std::mem::take(&mut session.informed_peers));
        informed.into_iter().flatten().for_each(|peer| self.send_location(key, peer, false));
    }

    fn send_location(&mut self, key: SessionKey, peer: PeerKey, here: bool) {
        let Some(session) = self.directory.get(key) else { return };
        self.peers.note(Some(peer), &located(session, here));
    }

    /// Routes the messages held for a client again.
    pub(super) fn replace_held(&mut self, now: Instant, client: &ClientId) {
        for message in self.custody.holds.take(client.as_str()) {
            self.deliver_or_hold(now, client.as_str(), message);
        }
    }

    /// Sends messages held for clients that other nodes serve or own now.
    pub(super) fn reroute_held(&mut self, now: Instant) {
        let stays = |to: &str| matches!(self.route(to, KeyHash::of(to)), Route::Attached(_) | Route::Hold);
        let moving = self.custody.holds.recipients(|to| !stays(to));
        moving.iter().for_each(|to| self.replace_held(now, to));
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::trunk::{Attach, ToNode};
    use signaling_wire::{Rank, SocketId};

    use super::*;
    use crate::fixtures::mesh_node;

    fn attachment(socket: u8, rank: u64, number: u32) -> Attachment {
        Attachment { session: SessionId([socket; 16]), socket: SocketId([socket; 8]), rank: Rank(rank), number }
    }

    #[test]
    fn report_counts_by_the_attachment_or_the_rank_of_its_socket() {
        // The report of `b`; `true` if the client stays here, and if it is located there.
        let cases = [
            (attachment(1, 4, 2), true, true),
            (attachment(1, 9, 1), true, false),
            (attachment(2, 4, 9), true, false),
            (attachment(2, 6, 1), false, true),
        ];
        for (reported, stays, is_located) in cases {
            let (now, mut node, client) = (Instant::now(), mesh_node("a", &["a", "b"]), ClientId::new("anna").unwrap());
            let (trunk, mut frames) = (node.trunk_up(now), Vec::new());
            let Attachment { session, socket, rank, number } = attachment(1, 5, 1);
            let newcomer = Attach::newcomer(0, session, client.as_str(), socket);
            let attach = Attach { rank, attachment: number, state: Some(b"admitted"), ..newcomer };
            ToNode::Attach(attach).append(&mut frames);
            node.trunk_frames(now, trunk, &frames).unwrap();
            let peer = node.peers.key("b").unwrap();
            node.located(now, peer, client.clone(), reported, true);
            let is_here = node.directory.attached(client.as_str()).is_some();
            let location = node.directory.locations.get(client.as_str()).map(|known| known.attachment);
            assert_eq!((is_here, location == Some(reported)), (stays, is_located), "{reported:?}");
        }
    }
}
