//! Names of matchbox rooms in the mesh, for `http` and `members`.

use signaling_protocol::ids::MAX_NAME;

use crate::{Dialect, name};

/// Length of a UUID in a name.
const UUID_BYTES: usize = 36;

/// Rooms of a path.
#[derive(Debug)]
pub(super) enum Rooms {
    /// One room for all clients.
    Single(String),
    /// Groups of `size` clients, which find each other in a queue room. The room of a group begins
    /// with `of_groups`, and ends with the id of the client that founded it.
    Groups { queue: String, of_groups: String, size: u32 },
}

impl Rooms {
    /// Returns a decoded path's rooms, with groups of this size, at least 1. `None`: no groups.
    pub(super) fn new(path: &str, size: Option<u32>) -> Self {
        let Some(size) = size else { return Self::Single(name::internal(Dialect::Matchbox, &[path])) };
        let of_groups = name::room_prefix(Dialect::Matchbox, &format!("{size}s"));
        let rest = of_groups.len() + ":".len() + UUID_BYTES;
        let path = name::part(path, MAX_NAME.saturating_sub(rest));
        let queue = format!("{}{path}:{size}", name::room_prefix(Dialect::Matchbox, ""));
        Self::Groups { queue, of_groups: format!("{of_groups}{path}:"), size }
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::ids::check_name;

    use super::*;

    /// Returns the queue, and the room of a group.
    fn names(path: &str, size: u32) -> (String, String) {
        match Rooms::new(path, Some(size)) {
            Rooms::Groups { queue, of_groups, .. } => (queue, format!("{of_groups}{}", name::random_uuid(&[0; 32]))),
            Rooms::Single(room) => panic!("{room}"),
        }
    }

    #[test]
    fn room_names_have_path_size_and_founder() {
        let Rooms::Single(single) = Rooms::new("a b", None) else { panic!() };
        assert_eq!(single, "~mb:a~20b");
        let group = "~mb.2s:a~20b:00000000-0000-4000-8000-000000000000";
        assert_eq!(names("a b", 2), ("~mb:a~20b:2".to_owned(), group.to_owned()));
    }

    #[test]
    fn only_the_path_of_a_long_name_is_hashed() {
        for size in [2, 10, u32::MAX] {
            let fits = 128 - format!("~mb.{size}s::").len() - UUID_BYTES;
            for (length, is_hashed) in [(fits, false), (fits + 1, true), (5000, true)] {
                let (queue, group) = names(&"p".repeat(length), size);
                assert_eq!((queue.starts_with("~mb:~h"), group.contains(":~h")), (is_hashed, is_hashed), "{queue}");
                assert!(queue.ends_with(&format!(":{size}")) && check_name(&group).is_ok(), "{group}");
            }
        }
        assert_ne!(names(&"p".repeat(200), 2), names(&"p".repeat(201), 2));
    }
}
