//! All stores give the same answers to any sequence of operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{Clock, Op, OpResult, RedisStore, Request, Requester, Room, Rooms, Rules, Seat, SeatStatus};
use signaling_wire::SessionId;
use tokio::runtime::Runtime;

use crate::mesh::Mesh;
use crate::server::Server;
use crate::test_room::{STALE, Store, new_clock};

fn someone() -> impl Strategy<Value = Requester> {
    (0..6_u8, 0..2_u8, 0..3_u64, 0..12_u64, 0..2_u8).prop_map(|(client, session, turn, number, node)| Requester {
        client: ClientId::new(&format!("c{client}")).unwrap(),
        session: SessionId([session + 1; 16]),
        accepted_at_us: 7 + u64::from(session / 2),
        turn,
        number,
        node: NodeId::new(&format!("node-{node}")).unwrap(),
    })
}

fn data() -> impl Strategy<Value = Option<Box<str>>> {
    prop::option::of(prop_oneof![Just("1".into()), Just("{\"a\":\n\"b c\"}".into())])
}

fn seats() -> impl Strategy<Value = Vec<Seat>> {
    let status = prop_oneof![
        (5..30_u64).prop_map(|place| SeatStatus::Member { place }),
        (5..30_u64).prop_map(|place| SeatStatus::Waiting { place, ahead: 0 }),
        prop_oneof![Just(SeatStatus::Out), Just(SeatStatus::Unknown)],
    ];
    let seat = (someone(), status, data()).prop_map(|(requester, status, data)| Seat { requester, status, data });
    prop::collection::vec(seat, 1..4)
}

/// An operation, the seconds before it, and `true` if another server process continues then.
pub(crate) fn step() -> impl Strategy<Value = (u64, bool, Op)> {
    let op = prop_oneof![
        6 => (someone(), data()).prop_map(|(requester, data)| Op::Join { requester, data, capacity: None }),
        3 => someone().prop_map(|requester| Op::Leave { requester }),
        1 => someone().prop_map(|requester| Op::Remove { requester }),
        2 => (someone(), 0..30_u64).prop_map(|(requester, keep)| Op::Drop { requester, keep: Duration::from_secs(keep) }),
        3 => seats().prop_map(|seats| Op::Refresh { seats }),
        1 => (seats(), 0..4_000_000_000_000_u64).prop_map(|(seats, version)| Op::Restore { seats, confirmed_in: (0, 0), version, capacity: None }),
        2 => prop::option::of(someone()).prop_map(|requester| Op::List { after: requester.map(|requester| requester.client) }),
        2 => someone().prop_map(|requester| Op::Find { client: requester.client }),
        1 => prop::option::of(0..4_u32).prop_map(|capacity| Op::SetCapacity { capacity }),
    ];
    (prop_oneof![3 => Just(0_u64), 2 => 0..20_u64, 1 => 30..400_u64], prop::bool::weighted(0.03), op)
}

#[test]
fn redis_result_equals_core_result_for_every_operation() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for rules in all_rules() {
        check_results(&server, &runtime, rules);
    }
}

/// Returns rules with low limits, of usual rooms and of rooms for closed groups.
fn all_rules() -> [Rules; 2] {
    let usual = Rules {
        capacity: Some(2),
        max_waiting: Some(2),
        stale: STALE,
        page: 3,
        page_bytes: 20,
        stale_at_once: 2,
        ..Rules::default()
    };
    [usual, Rules { seals: true, max_waiting: Some(0), ..usual }]
}

fn check_results(server: &Server, runtime: &Runtime, rules: Rules) {
    let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
    let given = Clock::Given(Arc::clone(&clock));
    let redis = RedisStore::new(&server.url(), rules, given).unwrap();
    let store = Store::Redis(redis.clone());
    let mut cases = std::cell::RefCell::new(0);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(step(), 1..40), |steps| {
            let case = cases.replace_with(|case| *case + 1);
            let room = RoomName::new(&format!("room-{}-{case}", rules.seals)).unwrap();
            let mut rooms = Rooms::new(rules);
            // Ends the settling time of the last restart.
            clock.fetch_add(60_000, Ordering::Relaxed);
            for (at, (seconds, restarts, op)) in steps.into_iter().enumerate() {
                let now = clock.fetch_add(seconds * 1000, Ordering::Relaxed) + seconds * 1000;
                if restarts {
                    rooms.restarted(now);
                    redis.restarted();
                    server.forget_run(room.as_str());
                }
                let request = Request { room: room.clone(), op };
                // A Redis reports no new rooms.
                let expected = OpResult { created: false, ..rooms.apply(now, &request) };
                let other = runtime.block_on(store.apply(vec![request.clone()]));
                prop_assert_eq!(vec![Ok(expected)], other, "step {}: {:?}", at, request);
            }
            Ok(())
        })
        .unwrap();
    assert!(*cases.get_mut() >= 200);
}

/// Applies an operation as the owner of a room does.
fn apply_as_owner(room: &mut Room, rules: &Rules, now: u64, op: &Op) -> OpResult {
    if room.has_lost_command(op) {
        room.lost_operations(rules, now);
        room.apply(rules, now, &Op::Refresh { seats: Vec::new() });
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
    fn mesh_result_equals_core_result_when_owners_are_replaced(
        nodes in prop_oneof![Just(1_usize), Just(3)],
        rules in prop::sample::select(all_rules().to_vec()),
        steps in prop::collection::vec((step(), any::<bool>()), 1..40),
    ) {
        let (clock, rules) = (new_clock(), Rules { claimed: true, ..rules });
        let mut mesh = Mesh::new(nodes, rules, Arc::clone(&clock));
        let (name, mut room) = (RoomName::new("lobby").unwrap(), Room::default());
        for (at, ((seconds, is_replaced, op), is_crash)) in steps.into_iter().enumerate() {
            let now = clock.fetch_add(seconds * 1000, Ordering::Relaxed) + seconds * 1000;
            if is_replaced && mesh.replace_owner(&name, is_crash) {
                room.unclaim(now, None);
            }
            let expected = apply_as_owner(&mut room, &rules, now, &op);
            let request = Request { room: name.clone(), op };
            prop_assert_eq!(mesh.apply(&request), expected, "step {}: {:?}", at, request);
        }
    }
}
