//! Seats that operators end: their clients and the other members receive the reason.

use std::time::Duration;

use signaling_protocol::ClientId;
use signaling_rooms::Operation;
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage, token};

const REMOVED: &str = r#"{"type":"left","room":"r","reason":"removed"}"#;

fn remove(client: &str) -> Operation {
    Operation::Remove { client: ClientId::new(client).unwrap(), block: None }
}

#[test]
fn removed_member_and_the_others_receive_the_reason() {
    let mut stage = Stage::new(&["n0", "n1", "n2"], 0).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n2")]);
    for name in ["a", "b"] {
        stage.received(name);
        stage.apply("r", remove(name));
        stage.advance(SECOND);
        assert_eq!(stage.received(name), [REMOVED], "its node has no other seat");
        let news = format!(
            r#"{{"type":"members_changed","room":"r","joined":[],"left":[{{"client_id":"{name}","reason":"removed"}}]}}"#
        );
        assert_eq!(stage.received("c"), [news]);
    }
    assert!(stage.ask("a", r#"{"type":"members","room":"r"}"#)[0].contains("not_in_room"));
    assert!(stage.join("a", "r")[0].contains(r#""joined""#), "it may join again");
}

fn block(client: &str, time: Duration) -> Operation {
    Operation::Remove { client: ClientId::new(client).unwrap(), block: Some(time) }
}

#[test]
fn block_survives_the_crash_of_the_owner() {
    let (mut stage, [owner, _, other]) = Stage::ranked_nodes::<3>(0);
    stage.attach_all(&[("a", other), ("b", other)]);
    stage.join_all(&["a", "b"], "r");
    stage.apply("r", block("a", 10 * SECOND));
    stage.advance(SECOND);
    assert_eq!(stage.received("a").last().unwrap(), REMOVED);
    stage.crash(owner);
    stage.drop_from_views(owner);
    stage.advance(5 * SECOND);
    let refused = stage.join("a", "r");
    assert!(refused.len() == 1 && refused[0].contains(r#""code":"forbidden""#), "{refused:?}");
    assert!(
        refused[0].contains(r#""retry_after_ms":4"#) || refused[0].contains(r#""retry_after_ms":3"#),
        "{refused:?}"
    );
    stage.advance(4 * SECOND);
    assert!(stage.join("a", "r")[0].contains(r#""joined""#));
}

#[test]
fn seat_that_ends_while_the_backup_is_lost_is_reported() {
    let (mut stage, [_, backup, other]) = Stage::ranked_nodes::<3>(0);
    stage.enter("a", other);
    stage.isolated = Some(backup);
    stage.apply("r", remove("a"));
    stage.settle();
    assert_eq!(stage.received("a"), [""; 0], "the backup has not announced it");
    stage.advance(5 * SECOND);
    assert_eq!(stage.received("a").last().unwrap(), REMOVED);
}

#[test]
fn removed_client_of_the_queue_receives_the_reason() {
    let mut stage = Stage::new(&["n0", "n1"], 1).with_members(&[("a", "n0"), ("b", "n1")]);
    stage.apply("r", remove("b"));
    stage.advance(SECOND);
    assert_eq!(stage.received("b"), [REMOVED]);
}

#[test]
fn absent_client_gets_the_reason_after_the_owners_crash() {
    let (mut stage, [owner, _, other]) = Stage::ranked_nodes::<3>(0);
    let token = token(&stage.attach("a", other)[0]);
    stage.join("a", "r");
    stage.enter("b", other);
    stage.detach("a", DetachReason::Lost);
    stage.apply("r", remove("a"));
    stage.settle();
    stage.crash(owner);
    stage.drop_from_views(owner);
    stage.advance(5 * SECOND);
    stage.resume("a", &token);
    stage.advance(SECOND);
    assert_eq!(stage.received("a").last().unwrap(), REMOVED);
    assert_eq!(stage.members("r"), ["b"]);
}

#[test]
fn closed_room_informs_all_clients_after_a_crash() {
    let (mut stage, [owner, _, other]) = Stage::ranked_nodes::<3>(2);
    stage.attach_all(&[("a", other), ("b", other), ("c", other)]);
    stage.join_all(&["a", "b", "c"], "r");
    stage.apply("r", Operation::Close { time: None });
    stage.advance(2 * SECOND);
    for name in ["a", "b", "c"] {
        assert_eq!(stage.received(name).last().unwrap(), r#"{"type":"left","room":"r","reason":"closed"}"#, "{name}");
    }
    stage.crash(owner);
    stage.drop_from_views(owner);
    stage.advance(5 * SECOND);
    let refused = stage.join("a", "r");
    assert!(refused.len() == 1 && refused[0].contains(r#""code":"forbidden""#), "{refused:?}");
    assert!(!refused[0].contains("retry_after_ms"), "{refused:?}");
    stage.apply("r", Operation::Open);
    assert!(stage.join("a", "r")[0].contains(r#""joined""#));
}
