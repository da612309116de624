//! Rules broken on purpose, one at a time: a simulation that does not notice proves nothing about the rule.
//!
//! Some are broken by a setting, some on the wire (`wire`), a few by what servers are not told.

mod wire;

use std::time::Duration;

use signaling_core::edge;
use signaling_core::node::Rules;

pub(crate) use self::wire::{Ordered, without_fates};

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// A rule that servers break.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in flags.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

mutants! {
    /// Messages do not say which one is before them.
    Prev = "prev",
    /// Edges say of all that they got that it was written.
    Written = "written",
    /// What comes too early is passed over for good.
    Again = "again",
    /// Each server that gets a message starts its life anew.
    Life = "life",
    /// What is over is not asked for.
    Question = "question",
    /// A message's fate waits for those of all before it.
    OneByOne = "one-by-one",
    /// Fates do not find back through a node that passed the message on.
    Path = "path",
    /// Fates come by themselves, not in answers.
    Answers = "answers",
    /// A fate that waits does not answer a repeat.
    KeptFates = "kept-fates",
    /// Nobody is told to forget.
    Forget = "forget",
    /// Nobody is told where clients are.
    Located = "located",
    /// Nobody passes a message on.
    PassingOn = "passing-on",
    /// Messages do not say where they have been.
    Via = "via",
    /// Nobody says that a message waits.
    Held = "held",
    /// What went down to a former socket does not wait for that one's last word.
    Takeover = "takeover",
    /// Later sessions do not say that they are later.
    Born = "born",
    /// What is over is given up at once.
    LastWord = "last-word",
    /// A server that was away for long goes on as if nothing were.
    ClockJump = "clock-jump",
    /// A stand-in keeps to itself what it holds.
    Detour = "detour",
    /// No node is ever suspect to another.
    Suspects = "suspects",
    /// A restart is not seen.
    Incarnation = "incarnation",
    /// Batches are not numbered.
    Number = "number",
    /// Edges do not send again what has no fate.
    StoreRepeats = "store-repeats",
    /// Nodes do not send again what has no fate.
    Timer = "timer",
    /// Sessions without a socket stay where they are.
    Lingering = "lingering",
    /// Edges forget at once what they wrote.
    Filter = "filter",
    /// Edges forget recent senders when they remember many.
    Eviction = "eviction",
    /// Any number of messages may wait for one that is absent.
    Flood = "flood",
    /// Edges keep any number of frames.
    Store = "store",
    /// Edges do not wait for `received`.
    Receipts = "receipts",
    /// Edges take any close frame for a goodbye.
    Goodbye = "goodbye",
    /// Sessions come to their next node without their places in rooms.
    Seats = "seats",
    /// The same of sessions without a socket.
    LingeringSeats = "lingering-seats",
    /// Nodes keep to themselves what has changed in a room.
    RoomChanges = "room-changes",
    /// Nodes take every incarnation of a room for the one that they know.
    RoomIncarnations = "room-incarnations",
    /// Nodes do not say again that their clients are still in their rooms.
    Refresh = "refresh",
    /// A store that has lost everything is given nothing back.
    Restore = "restore",
    /// A node without a view takes trunks and batches.
    View = "view",
}

const NEVER: Duration = Duration::from_secs(24 * 3600);

impl Mutant {
    /// By what numbers nodes live.
    pub(crate) fn rules(self) -> Rules {
        let mut rules = Rules::default();
        match self {
            Self::Takeover => rules.last_confirm = Duration::ZERO,
            Self::LastWord => rules.last_word = Duration::ZERO,
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
