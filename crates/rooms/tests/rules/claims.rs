//! Claimed seats, attachments of sessions, lost copies and deadlines of one room.

use std::time::Duration;

use proptest::prelude::*;
use signaling_protocol::{NodeId, limits};
use signaling_rooms::{LeftReason, OpResult, Operation, Requester, Room, Rules, Seat, SeatStatus};
use signaling_wire::{Rank, SessionId, SocketId, codec};

use crate::operations::step;
use crate::test_room::{STALE, START_MS as T, ahead, changes_of, is_member, requester, rules, seat};

const STALE_MS: u64 = STALE.as_secs() * 1_000;
/// Time without admission after a loss.
const SETTLE_MS: u64 = 5_000;
const DAY_MS: u64 = 86_400_000;

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

/// Returns the session of a client at a node, with its attachment and command.
fn at(client: &str, on: &str, attachment: u64, number: u64) -> Requester {
    Requester { node: node(on), attachment, number, ..requester(client) }
}

fn join(requester: Requester) -> Operation {
    Operation::Join { requester, data: None, capacity: None }
}

fn claim(requester: Requester) -> Operation {
    Operation::Claim { seats: vec![seat(requester, SeatStatus::Unknown)] }
}

fn leave(requester: Requester) -> Operation {
    Operation::Leave { requester }
}

/// Restores the seat of a member. `place`: since when it is one.
fn restore(requester: Requester, place: u64, confirmed_in: (u64, u64), version: u64) -> Operation {
    let seats = vec![seat(requester, SeatStatus::Member { place })];
    Operation::Restore { seats, confirmed_in, version, capacity: None }
}

fn touch() -> Operation {
    Operation::Claim { seats: Vec::new() }
}

/// Joins clients at time [`T`], each by its first command, from `(client, node)`.
fn room_of(rules: &Rules, clients: &[(&str, &str)]) -> Room {
    let mut room = Room::new(1);
    for (client, on) in clients {
        room.apply(rules, T, &join(at(client, on, 1, 1)));
    }
    room
}

#[test]
fn claimed_seat_does_not_expire() {
    let rules = rules(1);
    let mut room = room_of(&rules, &[("alice", "a"), ("bob", "b")]);
    assert_eq!((room.counts(), room.deadline(&rules)), ((1, 1), None));
    assert_eq!(changes_of(&room.apply(&rules, T + DAY_MS, &touch())), [""; 0]);
    assert_eq!((room.counts(), room.nodes()), ((1, 1), vec![node("a"), node("b")]));
    assert!(room.seats(&rules).all(|(_, expires)| expires.is_none()));
}

#[test]
fn join_creates_a_room_unless_one_was_there() {
    let (rules, mut room) = (rules(1), Room::new(1));
    let mut created = |op: Operation| room.apply(&rules, T, &op).created;
    assert!(!created(Operation::List { after: None }));
    assert!(!created(Operation::SetCapacity { capacity: Some(1) }), "the token of the first client may set it");
    assert!(created(join(at("alice", "a", 1, 1))));
    assert!(!created(join(at("alice", "a", 1, 1))), "a repetition");
    assert!(!created(join(at("bob", "b", 1, 1))));
    assert!(!created(leave(at("alice", "a", 1, 2))));
    assert!(!created(join(at("alice", "a", 1, 3))), "the room remembers its clients");
    let mut rebuilt = Room::rebuilt(T, T);
    assert!(!rebuilt.apply(&rules, T, &join(at("alice", "a", 1, 1))).created);
}

#[test]
fn result_counts_the_other_members_that_changes_reach() {
    let (rules, mut room) = (rules(3), room_of(&rules(3), &[("alice", "a"), ("bob", "b")]));
    let mut informed = |op: Operation| room.apply(&rules, T, &op).informed;
    assert_eq!(informed(join(at("carol", "c", 1, 1))), 2);
    assert_eq!(informed(join(at("carol", "c", 1, 2))), 0, "no news");
    assert_eq!(
        informed(Operation::Join { requester: at("carol", "c", 1, 3), data: Some("1".into()), capacity: None }),
        2
    );
    assert_eq!(informed(leave(at("carol", "c", 1, 4))), 2);
    assert_eq!(informed(leave(at("carol", "c", 1, 4))), 0);
}

