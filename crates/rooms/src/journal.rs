//! What a journal of rooms receives of their owner, and returns to an owner without a copy.
//!
//! The owner decides what is written. The caller of [`Rooms::take_journal`](crate::Rooms) writes
//! it, and reports each write.

use signaling_protocol::{ClientId, RoomName};

use crate::{Seat, SeatKind};

/// One write about a room. A write has the present state of its clients, so changes merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalWrite {
    /// The room.
    pub room: RoomName,
    /// Epoch of the owner. A journal with a later one refuses the write.
    pub epoch: u64,
    /// Number of the write, 1 more for each of the room.
    pub number: u64,
    /// Number of the write before it, in this epoch: without it the journal has lost a write.
    /// `None`: the write replaces all that the journal has of the room.
    pub after: Option<u64>,
    /// The state of the room. `None`: the room has ended.
    pub state: Option<JournalState>,
}

/// State of a room, or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalState {
    /// State of the room beside its clients.
    pub summary: JournalSummary,
    /// Clients that an operator keeps out. `None`: as in the writes before.
    pub bans: Option<JournalBans>,
    /// Numbers of all members and waiting clients, also if they are not in this write.
    pub counts: (u64, u64),
    /// Clients with their present and former states.
    pub clients: Vec<JournalClient>,
    /// `true` if further writes have the rest of the room's clients.
    pub is_partial: bool,
    /// A sign of life of all clients. `None`: it is not due.
    pub beat: Option<JournalBeat>,
}

/// A client whose state is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalClient {
    /// Id of the client.
    pub client: ClientId,
    /// Kind of its seat in the journal. `None`: it has none there.
    pub former: Option<SeatKind>,
    /// Its present seat, as a member or waiting. `None`: it has none.
    pub seat: Option<Seat>,
}

/// All clients of a room, which the owner still has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalBeat {
    /// The members.
    pub members: Vec<ClientId>,
    /// The waiting clients.
    pub waiting: Vec<ClientId>,
    /// `true` once per hour: the journal keeps the room for longer.
    pub renews: bool,
}

/// State of a room beside its clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSummary {
    /// Incarnation of the room.
    pub incarnation: u64,
    /// Version of the room.
    pub version: u64,
    /// The room's own capacity (0: no limit). `None`: the mesh's.
    pub capacity: Option<u32>,
    /// `true` if an operator set the capacity, so that it stays after the last seat.
    pub keeps_capacity: bool,
}

/// Clients that an operator keeps out of a room. Times count from the write, or from the read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalBans {
    /// Blocked clients, each with the time in ms until the end of its block.
    pub blocks: Vec<(ClientId, u64)>,
    /// Time in ms until the room opens. `None`: it is open. `u64::MAX`: it is closed without an
    /// end.
    pub closed_for: Option<u64>,
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalOutcome {
    /// The journal has it.
    Written,
    /// The journal has a later epoch of the room: this one, or at most this one. `u64::MAX`: it
    /// does not take the room.
    Refused(u64),
    /// The journal lacks an earlier write, has other clients, or did not answer.
    Lost,
}

/// A room in a journal, as its last owner has written it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalRoom {
    /// Epoch of the owner that wrote it.
    pub epoch: u64,
    /// State beside the clients.
    pub summary: JournalSummary,
    /// Clients that an operator keeps out.
    pub bans: JournalBans,
    /// Seats of members and waiting clients.
    pub seats: Vec<Seat>,
}

impl JournalRoom {
    /// Returns the highest number of a counter in it.
    pub(crate) fn highest_number(&self) -> u64 {
        let numbers = [self.epoch, self.summary.incarnation, self.summary.version].into_iter();
        let of_seats = self.seats.iter().flat_map(|seat| [seat.status.place(), seat.requester.rank.0]);
        numbers.chain(of_seats).max().unwrap_or_default()
    }
}

/// Answer to [`Output::ReadJournal`](crate::Output).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRead {
    /// The room.
    pub room: RoomName,
    /// What the journal has. `None`: nothing, or it does not answer.
    pub found: Option<JournalRoom>,
}

/// Changes of the clients with a socket at a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registrations {
    /// `true` if all entries of this process are to be removed first.
    pub starts_anew: bool,
    /// Clients with a socket.
    pub present: Vec<ClientId>,
    /// Clients without one.
    pub absent: Vec<ClientId>,
}

/// Events of a node's journal since the start, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct JournalCounts {
    /// Writes that were taken.
    pub taken: u64,
    /// Writes that the journal refused, as it has a later epoch.
    pub refused: u64,
    /// Rooms that were requested from the journal.
    pub reads: u64,
}
