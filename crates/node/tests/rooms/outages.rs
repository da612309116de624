//! The store is away, or has lost everything.

use signaling_rooms::Op;

use crate::stage::{PRESENCE, SECOND, Stage};

#[test]
fn while_the_store_is_away_joins_are_refused_and_members_stay() {
    let mut stage = Stage::new(&["n0"], 0);
    ["a", "b"].into_iter().for_each(|name| stage.comes(name, "n0"));
    stage.joins("a", "r");
    stage.store_is_away = true;
    let refused = stage.joins("b", "r");
    assert!(refused[0].contains("room_store_unavailable") && refused[0].contains(r#""retry_after_ms":1000"#));
    stage.says("b", r#"{"type":"signal","to":"a","data":1}"#);
    stage.passes(SECOND);
    assert!(stage.heard("a").iter().any(|text| text.contains("signal")), "signals flow on");
    stage.passes(PRESENCE);
    stage.store_is_away = false;
    stage.passes(PRESENCE);
    assert_eq!(stage.members("r"), ["a"]);
    assert_eq!(stage.heard("a"), [""; 0]);
}

#[test]
fn a_store_that_lost_everything_gets_it_back_with_the_order_of_the_line() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1"), ("d", "n0"), ("e", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(2 * SECOND);
    ["a", "b", "c", "d", "e"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage.store_is_emptied();
    stage.passes(PRESENCE + SECOND);
    assert_eq!(stage.members("r"), ["a", "b"]);
    for name in ["c", "d", "e"] {
        assert_eq!(stage.heard(name), [""; 0], "{name} is told nothing: nothing has changed");
    }
    for name in ["a", "b"] {
        let heard = stage.heard(name);
        let both = r#""members":[{"client_id":"a"},{"client_id":"b"}]"#;
        assert!(
            heard.len() <= 1 && heard.iter().all(|text| text.contains(both)),
            "{name} at most sees both: {heard:?}"
        );
    }
    stage.leaves("b", "r");
    stage.passes(2 * PRESENCE);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let waiting = |ahead| format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":2}}"#);
    assert_eq!(stage.heard("d").last(), Some(&waiting(0)));
    assert_eq!(stage.heard("e").last(), Some(&waiting(1)));
}

#[test]
fn a_round_of_refreshes_that_the_store_has_not_carried_out_is_not_followed_by_another() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("a", "n0");
    stage.joins("a", "r");
    stage.operations.clear();
    stage.passes(4 * PRESENCE);
    let refreshes = stage.operations.iter().filter(|op| matches!(op, Op::Refresh { .. })).count();
    assert!((4..=5).contains(&refreshes), "{refreshes}");
}
