//! Rules broken on purpose, one at a time: a simulation that does not notice proves nothing about the rule.
//!
//! Some are broken by a setting, some on the wire (`wire`), a few by what servers are not told.

mod wire;

use std::time::Duration;

use clap::ValueEnum;
use signaling_core::edge;
use signaling_core::node::Rules;

pub(crate) use self::wire::{Ordered, without_fates};

/// A rule that servers break. Its name in flags is that of the variant, in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mutant {
    /// Messages do not say which one is before them.
    Prev,
    /// Edges say of all that they got that it was written.
    Written,
    /// What comes too early is passed over for good.
    Again,
    /// Each server that gets a message starts its life anew.
    Life,
    /// What is over is not asked for.
    Question,
    /// A message's fate waits for those of all before it.
    OneByOne,
    /// Fates do not find back through a node that passed the message on.
    Path,
    /// Fates come by themselves, not in answers.
    Answers,
    /// A fate that waits does not answer a repeat.
    KeptFates,
    /// Nobody is told to forget.
    Forget,
    /// Nobody is told where clients are.
    Located,
    /// Nobody passes a message on.
    PassingOn,
    /// Messages do not say where they have been.
    Via,
    /// Nobody says that a message waits.
    Held,
    /// What went down to a former socket does not wait for that one's last word.
    Takeover,
    /// Later sessions do not say that they are later.
    Born,
    /// What is over is given up at once.
    LastWord,
    /// A server that was away for long goes on as if nothing were.
    ClockJump,
    /// A stand-in keeps to itself what it holds.
    Detour,
    /// No node is ever suspect to another.
    Suspects,
    /// A restart is not seen.
    Incarnation,
    /// Batches are not numbered.
    Number,
    /// Edges do not send again what has no fate.
    StoreRepeats,
    /// Nodes do not send again what has no fate.
    Timer,
    /// Sessions without a socket stay where they are.
    Lingering,
    /// Edges forget at once what they wrote.
    Filter,
    /// Edges forget recent senders when they remember many.
    Eviction,
    /// Any number of messages may wait for one that is absent.
    Flood,
    /// Edges keep any number of frames.
    Store,
    /// Edges do not wait for `received`.
    ReceivedTracker,
    /// Edges take any close frame for a goodbye.
    Goodbye,
    /// Sessions come to their next node without their places in rooms.
    Seats,
    /// The same of sessions without a socket.
    LingeringSeats,
    /// Nodes keep to themselves what has changed in a room.
    RoomChanges,
    /// Nodes take every incarnation of a room for the one that they know.
    RoomIncarnations,
    /// Nodes do not say again that their clients are still in their rooms.
    Refresh,
    /// A store that has lost everything is given nothing back.
    Restore,
    /// A node without a view takes trunks and batches.
    View,
}

const NEVER: Duration = Duration::from_secs(24 * 3600);

impl Mutant {
    /// By what numbers nodes live.
    pub(crate) fn rules(self) -> Rules {
        let mut rules = Rules::default();
        match self {
            Self::Takeover => rules.final_confirm_timeout = Duration::ZERO,
            Self::LastWord => rules.late_outcome_grace = Duration::ZERO,
            Self::Detour => rules.detours = 0,
            Self::Suspects => rules.suspect_after = NEVER,
            Self::Timer => {
                (rules.repeat_after, rules.repeat_held_after) = (NEVER, NEVER);
            }
            Self::Flood => rules.max_for_absent = usize::MAX,
            _ => {}
        }
        rules
    }

    /// By what numbers edges live.
    pub(crate) fn edge(self, settings: &mut edge::Settings) {
        match self {
            Self::Filter => {
                (settings.filter.bytes, settings.filter.window) = (edge::SENDER_BYTES, 64);
                settings.filter.forgets_recent = true;
            }
            Self::Eviction => {
                settings.filter.bytes = 2 * edge::SENDER_BYTES;
                settings.filter.forgets_recent = true;
            }
            Self::Store => settings.store = edge::StoreLimits { frames: 10_000, bytes: 1 << 30, span: 10_000 },
            _ => {}
        }
    }
}
