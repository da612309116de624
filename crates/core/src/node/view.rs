//! Peer nodes: views, failures, draining, and the lanes to peers, as the shell reports them.

use std::sync::Arc;
use std::time::Instant;

use signaling_wire::lane::Acknowledgement;
use signaling_wire::trunk::ToEdge;
use signaling_wire::{ExchangeNumber, Incarnation};

use super::{BatchError, NodeCore, PeerKey};
use signaling_membership::View;

impl NodeCore {
    /// Routes by `view` from now on. Draining members own nothing, unless all members drain. Peers
    /// outside of it are dropped, unless their lane to here is open. For 60 s a peer that returns
    /// is known by its incarnation and its last batch and exchange.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        let adopted = Arc::clone(&view);
        self.peers.set_view(now, view);
        // The view names the owners of clients that were handed off from here.
        self.directory.locations.retain(|_, known| !known.released);
        self.with_rooms(now, |rooms| rooms.adopt_room_view(&adopted));
        self.reroute_clients(now);
    }

    /// Starts draining: this node owns nothing while another member does not drain. Sends
    /// `Draining` to all edges, now and when they connect. No effect while it drains.
    pub fn drain(&mut self, now: Instant) {
        if self.peers.set_draining(true) {
            self.trunks.send_to_all(None, &ToEdge::Draining);
            self.reroute(now);
        }
    }

    /// Ends draining, and sends `Serving` to all edges. No effect unless this node drains.
    pub fn undrain(&mut self, now: Instant) {
        if self.peers.set_draining(false) {
            self.trunks.send_to_all(None, &ToEdge::Serving);
            self.reroute(now);
        }
    }

    /// Records that a peer refused a connection: its process is gone. It becomes suspect. Ignores
    /// an unknown peer.
    pub fn refused(&mut self, now: Instant, peer: PeerKey) {
        self.peers.is_gone(peer);
        self.unreachable(now, peer);
    }

    /// Records that a connection to a peer failed, and its process may live: it becomes suspect.
    /// Ignores an unknown peer.
    pub fn unreachable(&mut self, now: Instant, peer: PeerKey) {
        if self.peers.failed(now, peer) {
            self.reroute(now);
        }
    }

    /// Drops the trunks of edges in other processes, and all exchanges, after a process pause. Peer
    /// nodes have suspected this node meanwhile, and its state of them is old.
    pub fn on_process_pause(&mut self, now: Instant) {
        self.peers.on_process_pause(now);
        self.with_rooms(now, |rooms| {
            rooms.on_process_pause();
        });
        self.close_trunks(now);
    }

    /// Sends messages, lingering sessions and locations to new owners, and has rooms get backups.
    pub(super) fn reroute(&mut self, now: Instant) {
        self.reroute_clients(now);
        self.room_step(now).check_backups();
    }

    fn reroute_clients(&mut self, now: Instant) {
        self.redirect(now);
        self.reroute_held(now);
        self.send_lingering_home(now);
        self.send_all_locations(now);
    }

    /// Handles a peer's answer to the opening of an exchange, with its incarnation. A new one means
    /// a restart, so messages, locations and room requests are sent again. Ignores an old exchange.
    pub fn lane_opened(&mut self, now: Instant, peer: PeerKey, exchange: ExchangeNumber, incarnation: Incarnation) {
        if let Some(lane) = self.peers.lane_in(peer, exchange) {
            lane.opened(now);
            self.record_incarnation(now, peer, incarnation);
            self.answered(now, peer);
        }
    }

    /// Handles a peer's acknowledgement, with its counter. Ignores one of a replaced exchange.
    ///
    /// # Errors
    /// If the counter is damaged. The exchange has to end.
    pub fn lane_acknowledged(
        &mut self,
        now: Instant,
        peer: PeerKey,
        exchange: ExchangeNumber,
        (of, counter): (Acknowledgement, u64),
    ) -> Result<(), BatchError> {
        self.counter.receive(now, counter)?;
        if let Some(lane) = self.peers.lane_in(peer, exchange) {
            let sent_before = lane.acknowledged(now, of.number);
            self.acknowledged(now, peer, sent_before, of.names_you);
        }
        Ok(())
    }

    /// Handles an acknowledgement that its peer sent after `sent_before`.
    pub(super) fn acknowledged(&mut self, now: Instant, peer: PeerKey, sent_before: Instant, names_us: bool) {
        self.peers.names_us(peer, sent_before, names_us);
        self.answered(now, peer);
        self.with_rooms(now, |rooms| {
            rooms.review_majority();
        });
    }

    pub(super) fn answered(&mut self, now: Instant, peer: PeerKey) {
        if self.peers.answered(now, peer) {
            self.reroute_held(now);
            self.send_all_locations(now);
            self.room_step(now).check_backups();
        }
    }
}
