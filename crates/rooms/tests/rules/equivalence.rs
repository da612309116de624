//! Nodes that own a room give the results of the rules, also when its owner is replaced.

use proptest::prelude::*;
use signaling_protocol::RoomName;
use signaling_rooms::{OpResult, Operation, Request, Room, Rules};

use crate::mesh::Mesh;
use crate::operations::step;
use crate::test_room::{START_MS, rules};

/// Returns rules with low limits, of usual rooms and of rooms for closed groups.
fn all_rules() -> [Rules; 2] {
    let usual = Rules { max_waiting: Some(2), page: 3, page_bytes: 20, stale_at_once: 2, ended_at_once: 2, ..rules(2) };
    [usual, Rules { seals: true, max_waiting: Some(0), ..usual }]
}

/// Applies an operation as the owner of a room does.
fn apply_as_owner(room: &mut Room, rules: &Rules, now: u64, op: &Operation) -> OpResult {
    if room.has_lost_command(op) {
        room.lost_operations(now);
        room.apply(rules, now, &Operation::Claim { seats: Vec::new() });
    }
    let before = room.stamp();
    let result = room.apply(rules, now, op);
    if room.stamp() == before || !result.changes.is_empty() {
        return result;
    }
    // All nodes with seats request the state.
    OpResult { nodes: room.nodes(), queue_moved: true, ..result }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mesh_gives_the_results_of_the_rules(
        nodes in prop_oneof![Just(1_usize), Just(3)],
        rules in prop::sample::select(all_rules().to_vec()),
        steps in prop::collection::vec((step(), prop::bool::weighted(0.03), any::<bool>()), 1..40),
    ) {
        let mut mesh = Mesh::new(nodes, rules);
        let (name, mut room, mut now) = (RoomName::new("lobby").unwrap(), Room::new(1), START_MS);
        let mut last_epoch = 0;
        for (at, ((seconds, op), is_replaced, is_crash)) in steps.into_iter().enumerate() {
            now += seconds * 1_000;
            mesh.pass_until(now);
            if is_replaced && mesh.replace_owner(&name, is_crash) {
                room.unclaim(now, None);
            }
            let request = Request { room: name.clone(), op };
            let (epoch, result) = mesh.apply(&request);
            prop_assert!(epoch >= last_epoch);
            if last_epoch == 0 {
                room = Room::new(epoch);
            }
            room.begin_epoch(epoch);
            last_epoch = epoch;
            let expected = apply_as_owner(&mut room, &rules, now, &request.op);
            prop_assert_eq!(result, expected, "step {}: {:?}", at, request);
        }
    }
}
