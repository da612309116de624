//! What is kept for whom, and how much.

use crate::clients::unavailable;
use crate::mesh::{Mesh, named};

#[test]
fn a_flood_to_an_absent_client_elsewhere_is_refused_at_once_and_stops_nothing_else() {
    let mut mesh = Mesh::new(&["a", "b"], &["e"]);
    let (bob_id, carol_id) = (named("bob", &["b", "a"]), named("carol", &["b", "a"]));
    let anna = mesh.connects("anna", "e", "a");
    (1..=64).for_each(|number| mesh.sends(anna, &bob_id, number));
    assert!(mesh.got(anna).is_empty());
    mesh.sends(anna, &bob_id, 65);
    assert_eq!(mesh.got(anna), [unavailable(65)]);
    let carol = mesh.connects(&carol_id, "e", "b");
    mesh.sends(anna, &carol_id, 66);
    assert_eq!((mesh.got(carol), mesh.got(anna)), (vec!["anna 66".to_owned()], vec!["ack 66".to_owned()]));
    let bob = mesh.connects(&bob_id, "e", "b");
    assert_eq!(mesh.got(bob).len(), 64, "the one that was refused has no copy");
}
