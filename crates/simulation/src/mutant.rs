//! Deliberately broken rules, one at a time. They prove that the simulation detects a violation of
//! each rule. Some use a setting, some change frames between servers (`wire`), a few suppress
//! inputs of servers.

mod wire;

use std::time::{Duration, Instant};

use clap::ValueEnum;
use signaling_core::edge;
use signaling_core::node::Rules;
use signaling_rooms::{RoomRule, RoomSettings};

pub(crate) use self::wire::{Once, Ordered};

/// A broken rule. Its name in flags is the variant in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mutant {
    /// Messages do not carry the number of the pending message before them.
    PrevPending,
    /// Edges confirm every received message as written.
    Written,
    /// Edges report every unwritten message as skipped, so that it is not retransmitted.
    SkippedReports,
    /// Each server that receives a message restarts its TTL.
    RemainingTtl,
    /// Nodes take each batch of a lane as in time.
    LateBatches,
    /// Frames of trunks do not carry their time.
    LateFrames,
    /// Nodes do not ask for the outcome of an expired message.
    OutcomeRequests,
    /// A message's outcome waits for the outcomes of all earlier messages.
    OneByOne,
    /// Outcomes do not return through a node that relayed the message.
    ReturnPath,
    /// A stored outcome does not answer a retransmission.
    KeptOutcomes,
    /// Nodes do not send the order to forget a message.
    Forget,
    /// Nodes do not report the location of clients.
    Located,
    /// Nodes do not relay messages.
    Relays,
    /// Messages do not carry the nodes that relayed them.
    Via,
    /// Nodes do not report that a message is held.
    Held,
    /// A takeover does not wait for the final confirm of the old socket.
    Takeover,
    /// Sockets do not keep the rank that their node gave them.
    Ranks,
    /// Nodes give up an expired message without a grace time for its outcome.
    LateOutcomes,
    /// A server does not react to a long process pause.
    ProcessPause,
    /// A short process pause counts as silence of peers.
    ShortPauses,
    /// A stand-in sends no detour copies of the messages that it holds.
    Detour,
    /// Nodes never suspect other nodes.
    Suspects,
    /// Nodes do not detect the restart of another.
    Incarnation,
    /// All batches have the same number.
    BatchNumbers,
    /// Nodes forget a peer as soon as it leaves the view.
    LaneMemory,
    /// The next exchange of a lane does not send unacknowledged batches again.
    LaneWindow,
    /// Batches are acknowledged before they are executed.
    EarlyAcknowledgement,
    /// Edges do not retransmit messages without an outcome.
    EdgeRetransmissions,
    /// Nodes do not retransmit messages without an outcome.
    NodeRetransmissions,
    /// Lingering sessions do not move to their new owner.
    Lingering,
    /// Edges remember the written messages of one sender, at most 64.
    Deduplicator,
    /// Edges remember two senders, and forget the idlest one for a third.
    Eviction,
    /// Any number of messages may be held for one absent client.
    HoldLimit,
    /// Edges keep up to 10,000 frames of a client, so that the client is never slowed.
    RetransmitBuffer,
    /// Edges take a written message as acknowledged by `received` at once.
    ReceivedTracker,
    /// Each close frame of a client ends its session.
    CloseFrames,
    /// Sessions lose their seats in rooms on the way to another node.
    Seats,
    /// Lingering sessions lose their seats in rooms on the way to another node.
    LingeringSeats,
    /// Nodes do not forward changes of a room.
    RoomChanges,
    /// Nodes do not restore the seats of a room that is lost.
    Restore,
    /// An owner does not ask nodes to claim the seats of a room that it takes over.
    ClaimSeats,
    /// Edges do not count the attachments of a session.
    Attachments,
    /// Nodes do not drop the seats of sessions that end or move.
    SeatDrops,
    /// No copy of a room reaches another node.
    RoomCopies,
    /// Copies of rooms are kept when later ones have replaced them.
    RoomRetired,
    /// An owner ignores that its backup refuses the log.
    RefusedLogs,
    /// Nodes do not name the rooms of their clients to a new owner.
    RoomReports,
    /// Nodes confirm any view to a new owner.
    Barrier,
    /// Nodes request an operation of a room once.
    RepeatedRequests,
    /// Nodes request the confirmation of a view once.
    RepeatedQueries,
    /// Owners of rooms have no backup: each node takes all others as gone.
    Backups,
    /// Nodes do not get the zones of the nodes in their views.
    Zones,
    /// Nodes serve rooms without the majority of their view.
    Majority,
    /// A node that had lost the majority goes on with the rooms that it had.
    Regain,
    /// New owners of rooms do not wait for nodes that their view lacks.
    FormerOwner,
    /// Backups do not confirm the epoch of a room.
    RoomCopied,
    /// Results and changes of rooms do not carry their epoch.
    RoomEpochs,
    /// Nodes do not claim seats in rooms of other nodes.
    Claims,
    /// Seats that no node claims do not end.
    UnclaimedSeats,
    /// Each order to drop a seat counts as one of the latest attachment.
    LateDrops,
    /// Rooms forget clients that left or expired.
    GoneClients,
    /// A member receives changes about itself.
    OwnChanges,
    /// The journal takes writes of earlier owners.
    JournalFence,
    /// The journal takes a write though it lacks the one before.
    JournalChain,
    /// Owners without a copy do not read the journal.
    JournalRead,
    /// A process that releases a client removes the entry of another process too.
    Release,
    /// Rooms admit clients that an operator keeps out.
    Blocks,
    /// Rooms admit clients while they are closed.
    Closures,
    /// Nodes receive nothing of the seats that an operator ended there.
    EndedSeats,
    /// Each owner counts the time of its rooms by its own wall clock.
    RoomTime,
    /// Nodes without a view accept trunks and batches.
    MissingView,
}