#[test]
fn seats_of_a_lost_node_expire_unless_claimed() {
    let rules = rules(2);
    // Lost node, clients that claim their seats at node `c`, changes at the deadline.
    for (lost, claims, expected) in [
        (Some("a"), &[][..], &["!alice", "+carol"][..]),
        (Some("a"), &["alice"], &[]),
        (Some("b"), &[], &["!bob"]),
        (Some("c"), &["alice", "bob"], &[]),
        (None, &["bob", "carol"], &["!alice", "+carol"]),
        (None, &["alice", "bob", "carol"], &[]),
    ] {
        let mut room = room_of(&rules, &[("alice", "a"), ("bob", "b"), ("carol", "b")]);
        room.unclaim(T + 1, lost.map(node).as_ref());
        let is_lost = lost != Some("c");
        assert_eq!(room.deadline(&rules), is_lost.then_some(T + 1 + STALE_MS), "{lost:?}");
        for client in claims {
            room.apply(&rules, T + 2, &claim(at(client, "c", 2, 1)));
        }
        assert_eq!(changes_of(&room.apply(&rules, T + STALE_MS, &touch())), [""; 0], "{lost:?}");
        let changes = changes_of(&room.apply(&rules, T + 1 + STALE_MS, &touch()));
        assert_eq!(changes, expected, "{lost:?} {claims:?}");
    }
}

#[test]
fn operation_from_before_a_move_does_not_bring_the_seat_back() {
    let rules = rules(1);
    let keep = Duration::from_secs(9);
    let restored = |requester| restore(requester, 5, (0, 0), 0);
    let dropped = |requester| Operation::Drop { requester, keep };
    let ended = Some(T + 1 + 9_000);
    // Each node ranked the socket by its own counter.
    let ranked = |rank, requester| Requester { rank: Rank(rank), ..requester };
    // Alice joined at `b` by command 5 in attachment 2. Operations, and her seat's node, number,
    // expiry.
    for (ops, expected) in [
        (vec![claim(at("alice", "a", 1, 5))], ("b", 5, None)),
        (vec![claim(at("alice", "a", 3, 5))], ("a", 5, None)),
        (vec![claim(ranked(1, at("alice", "a", 3, 5)))], ("a", 5, None)),
        (vec![claim(ranked(u64::MAX >> 11, at("alice", "a", 1, 5)))], ("b", 5, None)),
        (vec![join(at("alice", "a", 1, 6))], ("b", 5, None)),
        (vec![join(at("alice", "a", 3, 6))], ("a", 6, None)),
        (vec![join(at("alice", "a", 1, 5))], ("b", 5, None)),
        (vec![restored(at("alice", "a", 1, 5))], ("b", 5, None)),
        (vec![restored(at("alice", "a", 1, 6))], ("b", 5, None)),
        (vec![restored(at("alice", "a", 3, 6))], ("a", 6, None)),
        (vec![dropped(at("alice", "b", 1, 5))], ("b", 5, None)),
        (vec![dropped(at("alice", "a", 2, 5))], ("b", 5, None)),
        (vec![dropped(at("alice", "a", 3, 5))], ("a", 5, ended)),
        (vec![dropped(at("alice", "a", 3, 5)), claim(at("alice", "a", 3, 5))], ("a", 5, ended)),
        (vec![dropped(at("alice", "b", 2, 5))], ("b", 5, ended)),
        (vec![dropped(at("alice", "b", 2, 5)), claim(at("alice", "b", 2, 5))], ("b", 5, ended)),
        (vec![dropped(at("alice", "b", 2, 5)), claim(at("alice", "a", 1, 5))], ("b", 5, ended)),
        (vec![dropped(at("alice", "b", 2, 5)), claim(at("alice", "a", 3, 5))], ("a", 5, None)),
        (vec![dropped(at("alice", "b", 3, 5)), claim(at("alice", "b", 2, 5))], ("b", 5, ended)),
    ] {
        let mut room = Room::new(1);
        room.apply(&rules, T, &join(at("alice", "b", 2, 5)));
        for op in &ops {
            assert_eq!(changes_of(&room.apply(&rules, T + 1, op)), [""; 0], "{ops:?}");
        }
        let seats: Vec<_> = room.seats(&rules).collect();
        let [(Seat { requester: Requester { node, number, .. }, .. }, expires)] = seats[..] else {
            panic!("{seats:?}")
        };
        assert_eq!((node.as_str(), *number, expires), expected, "{ops:?}");
    }
}

