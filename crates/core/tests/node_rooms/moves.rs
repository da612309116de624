//! Members that move or resume, and members whose node fails.

use signaling_rooms::Op;
use signaling_wire::trunk::DetachReason;

use crate::stage::{PRESENCE, SECOND, Stage, token};

fn room_of_two() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for name in ["a", "b"] {
        stage.comes(name, "n0");
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    ["a", "b"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage
}

#[test]
fn a_member_that_moves_is_shown_neither_leaving_nor_joining_and_hears_what_happens_next() {
    let mut stage = room_of_two();
    stage.moves("b", "n1");
    stage.passes(3 * PRESENCE);
    assert_eq!((stage.heard("a"), stage.heard("b")), (Vec::new(), Vec::new()));
    stage.comes("c", "n0");
    stage.joins("c", "r");
    stage.passes(SECOND);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"c"}],"left":[]}"#;
    assert_eq!((stage.heard("a"), stage.heard("b")), (vec![news.to_owned()], vec![news.to_owned()]));
}

#[test]
fn a_member_whose_node_dies_stays_and_a_command_that_is_repeated_elsewhere_raises_no_event() {
    let mut stage = room_of_two();
    stage.moves("b", "n1");
    stage.says("b", r#"{"type":"join","room":"r","data":1,"id":9}"#);
    stage.settle();
    stage.passes(SECOND);
    assert_eq!(stage.heard("a").len(), 1);
    stage.heard("b");
    stage.dies("n1");
    stage.appears("b", "n0");
    stage.repeats("b", r#"{"type":"join","room":"r","data":1,"id":9}"#);
    stage.settle();
    let heard = stage.heard("b");
    assert!(heard.contains(&r#"{"type":"ack","id":9}"#.to_owned()), "{heard:?}");
    stage.passes(3 * PRESENCE);
    assert_eq!(stage.heard("a"), [""; 0]);
    assert_eq!(stage.members("r"), ["a", "b"]);
}

#[test]
fn who_comes_back_within_its_time_has_its_seats_and_is_told_how_things_stand() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("b", "n0");
    stage.joins("b", "r");
    let token = token(&stage.comes_and_hears("c", "n0")[0]);
    stage.joins("c", "r");
    stage.passes(SECOND);
    stage.heard("b");
    stage.goes("c", DetachReason::Lost);
    stage.passes(10 * SECOND);
    stage.comes("d", "n0");
    stage.joins("d", "r");
    stage.resumes("c", &token);
    stage.passes(SECOND);
    let members = r#""members":[{"client_id":"b"},{"client_id":"c"},{"client_id":"d"}]"#;
    let heard = stage.heard("c");
    assert!(heard.iter().any(|text| text.contains(r#""type":"joined""#) && text.contains(members)), "{heard:?}");
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"d"}],"left":[]}"#;
    assert_eq!(stage.heard("b"), [news]);
}

#[test]
fn a_seat_without_a_socket_is_kept_alive_by_whoever_owns_its_client_until_it_is_given_up() {
    let mut stage = room_of_two();
    stage.goes("b", DetachReason::Lost);
    stage.passes(31 * SECOND);
    let gone = r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"b","reason":"expired"}]}"#;
    assert_eq!(stage.heard("a"), [gone]);
    let drops = stage.operations.iter().filter(|op| matches!(op, Op::Drop { .. })).count();
    assert!(drops >= 1, "{drops}");
}

#[test]
fn changes_that_never_came_are_made_up_for_by_the_whole_state() {
    let mut stage = room_of_two();
    stage.moves("b", "n1");
    stage.passes(SECOND);
    stage.is_cut = true;
    stage.comes("c", "n0");
    stage.joins("c", "r");
    stage.passes(SECOND);
    stage.is_cut = false;
    assert_eq!(stage.heard("b"), [""; 0]);
    stage.passes(PRESENCE + 3 * SECOND);
    let heard = stage.heard("b");
    let [joined] = &heard[..] else { panic!("{heard:?}") };
    assert!(joined.contains(r#""count":3"#), "{joined}");
    assert_eq!(stage.heard("a").len(), 1);
}

#[test]
fn who_has_lost_its_place_while_it_was_away_is_told_when_it_is_back() {
    let mut stage = room_of_two();
    let token = token(&stage.comes_and_hears("c", "n0")[0]);
    stage.joins("c", "r");
    stage.goes("c", DetachReason::Lost);
    stage.is_given_up("c", "r");
    stage.passes(PRESENCE + SECOND);
    stage.heard("c");
    stage.resumes("c", &token);
    stage.passes(SECOND);
    let left = r#"{"type":"left","room":"r","reason":"expired"}"#;
    assert_eq!(stage.heard("c").last().unwrap(), left);
    assert_eq!(stage.state("c"), b"resumed");
}

#[test]
fn what_a_former_socket_has_asked_the_present_one_hears() {
    let mut stage = room_of_two();
    let token = token(&stage.comes_and_hears("c", "n0")[0]);
    stage.joins("c", "r");
    stage.says("c", r#"{"type":"leave","room":"r","id":9}"#);
    stage.resumes("c", &token);
    stage.passes(SECOND);
    let left = r#"{"type":"left","room":"r","reason":"left"}"#;
    assert_eq!(stage.heard("c").last().unwrap(), left);
    assert_eq!(stage.members("r"), ["a", "b"]);
}

#[test]
fn who_resumes_where_an_old_copy_of_its_session_was_left_has_the_later_seats_too() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for name in ["a", "b", "c", "d"] {
        let token = token(&stage.comes_and_hears(name, "n0")[0]);
        stage.joins(name, "old");
        stage.goes(name, DetachReason::Lost);
        stage.resumes_at("n1", name, &token);
        stage.joins(name, "new");
        stage.goes(name, DetachReason::Lost);
        stage.resumes_at("n0", name, &token);
        stage.passes(SECOND);
        let heard = stage.heard(name);
        assert!(heard.iter().any(|text| text.starts_with(r#"{"type":"joined","room":"new""#)), "{heard:?}");
        stage.passes(3 * PRESENCE);
        assert_eq!((stage.heard(name), stage.members("new")), (Vec::new(), vec![name.to_owned()]));
        stage.leaves(name, "new");
    }
}
