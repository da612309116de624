//! Names of matchbox rooms in the mesh, for `http` and `members`.

use signaling_protocol::ids::MAX_NAME;

use crate::{Dialect, name};
use uuid::Uuid;

/// Length of a UUID in a name.
const UUID_BYTES: usize = 36;

/// Rooms of a path.
#[derive(Debug)]
pub(super) enum Rooms {
    /// One room for all clients.
    Single(String),
    /// Groups of `size` clients, which find each other in a queue room.
    Groups { queue: String, size: u32 },
}

impl Rooms {
    /// Returns a decoded path's rooms, with groups of this size, at least 1. `None`: no groups.
    pub(super) fn new(path: &str, size: Option<u32>) -> Self {
        let Some(size) = size else { return Self::Single(name::internal(Dialect::Matchbox, &[path])) };
        // The mesh reads the size in the names, so only the path may be hashed.
        let rest = format!("~{}:", Dialect::Matchbox.code()).len() + format!(":{size}:").len() + UUID_BYTES;
        let path = name::part(path, MAX_NAME.saturating_sub(rest));
        Self::Groups { queue: format!("~{}:{path}:{size}", Dialect::Matchbox.code()), size }
    }
}

/// Returns the room of a group, which has the id of the client that founded it.
pub(super) fn of_group(queue: &str, founder: Uuid) -> String {
    format!("{queue}:{founder}")
}

#[cfg(test)]
mod tests {
    use signaling_protocol::ids::check_name;

    use super::*;

    fn queue(path: &str, size: u32) -> String {
        match Rooms::new(path, Some(size)) {
            Rooms::Groups { queue, .. } => queue,
            Rooms::Single(room) => panic!("{room}"),
        }
    }

    #[test]
    fn room_names_have_path_size_and_founder() {
        let Rooms::Single(single) = Rooms::new("a b", None) else { panic!() };
        assert_eq!((&*single, &*queue("a b", 2)), ("~mb:a~20b", "~mb:a~20b:2"));
        let founder = name::random_uuid(&[0; 32]);
        assert_eq!(of_group("~mb::3", founder), "~mb::3:00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn only_the_path_of_a_long_name_is_hashed() {
        for size in [2, 10, u32::MAX] {
            let fits = 128 - "~mb:".len() - format!(":{size}:").len() - UUID_BYTES;
            let founder = name::random_uuid(&[255; 32]);
            for (length, is_hashed) in [(fits, false), (fits + 1, true), (5000, true)] {
                let queue = queue(&"p".repeat(length), size);
                let group = of_group(&queue, founder);
                assert_eq!(queue.starts_with("~mb:~h"), is_hashed, "{queue}");
                assert!(queue.ends_with(&format!(":{size}")) && check_name(&group).is_ok(), "{group}");
            }
        }
        assert_ne!(queue(&"p".repeat(200), 2), queue(&"p".repeat(201), 2));
    }
}
