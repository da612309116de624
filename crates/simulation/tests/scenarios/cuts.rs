//! Nodes that reach each other in one direction only, or only through others.

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