#[test]
fn leave_from_before_a_move_counts_at_the_next_node_alone() {
    let rules = rules(0);
    let mut room = room_of(&rules, &[("alice", "a")]);
    room.apply(&rules, T, &claim(at("alice", "b", 2, 1)));
    let early = leave(at("alice", "a", 1, 2));
    assert_eq!(changes_of(&room.apply(&rules, T + 1, &early)), [""; 0]);
    let leave = leave(at("alice", "b", 2, 2));
    assert_eq!(changes_of(&room.apply(&rules, T + 1, &leave)), ["-alice"]);
    assert_eq!(changes_of(&room.apply(&rules, T + 2, &leave)), [""; 0]);
    assert_eq!(changes_of(&room.apply(&rules, T + 3, &claim(at("alice", "b", 2, 1)))), [""; 0]);
    assert_eq!(changes_of(&room.apply(&rules, T + 4, &join(at("alice", "b", 2, 3)))), ["+alice"]);
}

#[test]
fn claim_of_a_command_that_the_room_lost_changes_nothing() {
    let rules = rules(1);
    let mut room = room_of(&rules, &[("alice", "a")]);
    let of_session = |rank| Requester { session: SessionId([9; 16]), rank: Rank(rank), ..requester("alice") };
    let Rank(rank) = requester("alice").rank;
    for (requester, is_lost) in [
        (at("alice", "a", 1, 1), false),
        (at("alice", "b", 2, 2), true),
        (of_session(rank + 1), true),
        (of_session(rank - 1), false),
    ] {
        let claim = claim(requester);
        assert_eq!(room.has_lost_command(&claim), is_lost, "{claim:?}");
        let status = room.apply(&rules, T + 1, &claim).statuses[0];
        assert_eq!(status == SeatStatus::Unknown, is_lost, "{claim:?}");
    }
}

#[test]
fn rebuilt_room_restores_seats_before_it_admits() {
    let rules = rules(1);
    let mut room = Room::rebuilt(T, T);
    assert_eq!((room.stamp().incarnation, room.deadline(&rules)), (T, Some(T + SETTLE_MS)));
    assert!(!room.is_finished(T + SETTLE_MS - 1) && room.is_finished(T + SETTLE_MS));

    let newcomer = room.apply(&rules, T + 1, &join(at("dora", "a", 1, 1)));
    assert_eq!((ahead(&newcomer), newcomer.settling), (0, true));
    let members = [("alice", 7), ("bob", 8)].map(|(name, place)| seat(requester(name), SeatStatus::Member { place }));
    let waiting = seat(requester("carol"), SeatStatus::Waiting { place: 9, ahead: 3 });
    let seats = members.into_iter().chain([waiting]).collect();
    let restored =
        room.apply(&rules, T + 2, &Operation::Restore { seats, confirmed_in: (0, 0), version: T + 50, capacity: None });
    assert_eq!(changes_of(&restored), [""; 0], "a restored member is no news");
    assert!(restored.version > T + 50, "clients request the state: {}", restored.version);
    assert_eq!((room.counts(), room.deadline(&rules)), ((2, 2), Some(T + 2 + SETTLE_MS)));

    for (name, change) in [("alice", &["-alice"][..]), ("bob", &["-bob", "+carol"])] {
        let leave = leave(Requester { number: 1, ..requester(name) });
        assert_eq!(changes_of(&room.apply(&rules, T + 2 + SETTLE_MS, &leave)), change);
    }
}

#[test]
fn rebuilt_room_gets_its_own_capacity_back() {
    let rules = rules(1);
    let mut room = Room::rebuilt(T, T);
    let restore = |capacity| {
        let seats = vec![seat(requester("alice"), SeatStatus::Member { place: 7 })];
        Operation::Restore { seats, confirmed_in: (0, 0), version: T, capacity }
    };
    room.apply(&rules, T + 1, &restore(Some(2)));
    let settled = T + 1 + SETTLE_MS;
    for (name, is_admitted) in [("bob", true), ("carol", false)] {
        assert_eq!(is_member(&room.apply(&rules, settled, &join(at(name, "a", 1, 1)))), is_admitted, "{name}");
    }
    room.apply(&rules, settled, &restore(Some(9)));
    assert_eq!(room.counts(), (2, 1), "the room has settled");
}

