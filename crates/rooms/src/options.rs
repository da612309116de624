//! Options of rooms. They follow from the code that a reserved name begins with, so they need no
//! state, and all nodes agree on them.

use signaling_protocol::RoomName;

/// Messages about members that the members of a room receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoomEvents {
    /// The list at the join, and then changes, at most every 0.2 s.
    #[default]
    Usual,
    /// As usual, but each change at once.
    Prompt,
    /// Neither the list nor changes.
    None,
}

/// Options of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoomOptions {
    /// Messages about members.
    pub events: RoomEvents,
    /// `true` if other clients may broadcast to the room and list its members.
    pub open: bool,
}

impl RoomOptions {
    /// Returns the options of a room.
    #[must_use]
    pub fn of(room: &RoomName) -> Self {
        match room.as_str().get(..4) {
            Some("~pj:" | "~yw:" | "~tr:") => Self { events: RoomEvents::None, open: true },
            Some("~rx:") => Self { events: RoomEvents::Prompt, open: false },
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_rooms_of_dialects_have_options() {
        let of = |name: &str| RoomOptions::of(&RoomName::new(name).unwrap());
        for name in ["r", "yw:a", "~yw", "~ywa:", "a~yw:", "~rxa"] {
            assert_eq!(of(name), RoomOptions::default(), "{name}");
        }
        for name in ["~pj:key", "~yw:topic", "~tr:"] {
            assert_eq!(of(name), RoomOptions { events: RoomEvents::None, open: true }, "{name}");
        }
        assert_eq!(of("~rx:room-1"), RoomOptions { events: RoomEvents::Prompt, open: false });
    }
}
