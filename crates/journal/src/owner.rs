//! What a journal asks of its node.

use std::time::Instant;

use signaling_protocol::RoomName;
use signaling_rooms::{JournalOutcome, JournalRead, JournalWrite, Registrations};
use signaling_wire::Incarnation;

/// A node whose rooms and clients are written.
pub trait Owner {
    /// Takes writes of about `max_bytes`. Each is reported by [`Self::written`] before the next
    /// call.
    fn take_writes(&self, max_bytes: usize) -> Vec<JournalWrite>;
    /// Returns `true` if there is something to write.
    fn has_writes(&self) -> bool;
    /// Handles the result of a write of a room with this number.
    fn written(&self, room: &RoomName, number: u64, outcome: JournalOutcome);
    /// Takes rooms to read. Each is answered by [`Self::answer`].
    fn take_reads(&self) -> Vec<RoomName>;
    /// Handles the answer to a read.
    fn answer(&self, read: JournalRead);
    /// Takes at most `max` changes of the registry.
    fn take_registrations(&self, max: usize) -> Registrations;
    /// Has the next registrations start anew.
    fn forget_registrations(&self);
    /// Returns the number of clients with a socket at the node.
    fn clients(&self) -> usize;
    /// Returns `true` if a node is not in the view, or runs with another incarnation.
    fn is_former_process(&self, node: &str, incarnation: Incarnation) -> bool;
    /// Returns `true` if this node removes the entries of dead processes of a node.
    fn cleans(&self, node: &str) -> bool;
    /// Returns `true` if this node owns a room by the view, but has no such room.
    fn is_left_over(&self, room: &RoomName) -> bool;
    /// Handles a change of the journal's state.
    fn set_status(&self, status: JournalStatus);
}

/// State of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalStatus {
    /// `true` while it is written.
    pub is_up: bool,
    /// Reason for which it is not written. `None` before the first connection, or if it is.
    pub problem: Option<String>,
    /// `true` if another mesh writes under the prefix.
    pub is_foreign: bool,
    /// Time since which there are changes that are not written. `None`: all are.
    pub behind_since: Option<Instant>,
}