#[test]
fn capacity_of_a_token_leaves_with_the_last_seat() {
    let rules = rules(0);
    for (by_operator, expected) in [(false, None), (true, Some(1))] {
        let mut room = Room::new(1);
        let join = |name, number| {
            let capacity = Some(1).filter(|_| !by_operator);
            Operation::Join { requester: at(name, "a", 1, number), data: None, capacity }
        };
        if by_operator {
            room.apply(&rules, T, &Operation::SetCapacity { capacity: Some(1) });
        }
        assert_eq!(room.apply(&rules, T, &join("alice", 1)).capacity, Some(1));
        assert!(room.apply(&rules, T, &join("bob", 1)).statuses[0].is_waiting());
        for name in ["bob", "alice"] {
            room.apply(&rules, T, &leave(at(name, "a", 1, 2)));
        }
        assert_eq!(room.apply(&rules, T, &touch()).capacity, expected);
        assert_eq!(room.vacancy(), Some(by_operator));
    }
}

#[test]
fn room_that_lost_operations_settles_as_a_new_incarnation() {
    let rules = rules(2);
    let mut room = room_of(&rules, &[("alice", "a")]);
    let before = room.stamp();
    room.lost_operations(T + 1);

    let after = room.stamp();
    assert_eq!((after.incarnation > before.incarnation, after.version), (true, before.version));
    assert_eq!(room.deadline(&rules), Some(T + 1 + SETTLE_MS));
    assert!(!is_member(&room.apply(&rules, T + SETTLE_MS, &join(at("bob", "a", 1, 1)))));
    assert_eq!(changes_of(&room.apply(&rules, T + 1 + SETTLE_MS, &touch())), ["+bob"]);

    room.lost_operations(T);
    assert!(room.stamp().incarnation > after.incarnation && room.stamp().version > after.version);
}

#[test]
fn restore_from_a_later_version_begins_a_new_incarnation_once() {
    let rules = rules(2);
    let mut room = room_of(&rules, &[("alice", "a")]);
    let before = room.stamp();
    let restore = |version| restore(requester("alice"), 7, (0, 0), version);
    room.apply(&rules, T + 1, &restore(before.version));
    assert_eq!(room.stamp(), before, "the room has all changes");

    room.apply(&rules, T + 2, &restore(before.version + 3));
    let after = room.stamp();
    assert!(after.incarnation > before.incarnation && after.version >= before.version + 3, "{after:?}");
    room.apply(&rules, T + 3, &restore(after.version + 3));
    assert_eq!(room.stamp().incarnation, after.incarnation, "the room is settling");
}

#[test]
fn seat_is_not_restored_after_its_session_ended_later() {
    let rules = rules(0);
    // Attachments at the node that ended the session, and at the node that restores the seat.
    for (ended, attachment, is_restored) in [(2, 1, false), (1, 2, true)] {
        let mut room = Room::rebuilt(T, T);
        let (requester, keep) = (at("alice", "b", ended, u64::MAX), Duration::ZERO);
        room.apply(&rules, T + 1, &Operation::Drop { requester, keep });
        let restored = at("alice", "a", attachment, 3);
        assert!(!room.has_lost_command(&claim(restored.clone())), "no command of hers is known");
        let claimed = room.apply(&rules, T + 2, &claim(restored.clone()));
        assert_eq!(claimed.statuses, [SeatStatus::Unknown]);
        room.apply(&rules, T + 2, &restore(restored, 7, (1, 1), T));
        assert_eq!(room.counts(), (u64::from(is_restored), 0), "{attachment}");
        room.apply(&rules, T + 3, &claim(at("alice", "b", ended, 3)));
        assert_eq!(room.nodes(), [node("a")][..usize::from(is_restored)], "a late claim");
    }
}

