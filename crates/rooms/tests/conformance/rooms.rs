//! Members join, are listed, join again and leave.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Op, Requester, Rules, Seat, SeatStatus};
use signaling_wire::SessionId;

use crate::test_room::{STALE, changes_of, is_member, on_all, on_both, requester, rules, seat};

const SECOND: Duration = Duration::from_secs(1);
const SEVEN: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];

#[test]
fn join_reports_the_change_and_members_oldest_first() {
    on_all(rules(0), async |mut room| {
        let alice = room.join("zoe").await;
        let bob = room.join("bob").await;

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
    on_all(rules(0), async |mut room| {
        let first = room.join("alice").await;
        let again = room.join("alice").await;
        assert_eq!((again.version, changes_of(&again).len(), again.members.len()), (first.version, 0, 1));

        let requester = room.requester("alice");
        let changed = room.apply(Op::Join { requester, data: Some("2".into()), capacity: None }).await;
        assert_eq!(changes_of(&changed), ["+alice"]);
        assert_eq!((changed.version, changed.count), (first.version + 1, 1));
        let requester = room.requester("alice");
        let silent = room.apply(Op::Join { requester, data: None, capacity: None }).await;
        assert_eq!((changes_of(&silent).len(), silent.members[0].data.as_deref()), (0, Some("2")));
    });
}

#[test]
fn retransmitted_command_changes_nothing() {
    on_all(rules(0), async |mut room| {
        let (join, leave) = (room.requester("alice"), room.requester("alice"));
        room.apply(Op::Join { requester: join.clone(), data: None, capacity: None }).await;
        let left = room.apply(Op::Leave { requester: leave.clone() }).await;
        assert_eq!(changes_of(&left), ["-alice"]);

        let again = room.apply(Op::Join { requester: join, data: None, capacity: None }).await;
        assert_eq!((&again.statuses[..], again.version), (&[SeatStatus::Out][..], left.version));
        let again = room.apply(Op::Leave { requester: leave }).await;
        assert_eq!((changes_of(&again).len(), again.version), (0, left.version));
        assert!(is_member(&room.join("alice").await));
    });
}

#[test]
fn newer_session_takes_the_seat_from_an_older_one() {
    on_all(rules(1), async |mut room| {
        room.join("alice").await;
        let newer = Requester {
            session: SessionId([9; 16]),
            accepted_at_us: u64::from(u32::MAX) << 20,
            number: 1,
            ..requester("alice")
        };
        let taken = room.apply(Op::Join { requester: newer.clone(), data: None, capacity: None }).await;
        assert!(is_member(&taken) && changes_of(&taken).is_empty());

        assert_eq!(changes_of(&room.leave("alice").await).len(), 0);
        room.end_session("alice", Duration::ZERO).await;
        assert_eq!(room.join("alice").await.statuses, [SeatStatus::Out]);
        assert_eq!(room.refresh(&["alice"]).await.statuses, [SeatStatus::Out]);
        let leave = Op::Leave { requester: Requester { number: 2, ..newer } };
        assert_eq!(changes_of(&room.apply(leave).await), ["-alice"]);
    });
}

#[test]
fn silent_member_expires_once_with_the_next_operation() {
    on_both(rules(0), async |mut room| {
        room.join_all(&["alice", "bob"]).await;
        room.advance(STALE - SECOND);
        assert_eq!(changes_of(&room.refresh(&["bob"]).await).len(), 0);
        room.advance(SECOND);
        assert_eq!(changes_of(&room.refresh(&["bob"]).await), ["!alice"]);
        assert_eq!(changes_of(&room.refresh(&["bob"]).await).len(), 0);
        // The store did not lose the seat: a refresh that comes too late reports `Out`.
        assert_eq!(room.refresh(&["alice"]).await.statuses, [SeatStatus::Out]);
    });
}

#[test]
fn former_node_cannot_drop_a_moved_session() {
    on_all(rules(0), async |mut room| {
        room.join("alice").await;
        let there = Requester { node: NodeId::new("node-1").unwrap(), ..requester("alice") };
        let moved = room.apply(Op::Refresh { seats: vec![seat(there, SeatStatus::Unknown)] }).await;
        assert_eq!((changes_of(&moved).len(), matches!(moved.statuses[..], [SeatStatus::Member { .. }])), (0, true));
        room.end_session("alice", Duration::ZERO).await;
        let bob = room.join("bob").await;
        assert_eq!((changes_of(&bob), bob.count), (vec!["+bob".to_owned()], 2));
        let nodes: Vec<_> = bob.nodes.iter().map(NodeId::as_str).collect();
        assert_eq!(nodes, ["node-0", "node-1"]);
    });
}

#[test]
fn member_pages_are_bounded_and_complete() {
    on_all(Rules { page: 3, page_bytes: 1_000_000, ..rules(0) }, async |mut room| {
        room.join_all(&SEVEN).await;
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map(|name: &String| ClientId::new(name).unwrap());
            let page = room.apply(Op::List { after }).await;
            assert!(page.members.len() <= 3);
            seen.extend(page.members.iter().map(|it| it.client.to_string()));
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, SEVEN);
        room.leave("c2").await;
        let behind = room.apply(Op::List { after: Some(ClientId::new("c2").unwrap()) }).await;
        assert_eq!(behind.members[0].client.as_str(), "c3", "one that has left meanwhile still marks a place");
    });
    on_all(Rules { page_bytes: 30, ..rules(0) }, async |mut room| {
        room.join_all(&SEVEN).await;
        let page = room.apply(Op::List { after: None }).await;
        assert_eq!((page.members.len(), page.more), (2, true));
    });
}

#[test]
fn lost_seats_are_restored_in_order_without_join_changes() {
    on_all(rules(2), async |mut room| {
        let mut seats = Vec::new();
        let mut version = 0;
        for name in ["alice", "bob", "carol", "dave"] {
            let joined = room.join(name).await;
            version = version.max(joined.version);
            seats.push(Seat { data: Some("7".into()), ..seat(requester(name), joined.statuses[0]) });
        }
        room.lose();
        assert!(room.refresh(&["alice"]).await.statuses == [SeatStatus::Unknown]);
        let (later, first) = (seats.split_off(2), seats);
        let restored = room.restore(later, version).await;
        assert_eq!((changes_of(&restored).len(), restored.version), (0, version));
        let restored = room.restore(first, version).await;
        let seen = (restored.version, restored.count, restored.waiting);
        assert_eq!(seen, (version + 1, 2, 2), "states sent meanwhile are outdated");
        assert_eq!(room.members().await, ["alice", "bob"], "waiting clients that are restored first still wait");
        assert!(!is_member(&room.join("eve").await), "no newcomer gets a seat before all are back");
        room.advance(STALE / 2);
        room.leave("alice").await;
        assert_eq!(room.members().await, ["bob", "carol"]);
    });
}

#[test]
fn unreachable_store_expires_seats_only_after_settling() {
    on_both(rules(2), async |mut room| {
        room.join_all(&["alice", "bob", "carol"]).await;
        room.advance(STALE * 3);
        assert_eq!(changes_of(&room.refresh(&["alice", "carol"]).await).len(), 0);
        assert!(!is_member(&room.join("dave").await));
        assert_eq!(room.members().await, ["alice", "bob"]);
        room.advance(STALE / 2);
        let spoken = room.refresh(&["alice", "carol", "dave"]).await;
        assert_eq!(changes_of(&spoken).len(), 2, "bob has had his time, and carol was next");
        assert_eq!(room.members().await, ["alice", "carol"]);
    });
}

#[test]
fn restore_raises_the_version_above_a_join_after_the_loss() {
    on_all(rules(0), async |mut room| {
        let alice = room.join("alice").await;
        room.lose();
        room.advance(SECOND);
        let bob = room.join("bob").await;
        let restored = room.restore(vec![seat(requester("alice"), alice.statuses[0])], alice.version).await;
        assert!(restored.version > bob.version && bob.version > alice.version);
        assert_eq!(room.members().await, ["alice", "bob"]);
    });
}

#[test]
fn replaced_store_admits_to_an_unknown_room_once_nodes_had_time() {
    on_both(rules(1), async |mut room| {
        room.fail_over();
        room.lose();
        let early = room.join("alice").await;
        assert!(!is_member(&early) && early.settling, "{early:?}");
        room.advance(5 * SECOND);
        let late = room.join("alice").await;
        assert!(is_member(&late) && !late.settling, "{late:?}");
    });
}

#[test]
fn store_restores_what_a_failover_lost_before_it_admits() {
    on_both(rules(2), async |mut room| {
        let alice = room.join("alice").await;
        let bob = room.join("bob").await;
        // State of a replica that lacks bob's join: the room as it was before.
        room.lose();
        let old = room.join("alice").await;
        assert!(old.incarnation > 0 && bob.incarnation == alice.incarnation);
        room.fail_over();
        let eve = room.join("eve").await;
        assert!(!is_member(&eve) && eve.settling && eve.incarnation > old.incarnation, "{eve:?}");
        let seats = vec![seat(requester("alice"), alice.statuses[0]), seat(requester("bob"), bob.statuses[0])];
        let restored = room.restore(seats, old.version + 1).await;
        assert_eq!((restored.count, restored.waiting, restored.incarnation), (2, 1, eve.incarnation));
        assert!(restored.version > old.version + 1, "states sent meanwhile are outdated");
        room.advance(STALE / 2);
        room.refresh(&["alice", "bob", "eve"]).await;
        assert_eq!(room.members().await, ["alice", "bob"]);
    });
}

#[test]
fn restored_seat_wins_when_its_command_was_lost() {
    on_both(rules(1), async |mut room| {
        room.join_all(&["alice", "bob"]).await;
        room.leave("alice").await;
        let again = room.join("alice").await;
        assert_eq!(room.members().await, ["bob"]);
        room.fail_over();
        // Lost: bob's leave, and the admission of alice from the queue.
        let place = match again.statuses[..] {
            [SeatStatus::Waiting { place, .. }] => place,
            ref other => panic!("{other:?}"),
        };
        let let_in = Requester { number: 4, ..requester("alice") };
        let admitted = seat(let_in, SeatStatus::Member { place: place + 5 });
        let restored = room.restore(vec![admitted], again.version).await;
        assert!(is_member(&restored) && restored.waiting == 0, "{restored:?}");
        // Lost: carol's second join.
        let carol = room.requester("carol");
        room.apply(Op::Join { requester: carol.clone(), data: None, capacity: None }).await;
        let left = room.leave("carol").await;
        assert_eq!(left.statuses, [SeatStatus::Out]);
        let later = Requester { number: carol.number + 2, ..carol.clone() };
        let status = SeatStatus::Member { place: place + 9 };
        let restored = room.restore(vec![seat(later, status)], left.version).await;
        assert!(is_member(&restored));
        let earlier = room.restore(vec![seat(carol, status)], restored.version).await;
        assert!(is_member(&earlier) && earlier.version == restored.version, "what is older changes nothing");
    });
}
