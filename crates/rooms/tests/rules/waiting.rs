//! The waiting queue of a full room.

use std::time::Duration;

use proptest::prelude::*;
use signaling_rooms::{LeftReason, Operation, Rules, SeatStatus};

use crate::test_room::{STALE, TestRoom, ahead, changes_of, is_member, on_all, rules};

#[test]
fn first_waiting_client_gets_the_free_seat() {
    on_all(rules(1), |mut room| {
        room.join("alice");
        assert_eq!(ahead(&room.join("bob")), 0);
        assert_eq!(ahead(&room.join("carol")), 1);
        assert_eq!(ahead(&room.join("carol")), 1, "joining again does not cost the place");

        let left = room.leave("alice");

        assert_eq!(changes_of(&left), ["-alice", "+bob"]);
        assert_eq!((left.queue_moved, left.waiting), (true, 1));
        assert_eq!(ahead(&room.claim(&["carol"])), 0);
        assert_eq!(ahead(&room.join("alice")), 1);
    });
}

#[test]
fn full_queue_keeps_a_later_client_out() {
    let rules = Rules { max_waiting: Some(1), ..rules(1) };
    on_all(rules, |mut room| {
        room.join("alice");
        assert_eq!(ahead(&room.join("bob")), 0);
        let late = room.join("carol");
        assert_eq!((late.statuses, late.waiting, late.nodes.len()), (vec![SeatStatus::Unknown], 1, 0));
        assert_eq!(ahead(&room.join("bob")), 0, "a waiting client keeps its place");
        room.leave("bob");
        assert_eq!(ahead(&room.join("carol")), 0);
        let returned = room.join("bob");
        assert_eq!((returned.statuses, returned.waiting), (vec![SeatStatus::Out(LeftReason::Left)], 1));
        assert_eq!(changes_of(&room.leave("alice")), ["-alice", "+carol"]);
        assert_eq!(ahead(&room.join("bob")), 0);
    });
}

#[test]
fn sealed_room_admits_no_client_after_it_was_full() {
    let rules = Rules { seals: true, max_waiting: Some(0), ..rules(2) };
    on_all(rules, |mut room| {
        room.join("alice");
        room.leave("alice");
        assert!(is_member(&room.join("bob")), "a room that was never full is open");
        assert!(is_member(&room.join("carol")));
        assert_eq!(room.join("dave").statuses, [SeatStatus::Unknown]);
        room.leave("bob");
        assert_eq!(room.join("dave").statuses, [SeatStatus::Unknown]);
        assert!(is_member(&room.join("carol")), "a member keeps its seat");
    });
}

#[test]
fn seat_of_an_ended_session_is_kept_for_its_time() {
    on_all(rules(2), |mut room| {
        room.join_all(&["alice", "bob", "carol"]);
        // A seat has no age: its session ends long after its claim.
        room.advance(STALE);
        let keep = Duration::from_secs(20);
        room.end_session("alice", keep);
        room.end_session("bob", keep);
        room.advance(keep - Duration::from_secs(1));
        assert_eq!(ahead(&room.claim(&["carol"])), 0);
        let back = room.join("bob");
        assert!(is_member(&back) && changes_of(&back).is_empty(), "back in time");
        room.advance(Duration::from_secs(1));
        assert_eq!(changes_of(&room.claim(&["carol", "bob"])), ["!alice", "+carol"]);
        assert_eq!(room.members(), ["bob", "carol"]);
    });
}

#[test]
fn capacity_of_a_room_admits_but_never_removes_members() {
    on_all(rules(1), |mut room| {
        room.join_all(&["alice", "bob", "carol", "dave"]);
        let raised = room.apply(Operation::SetCapacity { capacity: Some(3) });
        assert_eq!((changes_of(&raised), raised.capacity), (vec!["+bob".into(), "+carol".into()], Some(3)));
        let lowered = room.apply(Operation::SetCapacity { capacity: Some(2) });
        assert_eq!((changes_of(&lowered).len(), lowered.count), (0, 3));
        assert_eq!(changes_of(&room.leave("alice")), ["-alice"]);
        assert_eq!(changes_of(&room.leave("bob")), ["-bob", "+dave"]);
        let open = room.apply(Operation::SetCapacity { capacity: Some(0) });
        assert_eq!(open.capacity, None);
        assert_eq!(room.apply(Operation::SetCapacity { capacity: None }).capacity, Some(1));
    });
}

/// Actions on the model and the room.
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
    fn queue_is_fair_and_capacity_exact_for_any_commands(acts in acts(), nodes in prop_oneof![Just(0), Just(3)]) {
        let (mut inside, mut waiting, mut capacity): (Vec<usize>, Vec<usize>, u32) = (Vec::new(), Vec::new(), 3);
        let mut room = TestRoom::new(rules(3), nodes);
        for act in acts {
            let result = match act {
                Act::Join(client) => {
                    if !inside.contains(&client) && !waiting.contains(&client) {
                        waiting.push(client);
                    }
                    room.join(&format!("c{client:02}"))
                }
                Act::Leave(client) => {
                    inside.retain(|it| *it != client);
                    waiting.retain(|it| *it != client);
                    room.leave(&format!("c{client:02}"))
                }
                Act::Capacity(max) => {
                    capacity = max;
                    room.apply(Operation::SetCapacity { capacity: Some(max) })
                }
            };
            let before = inside.len();
            while inside.len() < capacity as usize && !waiting.is_empty() {
                inside.push(waiting.remove(0));
            }
            prop_assert!(inside.len() <= before.max(capacity as usize));
            prop_assert_eq!((result.count, result.waiting), (inside.len() as u64, waiting.len() as u64));
            let names: Vec<_> = inside.iter().map(|client| format!("c{client:02}")).collect();
            prop_assert_eq!(room.members(), names);
            for (place, client) in waiting.iter().enumerate() {
                prop_assert_eq!(ahead(&room.claim(&[&format!("c{client:02}")])), place as u64);
            }
        }
    }
}