#[test]
fn seat_without_a_record_needs_evidence_of_a_loss() {
    let rules = rules(1);
    let remembered = u64::try_from(rules.remembered.as_millis()).unwrap();
    for (incarnation, is_restored) in [(0, false), (1, true)] {
        let mut room = room_of(&rules, &[("alice", "a")]);
        room.apply(&rules, T, &leave(at("alice", "b", 2, 2)));
        room.apply(&rules, T + 1, &join(at("bob", "b", 1, 1)));
        room.apply(&rules, T + 1 + remembered, &touch());
        // Alice's former node was cut off for longer than her leave is remembered.
        let confirmed_in = (room.stamp().incarnation + incarnation, 0);
        let restore = restore(at("alice", "a", 1, 1), T, confirmed_in, 0);
        let result = room.apply(&rules, T + 2 + remembered, &restore);
        assert_eq!((room.counts(), is_member(&result)), ((1 + incarnation, 0), is_restored));
        assert_eq!(result.statuses[0] == SeatStatus::Out(LeftReason::Expired), !is_restored);
    }
}

#[test]
fn lost_operations_do_not_undo_a_leave() {
    let rules = rules(1);
    let mut room = room_of(&rules, &[("alice", "a"), ("bob", "b")]);
    room.apply(&rules, T, &leave(at("alice", "a", 1, 2)));
    room.apply(&rules, T, &join(at("alice", "a", 1, 3)));
    room.lost_operations(T + 1);
    let restore = |attachment, number| restore(at("alice", "a", attachment, number), T, (1, 1), 0);
    // The first join was before the leave, and the second one in an earlier attachment.
    for (attachment, number) in [(1, 1), (0, 4)] {
        let status = room.apply(&rules, T + 2, &restore(attachment, number)).statuses[0];
        assert!(status.is_waiting(), "{attachment} {number} {status:?}");
    }
    assert!(room.apply(&rules, T + 2, &restore(1, 3)).statuses[0].is_member(), "her admission is lost");
}

#[test]
fn seat_from_before_the_end_of_a_socket_is_not_restored() {
    let rules = rules(1);
    let end = at("alice", "a", 3, limits::MAX_REQUEST_ID + 1);
    let mut room = Room::new(1);
    room.apply(&rules, T, &join(at("alice", "a", 3, 2)));
    room.apply(&rules, T, &leave(end.clone()));
    // Her later socket brings her seat along, or the room has lost its join.
    for (number, is_restored) in [(2, false), (3, true)] {
        let (socket, rank) = (SocketId([2; 8]), end.rank.plus(1));
        let later = Requester { socket, rank, ..at("alice", "b", 2, number) };
        assert_eq!(room.has_lost_command(&claim(later.clone())), is_restored);
        let result = room.apply(&rules, T + 1, &restore(later, T, (room.stamp().incarnation, 1), 0));
        assert_eq!(is_member(&result), is_restored, "{number}");
    }
}

#[test]
fn command_with_the_highest_number_ends_no_socket() {
    let rules = rules(1);
    let mut room = Room::new(1);
    let first = at("alice", "a", 3, limits::MAX_REQUEST_ID);
    room.apply(&rules, T, &join(first.clone()));
    let later = Requester { socket: SocketId([2; 8]), rank: first.rank.plus(1), ..first };
    assert!(!room.has_lost_command(&claim(later)));
}

#[test]
fn client_that_expired_in_the_queue_is_remembered() {
    let rules = rules(1);
    let mut room = room_of(&rules, &[("alice", "a"), ("bob", "b")]);
    room.unclaim(T, Some(&node("b")));
    assert!(room.apply(&rules, T + STALE_MS, &touch()).queue_moved);
    for op in [join(at("bob", "b", 1, 1)), claim(at("bob", "c", 2, 1))] {
        assert_eq!(
            room.apply(&rules, T + STALE_MS + 1, &op).statuses,
            [SeatStatus::Out(LeftReason::Expired)],
            "{op:?}"
        );
    }
    assert!(room.apply(&rules, T + STALE_MS + 2, &join(at("bob", "b", 1, 2))).statuses[0].is_waiting());
}

#[test]
fn time_never_runs_backwards() {
    let rules = rules(1);
    let mut room = room_of(&rules, &[("alice", "a")]);
    room.apply(&rules, T + 100, &join(at("bob", "a", 1, 1)));
    assert_eq!(ahead(&room.apply(&rules, T - 100, &join(at("carol", "a", 1, 1)))), 1);
    room.unclaim(T - 100, None);
    assert_eq!(room.deadline(&rules), Some(T + 100 + STALE_MS));
}

