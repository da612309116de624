//! Reserved names, which only clients of a dialect may use.

use crate::stage::Stage;

const DIALECT_CLIENT: &str = "~pj:k:a";

fn refused(field: &str, name: &str) -> String {
    let message = "names that begin with `~` are reserved";
    format!(r#"{{"type":"error","code":"forbidden","message":"{message}","id":7,"{field}":"{name}"}}"#)
}

fn signal(to: &str) -> String {
    format!(r#"{{"type":"signal","to":"{to}","data":1,"id":7}}"#)
}

#[test]
fn native_client_is_refused_when_it_names_a_reserved_name() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach_all(&[("a", "n0"), (DIALECT_CLIENT, "n0")]);
    stage.join(DIALECT_CLIENT, "~pj.q:k");
    stage.received(DIALECT_CLIENT);
    assert_eq!(stage.join("a", "~pj.q:k"), [refused("room", "~pj.q:k")]);
    assert_eq!(
        stage.ask("a", r#"{"type":"broadcast","room":"~pj.q:k","data":1,"id":7}"#),
        [refused("room", "~pj.q:k")]
    );
    assert_eq!(stage.ask("a", &signal(DIALECT_CLIENT)), [refused("to", DIALECT_CLIENT)]);
    assert_eq!(stage.received(DIALECT_CLIENT), [""; 0]);
}

#[test]
fn client_of_a_dialect_may_use_reserved_names() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach_all(&[("~pj:k:b", "n0"), (DIALECT_CLIENT, "n0")]);
    assert_eq!(stage.join("~pj:k:b", "~pj.q:k"), [r#"{"type":"ack","id":7}"#]);
    stage.say("~pj:k:b", &signal(DIALECT_CLIENT));
    let signal = r#"{"type":"signal","from":"~pj:k:b","data":1,"id":7}"#;
    assert_eq!(stage.received(DIALECT_CLIENT), [signal]);
}
