//! The waiting queue of a full room.

use std::time::Duration;

use proptest::prelude::*;
use signaling_rooms::{Op, Rules, SeatStatus};

use crate::people::{House, STALE, ahead, is_member, on_both, rules, told};

#[tokio::test]
async fn a_full_room_has_a_line_and_the_first_in_it_gets_what_becomes_free() {
    on_both(rules(1), async |mut house| {
        house.join("alice").await;
        assert_eq!(ahead(&house.join("bob").await), 0);
        assert_eq!(ahead(&house.join("carol").await), 1);
        assert_eq!(ahead(&house.join("carol").await), 1, "joining again does not cost the place");

        let left = house.leave("alice").await;

        assert_eq!((told(&left), left.line_moved, left.waiting), (vec!["-alice".into(), "+bob".into()], true, 1));
        assert_eq!(ahead(&house.refresh(&["carol"]).await), 0);
        assert_eq!(ahead(&house.join("alice").await), 1);
    })
    .await;
}

#[tokio::test]
async fn leaving_the_line_loses_the_place() {
    on_both(rules(1), async |mut house| {
        for name in ["alice", "bob", "carol"] {
            house.join(name).await;
        }
        let left = house.leave("bob").await;
        assert_eq!((told(&left).len(), left.line_moved, left.standings), (0, true, vec![SeatStatus::Out]));
        assert_eq!(ahead(&house.join("bob").await), 1);
    })
    .await;
}

#[tokio::test]
async fn a_line_may_have_an_end_and_who_comes_to_a_full_one_stays_out_until_it_moves() {
    let rules = Rules { line: Some(1), ..rules(1) };
    on_both(rules, async |mut house| {
        house.join("alice").await;
        assert_eq!(ahead(&house.join("bob").await), 0);
        let late = house.join("carol").await;
        assert_eq!((late.standings, late.waiting, late.nodes.len()), (vec![SeatStatus::Unknown], 1, 0));
        assert_eq!(ahead(&house.join("bob").await), 0, "who waits already is not in question");
        house.leave("bob").await;
        assert_eq!(ahead(&house.join("carol").await), 0);
        let returned = house.join("bob").await;
        assert_eq!((returned.standings, returned.waiting), (vec![SeatStatus::Out], 1));
        assert_eq!(told(&house.leave("alice").await), ["-alice", "+carol"]);
        assert_eq!(ahead(&house.join("bob").await), 0);
    })
    .await;
}

#[tokio::test]
async fn who_waits_and_is_not_heard_of_is_passed_over() {
    on_both(rules(1), async |mut house| {
        for name in ["alice", "bob", "carol"] {
            house.join(name).await;
        }
        house.pass(STALE - Duration::from_secs(1));
        house.refresh(&["alice", "carol"]).await;
        house.pass(Duration::from_secs(1));
        assert_eq!(told(&house.leave("alice").await), ["-alice", "+carol"]);
    })
    .await;
}

#[tokio::test]
async fn the_seat_of_who_dropped_out_is_not_given_to_the_line_while_it_is_kept() {
    on_both(rules(2), async |mut house| {
        for name in ["alice", "bob", "carol"] {
            house.join(name).await;
        }
        let keep = Duration::from_secs(20);
        house.lose("alice", keep).await;
        house.lose("bob", keep).await;
        house.pass(keep - Duration::from_secs(1));
        assert_eq!(ahead(&house.refresh(&["carol"]).await), 0);
        assert!(is_member(&house.join("bob").await));
        house.pass(Duration::from_secs(1));
        assert_eq!(told(&house.refresh(&["carol", "bob"]).await), ["!alice", "+carol"]);
        assert_eq!(house.members().await, ["bob", "carol"]);
    })
    .await;
}

#[tokio::test]
async fn a_seat_is_kept_for_as_long_as_is_said_however_long_ago_its_last_sign_of_life_was() {
    on_both(rules(1), async |mut house| {
        house.join("alice").await;
        house.join("bob").await;
        house.pass(STALE - Duration::from_secs(2));
        house.refresh(&["bob"]).await;
        let keep = STALE - Duration::from_secs(1);
        house.lose("alice", keep).await;
        house.pass(keep - Duration::from_secs(1));
        assert_eq!(ahead(&house.refresh(&["bob"]).await), 0);
        house.pass(Duration::from_secs(1));
        assert_eq!(told(&house.refresh(&["bob"]).await), ["!alice", "+bob"]);
    })
    .await;
}

#[tokio::test]
async fn a_room_may_have_a_capacity_of_its_own_and_a_smaller_one_puts_nobody_out() {
    on_both(rules(1), async |mut house| {
        for name in ["alice", "bob", "carol", "dave"] {
            house.join(name).await;
        }
        let raised = house.ask(Op::SetCapacity { capacity: Some(3) }).await;
        assert_eq!((told(&raised), raised.capacity), (vec!["+bob".into(), "+carol".into()], Some(3)));
        let lowered = house.ask(Op::SetCapacity { capacity: Some(2) }).await;
        assert_eq!((told(&lowered).len(), lowered.count), (0, 3));
        assert_eq!(told(&house.leave("alice").await), ["-alice"]);
        assert_eq!(told(&house.leave("bob").await), ["-bob", "+dave"]);
        let open = house.ask(Op::SetCapacity { capacity: Some(0) }).await;
        assert_eq!(open.capacity, None);
        assert_eq!(house.ask(Op::SetCapacity { capacity: None }).await.capacity, Some(1));
    })
    .await;
}

/// Actions on the model and the store.
#[derive(Debug, Clone)]
enum Act {
    Join(usize),
    Leave(usize),
    Capacity(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..12_usize).prop_map(Act::Join),
        3 => (0..12_usize).prop_map(Act::Leave),
        1 => (1..6_u32).prop_map(Act::Capacity),
    ];
    prop::collection::vec(act, 1..80)
}

proptest! {
    /// The model is two lists and a number.
    #[test]
    fn the_line_is_a_queue_and_the_room_never_has_more_than_its_capacity_lets_in(acts in acts()) {
        let (mut inside, mut line, mut capacity): (Vec<usize>, Vec<usize>, u32) = (Vec::new(), Vec::new(), 3);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut house = House::memory(rules(3));
        for act in acts {
            let outcome = match act {
                Act::Join(who) => {
                    if !inside.contains(&who) && !line.contains(&who) {
                        line.push(who);
                    }
                    runtime.block_on(house.join(&format!("c{who:02}")))
                }
                Act::Leave(who) => {
                    inside.retain(|it| *it != who);
                    line.retain(|it| *it != who);
                    runtime.block_on(house.leave(&format!("c{who:02}")))
                }
                Act::Capacity(most) => {
                    capacity = most;
                    runtime.block_on(house.ask(Op::SetCapacity { capacity: Some(most) }))
                }
            };
            let before = inside.len();
            while inside.len() < capacity as usize && !line.is_empty() {
                inside.push(line.remove(0));
            }
            prop_assert!(inside.len() <= before.max(capacity as usize));
            prop_assert_eq!((outcome.count, outcome.waiting), (inside.len() as u64, line.len() as u64));
            let names: Vec<_> = inside.iter().map(|who| format!("c{who:02}")).collect();
            prop_assert_eq!(runtime.block_on(house.members()), names);
            for (place, who) in line.iter().enumerate() {
                prop_assert_eq!(ahead(&runtime.block_on(house.refresh(&[&format!("c{who:02}")]))), place as u64);
            }
        }
    }
}
