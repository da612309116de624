//! Ranks of sockets. A newcomer gets one when it arrives. It is too low in a room if this node had
//! not received the number of an earlier socket by then. Once it has, it raises the rank.

use std::time::Instant;

use signaling_protocol::ClientId;
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

    /// Raises the rank of a socket at this node to what it would be, had the node that gave it
    /// received in time what the server that gave `above` had: the rank of a room's last operation
    /// of the client. No effect if it is lower even then: a later socket sent that operation, or
    /// its number came without others of its server, which follow within a second.
    pub(super) fn outranked(&mut self, now: Instant, client: &ClientId, socket: SocketId, above: Rank) {
        let Some((key, _)) = self.directory.holder(client.as_str()) else { return };
        let Some(holder) = self.directory.get_mut(key).filter(|holder| holder.socket == socket) else { return };
        let rank = Rank(self.counter.in_time(holder.rank.0, above.0));
        if rank <= above {
            return;
        }
        holder.rank = rank;
        let session = holder.id;
        self.trunks.send(holder.trunk, &ToEdge::Ranked { slot: holder.slot, rank });
        self.send_location_to_owners(key);
        self.with_rooms(now, |rooms| rooms.raise(session, rank));
    }
}
