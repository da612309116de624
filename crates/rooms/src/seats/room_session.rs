//! One session's seats, and its pending commands.

use std::collections::VecDeque;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_wire::seats::SeatState;
use signaling_wire::{MessageNumber, Seq, SessionId};

use super::accepted_requests::AcceptedRequests;
use super::task::Purpose;
use crate::counted::{ByteTotal, Counted, CountedMap};
use crate::{Requester, Seat, SeatAttachment, SeatStatus, SocketKey, Stamp};

/// Bytes of a seat at its client's node, apart from the room's name and the `data`.
const SEAT_BYTES: usize = 400;

/// [`LocalSeat::sent`] of a client that must get the whole state of the room.
pub(super) const NO_STATE: Stamp = Stamp { incarnation: 0, version: 0 };

/// Returns `true` if a client that received `sent` does not have all of `known`.
pub(super) fn is_behind(sent: Stamp, known: Stamp) -> bool {
    sent.incarnation != known.incarnation || sent.version < known.version
}

/// Returns the number of the same attachment after these drops ([`SeatAttachment::attachment`]).
pub(super) fn later_attachment(attachment: u64, drops: u32) -> u64 {
    (attachment >> 32 << 32) + u64::from(drops)
}

/// Returns the number of a lingering session at the next node, which has had these drops. It is
/// lower than that of the next attachment.
pub(super) fn attachment_at_next_node(attachment: u64, drops: u32) -> u64 {
    later_attachment(attachment.saturating_add(1 << 32), drops)
}

/// A session's seat in a room, and what its client received of the room.
#[derive(Debug, Clone)]
pub(super) struct LocalSeat {
    /// The seat as last known here; the owner decides.
    pub(super) seat: Seat,
    /// The room's state that the client has, or [`NO_STATE`]. The next node gets it with the seat.
    pub(super) sent: Stamp,
    /// Incarnation and epoch of the room that confirmed the seat last. Others may have lost it.
    pub(super) confirmed_in: (u64, u64),
    /// Clients ahead in the queue as last sent to the client, and the time. `None`: not sent.
    pub(super) sent_ahead: Option<(u64, Instant)>,
    /// `true` if the owner reported that the client has no seat, and the client has not received
    /// that.
    pub(super) is_over: bool,
}

impl LocalSeat {
    pub(super) fn is_member(&self) -> bool {
        self.seat.status.is_member()
    }

    /// Returns the number of the last command about the seat.
    pub(super) fn number(&self) -> u64 {
        self.seat.requester.number
    }

    /// Reads a seat of the session `requester` from another node, which the owner may not have
    /// confirmed. `None`: the room's name is invalid.
    pub(super) fn read(now: Instant, state: &SeatState<'_>, requester: Requester) -> Option<(RoomName, Self)> {
        let SeatState { room, member, place, number, confirmed_in, incarnation, version, ahead, data, .. } = *state;
        let status = if member { SeatStatus::Member { place } } else { SeatStatus::Waiting { place, ahead: 0 } };
        let seat = Seat { requester: Requester { number, ..requester }, status, data: data.map(Box::from) };
        let sent = Stamp { incarnation, version };
        let sent_ahead = ahead.map(|ahead| (ahead, now));
        Some((RoomName::new(room).ok()?, Self { seat, sent, confirmed_in, sent_ahead, is_over: false }))
    }

    /// Returns the seat for another node, with the epoch that this node follows. `None`: the client
    /// has no seat.
    pub(super) fn state<'a>(&'a self, room: &'a RoomName, epoch: u64) -> Option<SeatState<'a>> {
        let (member, place) = match self.seat.status {
            SeatStatus::Member { place } => (true, place),
            SeatStatus::Waiting { place, .. } => (false, place),
            SeatStatus::Out(_) | SeatStatus::Unknown => return None,
        };
        let Stamp { incarnation, version } = self.sent;
        let (ahead, data) = (self.sent_ahead.map(|(ahead, _)| ahead), self.seat.data.as_deref());
        let (room, number, confirmed_in) = (room.as_str(), self.number(), self.confirmed_in);
        Some(SeatState { room, member, place, number, confirmed_in, incarnation, version, epoch, ahead, data })
    }

    /// Returns the part of [`Self::state`] that the edge must have. A command that changes no more
    /// than the number has no effect that a next node could miss.
    pub(super) fn lasting_state<'a>(&'a self, room: &'a RoomName) -> Option<SeatState<'a>> {
        self.state(room, 0).map(|state| SeatState { number: 0, incarnation: 0, version: 0, ahead: None, ..state })
    }
}

impl Counted for Box<LocalSeat> {
    fn bytes(&self, room: &RoomName) -> usize {
        SEAT_BYTES + room.as_str().len() + self.seat.data.as_deref().map_or(0, str::len)
    }
}

/// A client's command, with its content.
#[derive(Debug, Clone)]
pub enum CommandKind<M> {
    /// Joins the room.
    Join {
        /// JSON for the other members. `None`: unchanged, or none.
        data: Option<Box<str>>,
        /// `true` if a node may have carried it out before.
        may_be_done: bool,
    },
    /// Leaves the room or its waiting queue.
    Leave,
    /// Asks for one page of the room's members.
    Members {
        /// Last client of the previous page. `None`: the first page.
        after: Option<ClientId>,
    },
    /// Sends a message to the other members.
    Broadcast {
        /// The message to each other member.
        copy: M,
        /// Bytes of its text for a member.
        bytes: usize,
        /// `true` if a node may have accepted it before. It may be under way, so the budget of a
        /// native client does not refuse it.
        may_be_accepted: bool,
    },
    /// A signal, sent if its recipient shares a room with the sender.
    Signal {
        /// The recipient.
        to: ClientId,
        /// The signal.
        message: M,
    },
    /// Gives up all seats: the client left for good, as by close code 1000, or its session ends
    /// with its socket. The command gets no answer.
    LeaveAll,
}

