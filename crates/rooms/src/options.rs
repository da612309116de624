//! Options of rooms. They follow from the code that a reserved name begins with, so they need no
//! state, and all nodes agree on them. `rules` reads them.

use signaling_protocol::RoomName;

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

/// Options of a room. A name that is not reserved has the default: usual events, not open.
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
    /// No messages about members, and open.
    pub const QUIET: Self = Self { events: RoomEvents::None, open: true, capacity: None, seals: false, named: false };
    /// Each change at once.
    pub const PROMPT: Self =
        Self { events: RoomEvents::Prompt, open: false, capacity: None, seals: false, named: false };

    /// Returns the options of a room. An unknown code yields the default.
    pub fn of(room: &RoomName) -> Self {
        match room.as_str().get(..4) {
            Some("~pj:" | "~yw:" | "~tr:") => Self::QUIET,
            Some("~rx:" | "~gs:") => Self::PROMPT,
            Some("~mb:") => Self::of_matchbox(room.as_str()),
            Some("~ps:") if room.as_str() == "~ps:list" => Self::QUIET,
            // A streamer's name: the seat of one streamer. A viewer's token is no streamer's.
            Some("~ps:") if room.as_str().starts_with("~ps:s:") => {
                Self { open: true, capacity: Some(1), named: true, ..Self::PROMPT }
            }
            Some("~ps:") => Self::PROMPT,
            _ => Self::default(),
        }
    }

    /// A group of N clients is `~mb:PATH:N:ID`.
    fn of_matchbox(room: &str) -> Self {
        let mut parts = room.split(':').skip(2);
        match (parts.next().map(str::parse), parts.next()) {
            (Some(Ok(size)), Some(_)) => Self { capacity: Some(size), seals: true, ..Self::PROMPT },
            _ => Self::PROMPT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rooms_of_dialects_have_options() {
        let of = |name: &str| RoomOptions::of(&RoomName::new(name).unwrap());
        for name in ["r", "yw:a", "~yw", "~ywa:", "a~yw:", "~rxa"] {
            assert_eq!(of(name), RoomOptions::default(), "{name}");
        }
        for name in ["~pj:key", "~yw:topic", "~tr:", "~ps:list"] {
            assert_eq!(of(name), RoomOptions::QUIET, "{name}");
        }
        for name in ["~rx:room-1", "~gs:path", "~mb:path", "~mb:path:2", "~mb:path:x:id", "~ps:sub:a", "~ps:lists"] {
            assert_eq!(of(name), RoomOptions::PROMPT, "{name}");
        }
        assert_eq!(of("~mb:path:2:id"), RoomOptions { capacity: Some(2), seals: true, ..RoomOptions::PROMPT });
        assert_eq!(of("~ps:s:a"), RoomOptions { capacity: Some(1), open: true, named: true, ..RoomOptions::PROMPT });
    }
}
