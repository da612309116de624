//! Peer nodes: views, failures, draining, and the lanes that the shell serves.

use std::sync::Arc;
use std::time::Instant;

use signaling_protocol::NodeId;
use signaling_wire::trunk::ToEdge;

use super::{NodeCore, PeerKey};
use crate::View;
use crate::edge::FlushUrgency;

impl NodeCore {
    /// Routes by `view` from now on. Draining members stay reachable but own nothing, unless all
    /// members drain.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.peers.set_view(now, view);
        self.directory.forget_released();
        self.reroute(now);
    }

    /// Returns `true` once discovery has named nodes. A node without a view cannot forward, so
    /// edges and peer nodes must treat it as down.
    #[must_use]
    pub fn has_view(&self) -> bool {
        !self.peers.view().is_empty()
    }

    /// Returns `true` if the view has the node.
    #[must_use]
    pub fn is_in_view(&self, node: &NodeId) -> bool {
        self.peers.view().get(node.as_str()).is_some()
    }

    /// Returns `true` if the view has the node as draining.
    #[must_use]
    pub fn is_leaving(&self, node: &NodeId) -> bool {
        self.peers.view().get(node.as_str()).is_some_and(|member| member.draining)
    }

    /// Returns the peer nodes with the addresses of their internal listeners.
    pub fn peers(&self) -> impl Iterator<Item = (PeerKey, &str)> {
        self.peers.addresses()
    }

    /// Returns the suspect nodes.
    pub fn suspects(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.suspects()
    }

    /// Returns `true` if this node drains.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.peers.is_draining()
    }

    /// Sends `Draining` to all edges, now and when they connect.
    pub fn drain(&mut self, now: Instant) {
        if self.peers.set_draining(true) {
            self.trunks.send_to_all(None, &ToEdge::Draining);
            self.reroute(now);
        }
    }

    /// Ends draining, and sends `Serving` to all edges.
    pub fn undrain(&mut self, now: Instant) {
        if self.peers.set_draining(false) {
            self.trunks.send_to_all(None, &ToEdge::Serving);
            self.reroute(now);
        }
    }

    /// Takes in that a peer refused a connection.
    pub fn refused(&mut self, now: Instant, peer: PeerKey) {
        if self.peers.refused(now, peer) {
            self.reroute(now);
        }
    }

    /// Starts afresh after a process pause. Peer nodes have suspected this node meanwhile, and its
    /// view of them is old.
    pub fn on_process_pause(&mut self, now: Instant) {
        self.peers.on_process_pause(now);
        self.hang_up(now);
    }

    /// Sends messages, lingering sessions and locations to new owners.
    pub(super) fn reroute(&mut self, now: Instant) {
        self.redirect(now);
        self.rehouse(now);
        self.hand_over_lingering(now);
        self.tell_all_owners(now);
    }

    /// Returns the number of lanes to each peer.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.settings.rules.lanes.get()
    }

    /// Returns how urgently a lane's next batch has to be sent.
    #[must_use]
    pub fn lane_wants(&self, peer: PeerKey, lane: usize) -> FlushUrgency {
        self.peers.wants(peer, lane)
    }

    /// Takes a lane's next batch. It is in flight until [`NodeCore::lane_answered`] or
    /// [`NodeCore::lane_lost`].
    pub fn take_lane_batch(&mut self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        self.peers.take_batch(now, peer, lane)
    }

    /// Encodes the batch in flight for another try, with the present TTLs.
    #[must_use]
    pub fn lane_batch_again(&self, now: Instant, peer: PeerKey, lane: usize) -> Option<Vec<u8>> {
        self.peers.batch_again(now, peer, lane)
    }

    /// Gives up a batch that the peer rejected permanently. Its messages are retransmitted later.
    pub fn lane_lost(&mut self, peer: PeerKey, lane: usize) {
        self.peers.batch_ended(peer, lane);
    }

    /// Returns the bytes queued in lanes to other nodes.
    #[must_use]
    pub fn lane_bytes(&self) -> usize {
        self.peers.lane_bytes()
    }
}
