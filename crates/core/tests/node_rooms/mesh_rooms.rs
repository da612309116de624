//! Rooms that nodes own, when their owner fails.

use signaling_core::node::RoomSettings;
use signaling_rooms::Rules;

use crate::stage::{SECOND, Stage};

/// Returns three nodes with rooms for two, and the ranking of the nodes for the room `r`.
fn stage() -> (Stage, [&'static str; 3]) {
    let mesh = Some(Rules { claimed: true, capacity: Some(2), ..Rules::default() });
    let stage = Stage::with(&["n0", "n1", "n2"], 2, RoomSettings { mesh, ..RoomSettings::default() });
    let ranked = stage.ranked("r").try_into().unwrap();
    (stage, ranked)
}

fn joined(received: &[String]) -> bool {
    received.iter().any(|text| text.contains(r#""type":"joined""#))
}

#[test]
fn room_keeps_members_and_capacity_when_its_owner_crashes() {
    let (stage, [owner, backup, third]) = stage();
    let mut stage = stage.with_members(&[("a", third)]);
    stage.crash(owner);
    stage.drop_from_views(owner);
    stage.advance(SECOND);
    assert_eq!(stage.received("a"), [""; 0]);
    stage.attach_all(&[("b", backup), ("c", backup)]);
    assert!(joined(&stage.join("b", "r")));
    let waits = stage.join("c", "r");
    assert!(waits[0].contains(r#""type":"waiting""#), "{waits:?}");
    stage.advance(SECOND);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"b"}],"left":[]}"#;
    assert_eq!(stage.received("a"), [news]);
}

#[test]
fn join_waits_while_its_owner_is_cut_off_from_the_backup() {
    let (stage, [owner, backup, third]) = stage();
    let mut stage = stage.with_members(&[("a", owner)]);
    stage.isolated = Some(backup);
    stage.attach("b", third);
    assert_eq!(stage.join("b", "r"), [""; 0]);
    stage.advance(4 * SECOND);
    let received = stage.received("b");
    assert!(joined(&received) || received[0].contains("room_store_unavailable"), "{received:?}");
    stage.received("b");
    assert!(joined(&stage.join("b", "r")), "the third node is the backup now");
}
