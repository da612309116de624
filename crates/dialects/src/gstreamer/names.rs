//! Names of `GStreamer`'s peers in the mesh, and the texts and ids of peers and sessions.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{Dialect, name};

/// Parses an id as the server writes it: lower case, with hyphens. `None`: the text is none.
pub(super) fn parse(text: &str) -> Option<Uuid> {
    Uuid::parse_str(text).ok().filter(|id| id.to_string() == text)
}

/// Returns the id of the session with this number, which others cannot guess without the secret.
pub(super) fn session(secret: [u8; 16], number: u64) -> Uuid {
    let hash = Sha256::new().chain_update(secret).chain_update(number.to_be_bytes());
    name::random_uuid(&hash.finalize().into())
}

/// Returns the name of a peer.
pub(super) fn of_peer(id: Uuid) -> String {
    name::internal(Dialect::GStreamer, &[&id.to_string()])
}

/// Returns the peer with this name. `None`: the name is no `GStreamer` client's.
pub(super) fn peer(client_id: &str) -> Option<Uuid> {
    match &*name::parts(Dialect::GStreamer, client_id)? {
        [id] => parse(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_its_name() {
        let id = name::random_uuid(&[255; 32]);
        assert_eq!(of_peer(id), "~gs:ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(peer(&of_peer(id)), Some(id));
        assert_eq!(peer("~rx:ffffffff-ffff-4fff-bfff-ffffffffffff"), None);
    }

    #[test]
    fn id_has_one_text() {
        for text in ["", "nope", "FFFFFFFF-ffff-4fff-bfff-ffffffffffff", "ffffffffffff4fffbfffffffffffffff"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn session_ids_differ_by_number_and_secret() {
        let of = |secret, number| session([secret; 16], number);
        assert!(of(0, 0) == of(0, 0) && of(0, 0) != of(0, 1) && of(0, 0) != of(1, 0));
    }
}
