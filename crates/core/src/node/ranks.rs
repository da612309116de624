//! Ranks of sockets. A newcomer gets one when it arrives. It is too low in a room if the node had
//! not received the number of an earlier socket. The client's owner then gives it a higher one.

use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::Item;
use signaling_wire::trunk::ToEdge;
use signaling_wire::{Rank, SocketId};

use super::NodeCore;
use super::session::Session;

impl NodeCore {
    /// Gives a newcomer a higher rank than that of the socket that it follows.
    pub(super) fn outrank(&mut self, now: Instant, arrival: &mut Session, former: Rank) {
        if arrival.newcomer && arrival.rank <= former {
            arrival.rank = Rank(self.counter.next(now));
        }
    }

    /// Requests a rank above this one for a socket at this node from the client's owner.
    pub(super) fn want_rank(&mut self, now: Instant, client: &ClientId, socket: SocketId, above: Rank) {
        match self.peers.owner(KeyHash::of(client.as_str())) {
            Some(owner) => {
                let wanted = Item::RankWanted { client_id: client.as_str(), socket, above };
                self.peers.note(Some(owner), &wanted);
            }
            None => {
                if let Some(rank) = self.higher_rank(now, client, socket) {
                    self.raise(now, client, socket, rank);
                }
            }
        }
    }

    /// Returns a rank above all that this node has received. `None`: the socket is not the present
    /// one of the client, as far as this node has heard, or a newcomer waits to replace it.
    pub(super) fn higher_rank(&mut self, now: Instant, client: &ClientId, socket: SocketId) -> Option<Rank> {
        let holder = self.directory.holder(client.as_str()).map(|(_, holder)| holder);
        let is_here = holder.is_some_and(|holder| holder.socket == socket);
        let is_present = is_here || self.directory.is_socket_located(client.as_str(), socket);
        // The newcomer has its rank already, and must stay the later one.
        let is_contended = holder.is_some_and(|holder| holder.contender.is_some())
            || self.directory.pending_resumes.contains_key(client);
        (is_present && !is_contended).then(|| Rank(self.counter.next(now)))
    }

    /// Raises the rank of a socket at this node, and has its rooms repeat what waits for that. No
    /// effect if the socket is gone, or its rank is higher.
    pub(super) fn raise(&mut self, now: Instant, client: &ClientId, socket: SocketId, rank: Rank) {
        let holder = self.directory.holder(client.as_str());
        let Some((key, _)) = holder.filter(|(_, holder)| holder.socket == socket && holder.rank < rank) else { return };
        let Some(holder) = self.directory.get_mut(key) else { return };
        holder.rank = rank;
        let session = holder.id;
        self.trunks.send(holder.trunk, &ToEdge::Ranked { slot: holder.slot, rank });
        self.send_location_to_owners(key);
        self.with_rooms(now, |rooms| rooms.raise(session, rank));
    }
}