const NEVER: Duration = Duration::from_secs(24 * 3600);

impl Mutant {
    /// Returns the rules of all nodes: the default ones, unless the mutant breaks them.
    pub(crate) fn rules(self) -> Rules {
        let mut rules = Rules::default();
        match self {
            Self::Takeover => rules.final_confirm_timeout = Duration::ZERO,
            Self::LateOutcomes => rules.late_outcome_grace = Duration::ZERO,
            Self::Detour => rules.detours = 0,
            Self::Suspects => rules.suspect_after = NEVER,
            Self::NodeRetransmissions => {
                (rules.retransmit_after, rules.retransmit_held_after) = (NEVER, NEVER);
            }
            Self::ShortPauses => rules.max_sweep_interval = NEVER,
            Self::LaneMemory => rules.peer_memory = Duration::ZERO,
            Self::HoldLimit => rules.max_for_absent = usize::MAX,
            _ => {}
        }
        rules
    }

    /// Changes the settings of a node's rooms if the mutant breaks them. `at` and `wall_ms`: one
    /// moment as an instant, and by the node's wall clock in ms since 1970.
    pub(crate) fn rooms(self, settings: &mut RoomSettings, (at, wall_ms): (Instant, u64)) {
        match self {
            Self::OwnChanges => settings.rules.breaks = Some(RoomRule::OwnChanges),
            Self::Blocks => settings.rules.breaks = Some(RoomRule::Blocks),
            Self::Closures => settings.rules.breaks = Some(RoomRule::Closures),
            Self::EndedSeats => settings.rules.breaks = Some(RoomRule::EndedSeats),
            Self::Majority => settings.rules.breaks = Some(RoomRule::Majority),
            Self::Regain => settings.rules.breaks = Some(RoomRule::Regain),
            Self::FormerOwner => settings.rules.breaks = Some(RoomRule::FormerOwner),
            Self::RoomTime => settings.rules.breaks = Some(RoomRule::RoomTime { at, wall_ms }),
            Self::UnclaimedSeats => settings.rules.stale = NEVER,
            Self::GoneClients => settings.rules.remembered = Duration::ZERO,
            _ => {}
        }
    }

    /// Changes the settings of an edge if the mutant breaks them.
    pub(crate) fn edge(self, settings: &mut edge::Settings) {
        settings.dedup.forgets_recent = matches!(self, Self::Deduplicator | Self::Eviction);
        match self {
            Self::Deduplicator => (settings.dedup.bytes, settings.dedup.window) = (edge::SENDER_BYTES, 64),
            Self::Eviction => settings.dedup.bytes = 2 * edge::SENDER_BYTES,
            Self::RetransmitBuffer => {
                settings.retransmit = edge::RetransmitLimits { frames: 10_000, bytes: 1 << 30, span: 10_000 }
            }
            _ => {}
        }
    }
}
