//! Names of `GStreamer`'s peers in the mesh, and ids of sessions.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{Dialect, name};

/// Returns the id of the session with this number, which others cannot guess without the secret.
pub(super) fn session(secret: [u8; 16], number: u64) -> Uuid {
    let hash = Sha256::new().chain_update(secret).chain_update(number.to_be_bytes());
    name::random_uuid(&hash.finalize().into())
}

/// Returns the name of a peer.
pub(super) fn of_peer(id: Uuid) -> String {
    name::of_uuid(Dialect::GStreamer, id)
}

/// Returns the peer with this name. `None`: the name is no `GStreamer` client's.
pub(super) fn peer(client_id: &str) -> Option<Uuid> {
    name::uuid(Dialect::GStreamer, client_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_differ_by_number_and_secret() {
        let of = |secret, number| session([secret; 16], number);
        assert!(of(0, 0) == of(0, 0) && of(0, 0) != of(0, 1) && of(0, 0) != of(1, 0));
    }
}
