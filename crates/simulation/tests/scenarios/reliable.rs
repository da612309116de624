//! Reliable clients.

use signaling_protocol::CloseCode;

use crate::clients::SECOND;
use crate::mesh::Mesh;

/// A network stalls for 16.5 s. The sender leaves its socket after 15 s, by a close frame.
#[test]
fn message_comes_once_when_its_sender_left_a_stalled_socket() {
    for code in [None, Some(CloseCode::GOING_AWAY), Some(CloseCode::SOCKET_LEFT)] {
        let mut mesh = Mesh::new(&["a"], &["e", "f"]);
        let anna = mesh.connects_reliably("anna", "e", "a");
        let bob = mesh.connects_reliably("bob", "f", "a");
        mesh.pass(15 * SECOND);
        mesh.sends(anna, "bob", 1);
        mesh.closes(anna, code);
        let back = mesh.resumes("anna", anna, "e", "a");
        assert!(mesh.is_resumed(back), "{code:?}");
        mesh.sends(back, "bob", 1);
        assert_eq!(mesh.got(bob), ["anna 1"], "{code:?}");
        mesh.says_received(bob, 1);
        assert_eq!(mesh.got(back), ["ack 1"], "{code:?}");
    }
}
