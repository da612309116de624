//! Options of rooms. The name of a reserved room spells them, so they need no state, and all nodes
//! agree on them.

use signaling_protocol::RoomName;
use signaling_protocol::ids::is_reserved;

/// Messages about members that the members of a room receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoomEvents {
    /// The list at the join, and then changes, in one message at most every 0.2 s.
    #[default]
    Usual,
    /// As usual, but each change at once.
    Prompt,
    /// Neither the list nor changes.
    None,
}

/// Options of a room. A name that is not reserved has the default: usual events, not open. One of a
/// dialect has [`Self::PROMPT`], changed by the letters behind a dot and before the first colon, as
/// in `~yw.q:TOPIC` and `~mb.2s:PATH:ID`:
///
/// | letters | option |
/// |---|---|
/// | `q` | quiet: no messages about members, and open |
/// | `o` | open |
/// | `n` | named |
/// | `s` | seals |
/// | digits | capacity |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoomOptions {
    /// Messages about members.
    pub events: RoomEvents,
    /// `true` if clients outside may broadcast to it and list members, as far as tokens admit them.
    pub open: bool,
    /// Maximum members of a room with a reserved name; a further client is refused. `None` or 0: no
    /// limit. Other rooms have the capacity of [`Rules`](crate::Rules).
    pub capacity: Option<u32>,
    /// `true` if the room admits no client any more once it has been full.
    pub seals: bool,
    /// `true` if a token admits its client only by a pattern: one for all rooms does not suffice.
    pub named: bool,
}

impl RoomOptions {
    /// Each change at once.
    pub const PROMPT: Self =
        Self { events: RoomEvents::Prompt, open: false, capacity: None, seals: false, named: false };

    /// Returns the options of a room. Other letters have no effect.
    pub fn of(room: &RoomName) -> Self {
        if !is_reserved(room.as_str()) {
            return Self::default();
        }
        let head = room.as_str().split(':').next().unwrap_or_default();
        let letters = head.split_once('.').map_or("", |(_, letters)| letters);
        letters.chars().fold(Self::PROMPT, |options, letter| match letter {
            'q' => Self { events: RoomEvents::None, open: true, ..options },
            'o' => Self { open: true, ..options },
            'n' => Self { named: true, ..options },
            's' => Self { seals: true, ..options },
            _ => match letter.to_digit(10) {
                Some(digit) => {
                    let tens = options.capacity.unwrap_or_default().saturating_mul(10);
                    Self { capacity: Some(tens.saturating_add(digit)), ..options }
                }
                None => options,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dialects_spell_options() {
        let of = |name: &str| RoomOptions::of(&RoomName::new(name).unwrap());
        for name in ["r", "yw.q:a", "a~yw.q:"] {
            assert_eq!(of(name), RoomOptions::default(), "{name}");
        }
        for name in ["~rx:room-1", "~rx", "~gs:path.q:2", "~mb.:path", "~mb.x:path"] {
            assert_eq!(of(name), RoomOptions::PROMPT, "{name}");
        }
        let quiet = RoomOptions { events: RoomEvents::None, open: true, ..RoomOptions::PROMPT };
        assert_eq!((of("~yw.q:topic"), of("~ps.q:list")), (quiet, quiet));
        assert_eq!(of("~mb.12s:path:id"), RoomOptions { capacity: Some(12), seals: true, ..RoomOptions::PROMPT });
        assert_eq!(of("~mb.99999999999:"), RoomOptions { capacity: Some(u32::MAX), ..RoomOptions::PROMPT });
        assert_eq!(
            of("~ps.1on:s:a"),
            RoomOptions { capacity: Some(1), open: true, named: true, ..RoomOptions::PROMPT }
        );
    }
}
