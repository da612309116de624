//! Peer nodes: views, failures, draining, and the lanes that the shell serves.

use std::sync::Arc;
use std::time::Instant;

use signaling_protocol::NodeId;
use signaling_wire::lane::Opening;
use signaling_wire::trunk::ToEdge;
use signaling_wire::{BatchNumber, ExchangeNumber, Incarnation};

use super::lane::Lane;
use super::{NodeCore, PeerKey};
use crate::View;
use crate::edge::FlushUrgency;

impl NodeCore {
    /// Routes by `view` from now on. Draining members stay reachable but own nothing, unless all
    /// members drain.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.peers.set_view(now, view);
        // The view names the owners of clients that were handed off from here.
        self.directory.locations.retain(|_, known| !known.released);
        self.reroute(now);
    }

    /// Returns `true` once discovery has named nodes. A node without a view cannot forward, so
    /// edges and peer nodes must treat it as down.
    #[must_use]
    pub fn has_view(&self) -> bool {
        !self.peers.view().is_empty()
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

    /// Starts the next exchange of the lane to a peer, and ends the earlier one. `None`: the peer
    /// is unknown.
    pub fn open_lane(&mut self, now: Instant, peer: PeerKey) -> Option<Opening> {
        self.peers.open_lane(now, peer)
    }

    /// Takes in that the peer has answered the opening of an exchange.
    pub fn lane_opened(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber, incarnation: Incarnation) {
        if let Some(lane) = self.peers.lane_in(peer, exchange) {
            lane.opened(now);
            self.met(now, peer, incarnation);
            self.answered(now, peer);
        }
    }

    /// Takes in a peer's acknowledgement of all batches up to `number`.
    pub fn lane_acknowledged(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber, number: BatchNumber) {
        if let Some(lane) = self.peers.lane_in(peer, exchange) {
            lane.acknowledged(now, number);
            self.answered(now, peer);
        }
    }

    /// Takes in that an exchange has ended. The next one sends the unacknowledged batches again.
    pub fn lane_ended(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber) {
        if let Some(lane) = self.peers.lane_in(peer, exchange) {
            lane.ended(now);
        }
    }

    /// Returns `true` if the shell has to end an exchange: it makes no progress, or the process was
    /// paused.
    #[must_use]
    pub fn is_lane_cut(&self, peer: PeerKey) -> bool {
        self.peers.lane(peer).is_none_or(Lane::is_cut)
    }

    /// Ends the exchanges of the lanes to all peers. The shell opens new ones.
    pub fn cut_lanes(&mut self, now: Instant) {
        self.peers.cut_lanes(now);
    }

    /// Takes the peers whose lanes have changed since the last call. The urgency says when the
    /// shell has to look after a lane: to send its next frame, or to end its exchange.
    pub fn take_woken_lanes(&mut self) -> Vec<(PeerKey, FlushUrgency)> {
        self.peers.take_woken()
    }

    /// Takes the lane's next frame. Its batch stays in the window until it is acknowledged.
    pub fn take_lane_frame(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber) -> Option<Vec<u8>> {
        self.peers.take_frame(now, peer, exchange)
    }

    fn answered(&mut self, now: Instant, peer: PeerKey) {
        if self.peers.answered(now, peer) {
            self.rehouse(now);
            self.tell_all_owners(now);
        }
    }

    /// Returns the bytes queued in lanes to other nodes.
    #[must_use]
    pub fn lane_bytes(&self) -> usize {
        self.peers.lane_bytes()
    }
}
