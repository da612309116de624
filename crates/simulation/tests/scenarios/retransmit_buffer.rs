//! The sender's edge: its retransmit buffer frees each message with its own outcome.

use crate::clients::SECOND;
use crate::mesh::{HOLD, Mesh};

#[test]
fn unread_client_gets_pongs_when_its_buffer_is_full() {
    let mut mesh = Mesh::new(&["a"], &["e"]);
    let anna = mesh.connects("anna", "e", "a");
    (1..=256).for_each(|number| mesh.sends(anna, &format!("absent-{}", number % 8), number));
    assert!(!mesh.is_read(anna));
    mesh.pings(anna);
    assert!(mesh.got(anna).is_empty());
    for _ in 0..3 {
        mesh.pass(5 * SECOND + SECOND / 2);
        assert_eq!(mesh.got(anna), ["pong"]);
    }
    mesh.pass(HOLD);
    assert!(mesh.is_read(anna));
    assert_eq!(mesh.clients[anna].closed, None);
    let got = mesh.got(anna);
    assert_eq!(got.iter().filter(|got| **got != "pong").count(), 256);
    mesh.pings(anna);
    assert_eq!(mesh.got(anna), ["pong"]);
}

#[test]
fn last_message_of_a_client_finds_its_way_by_another_node() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["b", "a"], "a");
    mesh.hold_back("e", "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.closes_normally(anna);
    mesh.goes_next_to(anna, "b");
    mesh.trunk_is_lost("e", "a");
    mesh.pass(SECOND);
    let back = mesh.connects("anna", "f", "b");
    assert!(!mesh.is_resumed(back), "its id is free");
    let bob = mesh.connects(&bob_id, "f", "b");
    assert_eq!(mesh.got(bob), ["anna 1"]);
    assert!(mesh.edges["e"].is_empty());
}