/// A pending command.
#[derive(Debug, Clone)]
pub struct Command<M> {
    /// The session key of its socket.
    pub key: SocketKey,
    /// Sequence number of its uplink frame. The outcome is the answer to that frame.
    pub seq: Seq,
    /// Its number in the session.
    pub number: MessageNumber,
    /// The client's `id` for the `ack`. `None`: no `ack`.
    pub id: Option<u64>,
    /// Its room; of a signal, the room of its request. `None`: no request yet, or `LeaveAll`.
    pub room: Option<RoomName>,
    /// What it asks for.
    pub kind: CommandKind<M>,
}

impl<M> Command<M> {
    pub(super) fn purpose(&self, session: SessionId) -> Purpose {
        Purpose::Command { session, key: self.key, seq: self.seq }
    }

    /// Returns `true` for a message to another client that needs a check of common rooms.
    pub(super) fn is_signal(&self) -> bool {
        matches!(self.kind, CommandKind::Signal { .. })
    }
}

/// A session with seats or pending commands. After the loss of its socket it is kept while it
/// lingers at this node or has pending commands.
#[derive(Debug)]
pub(super) struct RoomSession<M> {
    pub(super) client: ClientId,
    /// Its last socket and attachment.
    pub(super) at: SeatAttachment,
    /// Its seats, by room. Boxed: the smallest map has space for eleven values, and most sessions
    /// have one seat.
    pub(super) seats: CountedMap<Box<LocalSeat>>,
    /// Queue of commands. An owner works on the first one.
    pub(super) commands: VecDeque<Command<M>>,
    /// Recipients of the broadcast that is the first command, from the pages read so far.
    pub(super) found: Vec<ClientId>,
    /// Broadcasts and joins of a reliable client that it may retransmit.
    pub(super) accepted_requests: AcceptedRequests,
    /// Time at which its socket was lost. `None`: the socket is here, or was at the last check.
    pub(super) socket_lost_at: Option<Instant>,
    /// Time from which it waits for the check for its end. `None`: no check is queued, since its
    /// socket is here or was lost after the last sweep.
    pub(super) checked_from: Option<Instant>,
}

impl<M> RoomSession<M> {
    pub(super) fn new(client: ClientId, at: SeatAttachment) -> Self {
        Self {
            client,
            at,
            seats: CountedMap::new(&ByteTotal::default()),
            commands: VecDeque::new(),
            found: Vec::new(),
            accepted_requests: AcceptedRequests::default(),
            socket_lost_at: None,
            checked_from: None,
        }
    }

    /// Creates a session from another node, without its seats. The other node may have accepted
    /// broadcasts of it.
    pub(super) fn from_other_node(client: ClientId, at: SeatAttachment) -> Self {
        Self { accepted_requests: AcceptedRequests::from_other_node(), ..Self::new(client, at) }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.seats.is_empty() && self.commands.is_empty()
    }

    /// Removes and returns the first command. An empty queue keeps no memory: most sessions send at
    /// most two commands.
    pub(super) fn take_first_command(&mut self) -> Option<Command<M>> {
        let first = self.commands.pop_front();
        if self.commands.is_empty() {
            self.commands = VecDeque::new();
        }
        first
    }

    /// Returns the socket and frame of the first command. `None`: there is no command.
    pub(super) fn first_command(&self) -> Option<(SocketKey, Seq)> {
        self.commands.front().map(|command| (command.key, command.seq))
    }

    /// Returns the bytes of its `data` in all other rooms.
    pub(super) fn data_bytes_elsewhere(&self, room: &RoomName) -> usize {
        let others = self.seats.iter().filter(|(name, _)| *name != room);
        others.map(|(_, local)| local.seat.data.as_deref().map_or(0, str::len)).sum()
    }

    /// Returns the requester for the owner: this session at `node`, with the number of a command.
    pub(super) fn requester(&self, session: SessionId, number: MessageNumber, node: &NodeId) -> Requester {
        let SeatAttachment { rank, attachment, socket } = self.at;
        let (client, node) = (self.client.clone(), node.clone());
        Requester { client, session, socket, rank, attachment, number: number.0, node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::requester;

    fn seat(data: usize) -> Box<LocalSeat> {
        let (requester, data) = (requester("a", "n", 1), Some("x".repeat(data).into()));
        let seat = Seat { requester, status: SeatStatus::Unknown, data };
        Box::new(LocalSeat { seat, sent: NO_STATE, confirmed_in: (0, 0), sent_ahead: None, is_over: false })
    }

    #[test]
    fn seats_count_until_they_end() {
        let total = ByteTotal::default();
        let [mut seats, mut others] = [CountedMap::new(&total), CountedMap::new(&total)];
        let room = |name| RoomName::new(name).unwrap();
        seats.insert(room("r"), seat(10));
        seats.insert(room("r"), seat(20));
        seats.insert(room("s"), seat(0));
        others.insert(room("r"), seat(5));
        assert_eq!(total.get(), 3 * (SEAT_BYTES + 1) + 25);
        assert!(seats.remove(&room("r")).is_some() && seats.remove(&room("r")).is_none());
        drop(others);
        assert_eq!(total.get(), SEAT_BYTES + 1);
        assert_eq!((seats.take().len(), total.get()), (1, 0));
    }
}
