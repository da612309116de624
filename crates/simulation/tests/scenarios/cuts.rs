//! Nodes that reach each other in one direction only, or only through others.

use std::time::Duration;

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn message_and_outcome_pass_a_node_that_reaches_the_owner() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["b", "a", "c"], "a", "b");
    mesh.cut("a", "b");
    mesh.cut("b", "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(3 * SECOND);
    assert_eq!(mesh.got(bob), ["anna 1"]);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert_eq!(mesh.held_at("a"), 0, "the copy that stayed is not needed any more");
}

#[test]
fn outcomes_come_in_answers_when_a_node_cannot_connect() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["b", "a"], "a", "b");
    mesh.hold_back("b", "a");
    (1..=3).for_each(|number| mesh.sends(anna, &bob_id, number));
    assert_eq!(mesh.got(bob), ["anna 1", "anna 2", "anna 3"]);
    mesh.pass(Duration::from_millis(600));
    let soon = mesh.got(anna);
    assert!(soon.contains(&"ack 2".to_owned()), "{soon:?}");
    mesh.pass(2 * SECOND);
    let all = [soon, mesh.got(anna)].concat();
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.contains(&"ack 1".to_owned()), "{all:?}");
}
