//! Clients that take part in custody.

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn who_never_says_received_is_closed_and_gets_the_message_again_under_its_name() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let anna = mesh.connects("anna", "e", "a");
    let silent = mesh.connects_reliably("bob", "f", "a");
    mesh.sends(anna, "bob", 1);
    assert_eq!(mesh.got(silent), ["anna 1"]);
    mesh.pass(4 * SECOND);
    assert_eq!(mesh.closed(silent), None);
    mesh.pass(2 * SECOND);
    assert_eq!(mesh.closed(silent), Some(4002));
    assert!(mesh.got(anna).is_empty(), "written is not received");
    let back = mesh.resumes("bob", silent, "f", "a");
    assert!(mesh.is_resumed(back));
    assert_eq!(mesh.got(back), ["anna 1"]);
    assert_eq!(mesh.names(back), mesh.names(silent));
    mesh.says_received(back, 1);
    assert_eq!(mesh.got(anna), ["ack 1"]);
}
