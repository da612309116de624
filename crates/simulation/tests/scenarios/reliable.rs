//! Reliable clients.

use signaling_protocol::CloseCode;

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn unreceived_message_closes_the_client_and_comes_again() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let anna = mesh.connects("anna", "e", "a");
    let silent = mesh.connects_reliably("bob", "f", "a");
    mesh.sends(anna, "bob", 1);
    assert_eq!(mesh.got(silent), ["anna 1"]);
    mesh.pass(4 * SECOND);
    assert_eq!(mesh.clients[silent].closed, None);
    mesh.pass(2 * SECOND);
    assert_eq!(mesh.clients[silent].closed, Some(4002));
    assert!(mesh.got(anna).is_empty(), "written is not received");
    let back = mesh.goes_on("bob", silent, "f", "a");
    assert_eq!(mesh.got(back), ["anna 1"]);
    assert_eq!(mesh.clients[back].names, mesh.clients[silent].names);
    mesh.says_received(back, 1);
    assert_eq!(mesh.got(anna), ["ack 1"]);
}

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
