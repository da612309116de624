//! Members join, are listed, join again and leave.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId, limits};
use signaling_rooms::{LeftReason, Operation, Requester, Rules, Seat, SeatStatus};
use signaling_wire::{Rank, SessionId, SocketId};

use crate::test_room::{STALE, changes_of, is_member, on_all, requester, rules, seat};

const SECOND: Duration = Duration::from_secs(1);
const SEVEN: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];

#[test]
fn join_reports_the_change_and_members_oldest_first() {
    on_all(rules(0), |mut room| {
        let alice = room.join("zoe");
        let bob = room.join("bob");

        assert!(is_member(&alice) && is_member(&bob));
        assert_eq!(changes_of(&bob), ["+bob"]);
        assert_eq!(bob.version, alice.version + 1);
        let seen: Vec<_> = bob.members.iter().map(|it| (it.client.as_str(), it.data.as_deref().unwrap())).collect();
        assert_eq!(seen, [("zoe", r#"{"name":"zoe"}"#), ("bob", r#"{"name":"bob"}"#)]);
        assert_eq!((bob.count, bob.capacity), (2, None));
        assert_eq!(bob.nodes, [NodeId::new("node-0").unwrap()]);
    });
}

#[test]
fn repeated_join_is_a_change_only_with_new_data() {
    on_all(rules(0), |mut room| {
        let first = room.join("alice");
        let again = room.join("alice");
        assert_eq!((again.version, changes_of(&again).len(), again.members.len()), (first.version, 0, 1));

        let requester = room.requester("alice");
        let changed = room.apply(Operation::Join { requester, data: Some("2".into()), capacity: None });
        assert_eq!(changes_of(&changed), ["+alice"]);
        assert_eq!((changed.version, changed.count), (first.version + 1, 1));
        let requester = room.requester("alice");
        let silent = room.apply(Operation::Join { requester, data: None, capacity: None });
        assert_eq!((changes_of(&silent).len(), silent.members[0].data.as_deref()), (0, Some("2")));
    });
}

#[test]
fn retransmitted_command_changes_nothing() {
    on_all(rules(0), |mut room| {
        let (join, leave) = (room.requester("alice"), room.requester("alice"));
        room.apply(Operation::Join { requester: join.clone(), data: None, capacity: None });
        let left = room.apply(Operation::Leave { requester: leave.clone() });
        assert_eq!(changes_of(&left), ["-alice"]);

        let again = room.apply(Operation::Join { requester: join, data: None, capacity: None });
        assert_eq!((&again.statuses[..], again.version), (&[SeatStatus::Out(LeftReason::Left)][..], left.version));
        let again = room.apply(Operation::Leave { requester: leave });
        assert_eq!((changes_of(&again).len(), again.version), (0, left.version));
        assert!(is_member(&room.join("alice")));
    });
}

#[test]
fn later_socket_joins_after_the_leave_of_an_ended_one() {
    on_all(rules(1), |mut room| {
        room.join("alice");
        let first = requester("alice");
        let leave = Requester { number: limits::MAX_REQUEST_ID + 1, ..first.clone() };
        room.apply(Operation::Leave { requester: leave });
        let later = (SocketId([2; 8]), first.rank.plus(1));
        for ((socket, rank), is_in) in
            [((first.socket, first.rank), false), ((first.socket, later.1), false), (later, true)]
        {
            let join = Requester { socket, rank, number: 2, ..first.clone() };
            let joined = room.apply(Operation::Join { requester: join, data: None, capacity: None });
            assert_eq!(is_member(&joined), is_in, "{socket:?} {rank}");
        }
    });
}

#[test]
fn newer_session_takes_the_seat_from_an_older_one() {
    on_all(rules(1), |mut room| {
        room.join("alice");
        let newer = Requester {
            session: SessionId([9; 16]),
            rank: Rank(u64::from(u32::MAX) << 20),
            number: 1,
            ..requester("alice")
        };
        let taken = room.apply(Operation::Join { requester: newer.clone(), data: None, capacity: None });
        assert!(is_member(&taken) && changes_of(&taken).is_empty());

        assert_eq!(changes_of(&room.leave("alice")).len(), 0);
        room.end_session("alice", Duration::ZERO);
        assert_eq!(room.join("alice").statuses, [SeatStatus::Out(LeftReason::Expired)]);
        assert_eq!(room.claim(&["alice"]).statuses, [SeatStatus::Out(LeftReason::Expired)]);
        let leave = Operation::Leave { requester: Requester { number: 2, ..newer } };
        assert_eq!(changes_of(&room.apply(leave)), ["-alice"]);
    });
}

#[test]
fn member_pages_are_bounded_and_complete() {
    on_all(Rules { page: 3, page_bytes: 1_000_000, ..rules(0) }, |mut room| {
        room.join_all(&SEVEN);
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map(|name: &String| ClientId::new(name).unwrap());
            let page = room.apply(Operation::List { after });
            assert!(page.members.len() <= 3);
            seen.extend(page.members.iter().map(|it| it.client.to_string()));
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, SEVEN);
        room.leave("c2");
        let behind = room.apply(Operation::List { after: Some(ClientId::new("c2").unwrap()) });
        assert_eq!(behind.members[0].client.as_str(), "c3", "one that has left meanwhile still marks a place");
    });
    on_all(Rules { page_bytes: 30, ..rules(0) }, |mut room| {
        room.join_all(&SEVEN);
        let page = room.apply(Operation::List { after: None });
        assert_eq!((page.members.len(), page.more), (2, true));
    });
}

#[test]
fn lost_seats_are_restored_in_order_without_join_changes() {
    on_all(rules(2), |mut room| {
        let mut seats = Vec::new();
        let mut version = 0;
        for name in ["alice", "bob", "carol", "dave"] {
            let joined = room.join(name);
            version = version.max(joined.version);
            seats.push(Seat { data: Some("7".into()), ..seat(requester(name), joined.statuses[0]) });
        }
        room.lose();
        assert!(room.claim(&["alice"]).statuses == [SeatStatus::Unknown]);
        let (later, first) = (seats.split_off(2), seats);
        let restored = room.restore(later, version);
        assert!(changes_of(&restored).is_empty() && restored.version >= version);
        let before = restored.version;
        let restored = room.restore(first, version);
        let seen = (restored.version, restored.count, restored.waiting);
        assert_eq!(seen, (before + 1, 2, 2), "states sent meanwhile are outdated");
        assert_eq!(room.members(), ["alice", "bob"], "waiting clients that are restored first still wait");
        assert!(!is_member(&room.join("eve")), "no newcomer gets a seat before all are back");
        room.advance(STALE / 2);
        room.leave("alice");
        assert_eq!(room.members(), ["bob", "carol"]);
    });
}

#[test]
fn restore_raises_the_version_above_a_join_after_the_loss() {
    on_all(rules(0), |mut room| {
        let alice = room.join("alice");
        room.lose();
        room.advance(SECOND);
        let bob = room.join("bob");
        let restored = room.restore(vec![seat(requester("alice"), alice.statuses[0])], alice.version);
        assert!(restored.version > bob.version && bob.version > alice.version);
        assert_eq!(room.members(), ["alice", "bob"]);
    });
}
