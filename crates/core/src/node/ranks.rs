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
            self.rank_now(now, arrival);
        }
    }

    /// Gives a newcomer the next number of the counter as its rank.
    pub(super) fn rank_now(&mut self, now: Instant, arrival: &mut Session) {
        (arrival.rank, arrival.lead) = (Rank(self.counter.next(now)), self.counter.lead());
    }

    /// Raises the rank of a socket at this node by what numbers of other servers have raised the
    /// counter since, if it is then above that of a room's last operation of the client. Otherwise
    /// a later socket of the client sent that operation, or its number came without others of its
    /// server, which follow within a second.
    pub(super) fn outranked(&mut self, now: Instant, client: &ClientId, socket: SocketId, above: Rank) {
        let Some((key, _)) = self.directory.holder(client.as_str()) else { return };
        let Some(holder) = self.directory.get_mut(key).filter(|holder| holder.socket == socket) else { return };
        let lead = self.counter.lead();
        let rank = holder.rank.plus(lead - holder.lead);
        if rank <= above {
            return;
        }
        (holder.rank, holder.lead) = (rank, lead);
        let session = holder.id;
        self.trunks.send(holder.trunk, &ToEdge::Ranked { slot: holder.slot, rank });
        self.send_location_to_owners(key);
        self.with_rooms(now, |rooms| rooms.raise(session, rank));
    }
}
