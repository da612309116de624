//! Limits of the kept state.

use crate::clients::{SECOND, unavailable};
use crate::mesh::{Mesh, named};

#[test]
fn flood_to_an_absent_client_is_refused_and_stops_nothing_else() {
    let mut mesh = Mesh::new(&["a", "b"], &["e"]);
    let (bob_id, carol_id) = (named("bob", &["b", "a"]), named("carol", &["b", "a"]));
    let anna = mesh.connects("anna", "e", "a");
    (1..=64).for_each(|number| mesh.sends(anna, &bob_id, number));
    assert!(mesh.got(anna).is_empty());
    mesh.sends(anna, &bob_id, 65);
    assert_eq!(mesh.got(anna), [unavailable(65)]);
    let carol = mesh.connects(&carol_id, "e", "b");
    mesh.delivers(anna, &carol_id, carol, 66);
    let bob = mesh.connects(&bob_id, "e", "b");
    assert_eq!(mesh.got(bob).len(), 64, "the one that was refused has no copy");
}

#[test]
fn recipient_of_1200_senders_gets_the_first_ones_once() {
    let mut mesh = Mesh::new(&["a", "b"], &["e", "f", "g"]);
    let bob_id = named("bob", &["a", "b"]);
    let bob = mesh.connects(&bob_id, "f", "a");
    let first: Vec<_> = (0..5).map(|n| mesh.connects(&format!("first-{n}"), "e", "a")).collect();
    mesh.hold_back("a", "e");
    first.iter().for_each(|sender| mesh.sends(*sender, &bob_id, 1));
    assert_eq!(mesh.got(bob).len(), 5);
    for n in 0..1_200 {
        let sender = mesh.connects(&format!("sender-{n}"), "g", "b");
        mesh.sends(sender, &bob_id, 1);
        assert_eq!(mesh.got(sender), ["ack 1"]);
    }
    assert_eq!(mesh.got(bob).len(), 1_200);
    [&first[..], &[bob]].concat().iter().for_each(|client| mesh.goes_next_to(*client, "b"));
    mesh.is_killed("a");
    mesh.pass(3 * SECOND);
    assert!(mesh.got(bob).is_empty(), "each of them was written");
    first.iter().for_each(|sender| assert_eq!(mesh.got(*sender), ["ack 1"]));
}