#[test]
fn room_is_finished_when_no_client_is_remembered() {
    let rules = rules(0);
    let remembered = u64::try_from(rules.remembered.as_millis()).unwrap();
    let leave = |client| leave(at(client, "a", 1, 2));
    let capacity = |capacity| Operation::SetCapacity { capacity };
    // Operations at `T`, and the time until the room is finished. `None`: never.
    for (ops, expected) in [
        (vec![touch()], Some(1)),
        (vec![join(at("alice", "a", 1, 1))], None),
        (vec![join(at("alice", "a", 1, 1)), leave("alice")], Some(remembered + 1)),
        (vec![join(at("alice", "a", 1, 1)), join(at("bob", "a", 1, 1)), leave("alice")], None),
        (vec![capacity(Some(3))], Some(DAY_MS + 1)),
        (vec![capacity(Some(3)), capacity(None)], Some(1)),
        (vec![join(at("alice", "a", 1, 1)), capacity(Some(3)), leave("alice")], Some(remembered + DAY_MS + 1)),
    ] {
        let mut room = Room::new(1);
        ops.iter().for_each(|op| drop(room.apply(&rules, T, op)));
        let mut finished = None;
        // An owner applies an operation at each deadline until the room is finished.
        for _ in 0..10 {
            let Some(deadline) = room.deadline(&rules) else { break };
            if room.is_finished(deadline) {
                finished = Some(deadline - T);
                break;
            }
            room.apply(&rules, deadline, &touch());
        }
        assert_eq!(finished, expected, "{ops:?}");
    }
}

/// An entry of a room's log.
#[derive(Debug, Clone)]
enum Entry {
    Operation(Operation),
    Unclaim(Option<NodeId>),
    Lost,
}

impl Entry {
    fn apply(&self, room: &mut Room, rules: &Rules, now: u64) -> OpResult {
        match self {
            Self::Operation(op) => return room.apply(rules, now, op),
            Self::Unclaim(node) => room.unclaim(now, node.as_ref()),
            Self::Lost => room.lost_operations(now),
        }
        room.apply(rules, now, &touch())
    }
}

/// Entries with the seconds before each. `true`: the copy is sent to another node before it.
fn log() -> impl Strategy<Value = Vec<(u64, bool, Entry)>> {
    let lost_node = prop::option::of((0..2_u8).prop_map(|number| node(&format!("node-{number}"))));
    let entry = prop_oneof![
        1 => lost_node.prop_map(Entry::Unclaim),
        1 => Just(Entry::Lost),
    ];
    let operation = step().prop_map(|(seconds, op)| (seconds, Entry::Operation(op)));
    let step = prop_oneof![9 => operation, 1 => (0..60_u64, entry)];
    prop::collection::vec((step, any::<bool>()).prop_map(|((seconds, entry), sent)| (seconds, sent, entry)), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copy_stays_equal_when_it_applies_the_same_log(log in log()) {
        let rules = Rules { max_waiting: Some(2), stale_at_once: 2, ended_at_once: 2, ..rules(2) };
        let (mut room, mut copy, mut now) = (Room::new(1), Room::new(1), T);
        for (seconds, is_sent, entry) in log {
            now += seconds * 1_000;
            if is_sent {
                copy = codec::from_bytes(&codec::to_bytes(&copy)).unwrap();
            }
            let results = [&mut room, &mut copy].map(|room| entry.apply(room, &rules, now));
            prop_assert_eq!(&results[0], &results[1], "{:?}", entry);
            prop_assert_eq!(codec::to_bytes(&room), codec::to_bytes(&copy), "{:?}", entry);
            prop_assert_eq!(room.deadline(&rules), copy.deadline(&rules), "{:?}", entry);
        }
    }

    #[test]
    fn room_changes_by_itself_only_at_its_deadline(log in log()) {
        let rules = Rules { max_waiting: Some(2), ..rules(2) };
        let (mut room, mut now) = (Room::new(1), T);
        for (seconds, _, entry) in log {
            now += seconds * 1_000;
            if room.deadline(&rules).is_none_or(|deadline| deadline > now) {
                let result = room.clone().apply(&rules, now, &touch());
                prop_assert_eq!((changes_of(&result), result.queue_moved), (vec![], false), "before {:?}", entry);
            }
            entry.apply(&mut room, &rules, now);
        }
    }
}
