//! Members join, are listed, join again and leave.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Op, SeatStatus, Who};
use signaling_wire::SessionId;

use crate::people::{STALE, is_member, on_both, rules, seat, told, who};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn who_joins_is_shown_with_data_to_those_who_are_in_and_sees_them_oldest_first() {
    on_both(rules(0), async |mut house| {
        let alice = house.join("zoe").await;
        let bob = house.join("bob").await;

        assert!(is_member(&alice) && is_member(&bob));
        assert_eq!(told(&bob), ["+bob"]);
        assert_eq!(bob.version, alice.version + 1);
        let seen: Vec<_> = bob.members.iter().map(|it| (it.client.as_str(), it.data.as_deref().unwrap())).collect();
        assert_eq!(seen, [("zoe", r#"{"name":"zoe"}"#), ("bob", r#"{"name":"bob"}"#)]);
        assert_eq!((bob.count, bob.capacity), (2, None));
        assert_eq!(bob.nodes, [NodeId::new("node-0").unwrap()]);
    })
    .await;
}

#[tokio::test]
async fn joining_again_answers_with_the_present_state_and_tells_nobody_anything_unless_data_changed() {
    on_both(rules(0), async |mut house| {
        let first = house.join("alice").await;
        let again = house.join("alice").await;
        assert_eq!((again.version, told(&again).len(), again.members.len()), (first.version, 0, 1));

        let who = house.who("alice");
        let changed = house.ask(Op::Join { who, data: Some("2".into()) }).await;
        assert_eq!(told(&changed), ["+alice"]);
        assert_eq!((changed.version, changed.count), (first.version + 1, 1));
        let who = house.who("alice");
        let silent = house.ask(Op::Join { who, data: None }).await;
        assert_eq!((told(&silent).len(), silent.members[0].data.as_deref()), (0, Some("2")));
    })
    .await;
}

#[tokio::test]
async fn a_command_that_comes_again_is_known_and_changes_nothing() {
    on_both(rules(0), async |mut house| {
        let (join, leave) = (house.who("alice"), house.who("alice"));
        house.ask(Op::Join { who: join.clone(), data: None }).await;
        let left = house.ask(Op::Leave { who: leave.clone() }).await;
        assert_eq!(told(&left), ["-alice"]);

        let again = house.ask(Op::Join { who: join, data: None }).await;
        assert_eq!((&again.standings[..], again.version), (&[SeatStatus::Out][..], left.version));
        let again = house.ask(Op::Leave { who: leave }).await;
        assert_eq!((told(&again).len(), again.version), (0, left.version));
        assert!(is_member(&house.join("alice").await));
    })
    .await;
}

#[tokio::test]
async fn a_newer_session_takes_the_place_over_and_an_older_one_can_do_nothing_any_more() {
    on_both(rules(1), async |mut house| {
        house.join("alice").await;
        let newer =
            Who { session: SessionId([9; 16]), accepted_at_us: u64::from(u32::MAX) << 20, number: 1, ..who("alice") };
        let taken = house.ask(Op::Join { who: newer.clone(), data: None }).await;
        assert!(is_member(&taken) && told(&taken).is_empty());

        assert_eq!(told(&house.leave("alice").await).len(), 0);
        house.lose("alice", Duration::ZERO).await;
        assert_eq!(house.join("alice").await.standings, [SeatStatus::Out]);
        assert_eq!(house.refresh(&["alice"]).await.standings, [SeatStatus::Out]);
        assert_eq!(told(&house.ask(Op::Leave { who: Who { number: 2, ..newer } }).await), ["-alice"]);
    })
    .await;
}

#[tokio::test]
async fn who_is_not_heard_of_goes_once_and_whoever_comes_next_tells() {
    on_both(rules(0), async |mut house| {
        house.join("alice").await;
        house.join("bob").await;
        house.pass(STALE - SECOND);
        assert_eq!(told(&house.refresh(&["bob"]).await).len(), 0);
        house.pass(SECOND);
        assert_eq!(told(&house.refresh(&["bob"]).await), ["!alice"]);
        assert_eq!(told(&house.refresh(&["bob"]).await).len(), 0);
        // The store did not lose the seat: a refresh that comes too late reports `Out`.
        assert_eq!(house.refresh(&["alice"]).await.standings, [SeatStatus::Out]);
    })
    .await;
}

#[tokio::test]
async fn the_seat_of_a_session_that_ended_is_kept_unseen_for_its_time() {
    on_both(rules(2), async |mut house| {
        house.join("alice").await;
        house.join("bob").await;
        assert_eq!(told(&house.lose("alice", 20 * SECOND).await).len(), 0);
        house.pass(19 * SECOND);
        assert_eq!(told(&house.join("alice").await).len(), 0, "back in time: nobody saw it leave");
        house.lose("alice", 20 * SECOND).await;
        house.pass(20 * SECOND);
        assert_eq!(told(&house.refresh(&["bob"]).await), ["!alice"]);
    })
    .await;
}

#[tokio::test]
async fn a_session_that_moved_is_not_dropped_by_the_node_that_it_left() {
    on_both(rules(0), async |mut house| {
        house.join("alice").await;
        let there = Who { node: NodeId::new("node-1").unwrap(), ..who("alice") };
        let moved = house.ask(Op::Refresh { seats: vec![seat(there, SeatStatus::Unknown)] }).await;
        assert_eq!((told(&moved).len(), matches!(moved.standings[..], [SeatStatus::Member { .. }])), (0, true));
        house.lose("alice", Duration::ZERO).await;
        let bob = house.join("bob").await;
        assert_eq!((told(&bob), bob.count), (vec!["+bob".to_owned()], 2));
        let nodes: Vec<_> = bob.nodes.iter().map(NodeId::as_str).collect();
        assert_eq!(nodes, ["node-0", "node-1"]);
    })
    .await;
}

#[tokio::test]
async fn members_come_in_pages_of_a_bounded_size() {
    on_both(signaling_rooms::Rules { page: 3, page_bytes: 1_000_000, ..rules(0) }, async |mut house| {
        for name in 0..7 {
            house.join(&format!("c{name}")).await;
        }
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map(|name: &String| ClientId::new(name).unwrap());
            let page = house.ask(Op::List { after }).await;
            assert!(page.members.len() <= 3);
            seen.extend(page.members.iter().map(|it| it.client.to_string()));
            if !page.more {
                break;
            }
        }
        assert_eq!(seen, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);
        house.leave("c2").await;
        let behind = house.ask(Op::List { after: Some(ClientId::new("c2").unwrap()) }).await;
        assert_eq!(behind.members[0].client.as_str(), "c3", "one that has left meanwhile still marks a place");
    })
    .await;
    on_both(signaling_rooms::Rules { page_bytes: 30, ..rules(0) }, async |mut house| {
        for name in 0..7 {
            house.join(&format!("c{name}")).await;
        }
        let page = house.ask(Op::List { after: None }).await;
        assert_eq!((page.members.len(), page.more), (2, true));
    })
    .await;
}

#[tokio::test]
async fn what_the_store_lost_is_given_back_in_order_and_nobody_is_shown_as_joining() {
    on_both(rules(2), async |mut house| {
        let mut seats = Vec::new();
        let mut version = 0;
        for name in ["alice", "bob", "carol", "dave"] {
            let joined = house.join(name).await;
            version = version.max(joined.version);
            seats.push(signaling_rooms::Seat { data: Some("7".into()), ..seat(who(name), joined.standings[0]) });
        }
        house.room = signaling_protocol::RoomName::new("the-same-after-a-loss").unwrap();
        assert!(house.refresh(&["alice"]).await.standings == [SeatStatus::Unknown]);
        let (later, first) = (seats.split_off(2), seats);
        let restored = house.ask(Op::Restore { seats: later, version }).await;
        assert_eq!((told(&restored).len(), restored.version), (0, version));
        let restored = house.ask(Op::Restore { seats: first, version }).await;
        let seen = (restored.version, restored.count, restored.waiting);
        assert_eq!(seen, (version + 1, 2, 2), "who was told the state meanwhile must be told it again");
        assert_eq!(house.members().await, ["alice", "bob"], "who waited came back first, and yet they wait");
        assert!(!is_member(&house.join("eve").await), "nor does a newcomer get a seat before all are back");
        house.pass(STALE / 2);
        house.leave("alice").await;
        assert_eq!(house.members().await, ["bob", "carol"]);
    })
    .await;
}

#[tokio::test]
async fn a_store_that_nobody_could_reach_for_long_takes_nobody_for_gone_before_all_had_time_to_speak() {
    on_both(rules(2), async |mut house| {
        for name in ["alice", "bob", "carol"] {
            house.join(name).await;
        }
        house.pass(STALE * 3);
        assert_eq!(told(&house.refresh(&["alice", "carol"]).await).len(), 0);
        assert!(!is_member(&house.join("dave").await));
        assert_eq!(house.members().await, ["alice", "bob"]);
        house.pass(STALE / 2);
        let spoken = house.refresh(&["alice", "carol", "dave"]).await;
        assert_eq!(told(&spoken).len(), 2, "bob has had his time, and carol was next");
        assert_eq!(house.members().await, ["alice", "carol"]);
    })
    .await;
}

#[tokio::test]
async fn who_joined_an_emptied_room_before_the_others_are_back_makes_them_see_a_gap() {
    on_both(rules(0), async |mut house| {
        let alice = house.join("alice").await;
        house.room = signaling_protocol::RoomName::new("the-same-after-a-loss").unwrap();
        house.pass(SECOND);
        let bob = house.join("bob").await;
        let seats = vec![seat(who("alice"), alice.standings[0])];
        let restored = house.ask(Op::Restore { seats, version: alice.version }).await;
        assert!(restored.version > bob.version && bob.version > alice.version);
        assert_eq!(house.members().await, ["alice", "bob"]);
    })
    .await;
}

#[tokio::test]
async fn replaced_store_admits_to_an_unknown_room_once_nodes_had_time() {
    on_both(rules(1), async |mut house| {
        house.fails_over();
        house.room = signaling_protocol::RoomName::new("new-or-lost").unwrap();
        let early = house.join("alice").await;
        assert!(!is_member(&early) && early.settling, "{early:?}");
        house.pass(5 * SECOND);
        let late = house.join("alice").await;
        assert!(is_member(&late) && !late.settling, "{late:?}");
    })
    .await;
}

#[tokio::test]
async fn store_restores_what_a_failover_lost_before_it_admits() {
    on_both(rules(2), async |mut house| {
        let alice = house.join("alice").await;
        let bob = house.join("bob").await;
        // State of a replica that lacks bob's join: the room as it was before.
        house.room = signaling_protocol::RoomName::new("as-the-replica-has-it").unwrap();
        let old = house.join("alice").await;
        assert!(old.incarnation > 0 && bob.incarnation == alice.incarnation);
        house.fails_over();
        let eve = house.join("eve").await;
        assert!(!is_member(&eve) && eve.settling && eve.incarnation > old.incarnation, "{eve:?}");
        let seats = vec![seat(who("alice"), alice.standings[0]), seat(who("bob"), bob.standings[0])];
        let restored = house.ask(Op::Restore { seats, version: old.version + 1 }).await;
        assert_eq!((restored.count, restored.waiting, restored.incarnation), (2, 1, eve.incarnation));
        assert!(restored.version > old.version + 1, "who was told the state meanwhile must be told it again");
        house.pass(STALE / 2);
        house.refresh(&["alice", "bob", "eve"]).await;
        assert_eq!(house.members().await, ["alice", "bob"]);
    })
    .await;
}

#[tokio::test]
async fn store_takes_a_seat_for_later_when_its_command_was_lost() {
    on_both(rules(1), async |mut house| {
        house.join("alice").await;
        house.join("bob").await;
        house.leave("alice").await;
        let again = house.join("alice").await;
        assert_eq!(house.members().await, ["bob"]);
        house.fails_over();
        // Lost: bob's leave, and the admission of alice from the queue.
        let place = match again.standings[..] {
            [SeatStatus::Waiting { place, .. }] => place,
            ref other => panic!("{other:?}"),
        };
        let let_in = Who { number: 4, ..who("alice") };
        let seats = vec![seat(let_in, SeatStatus::Member { place: place + 5 })];
        let restored = house.ask(Op::Restore { seats, version: again.version }).await;
        assert!(is_member(&restored) && restored.waiting == 0, "{restored:?}");
        // Lost: carol's second join.
        let carol = house.who("carol");
        house.ask(Op::Join { who: carol.clone(), data: None }).await;
        let left = house.leave("carol").await;
        assert_eq!(left.standings, [SeatStatus::Out]);
        let later = Who { number: carol.number + 2, ..carol.clone() };
        let standing = SeatStatus::Member { place: place + 9 };
        let restored = house.ask(Op::Restore { seats: vec![seat(later, standing)], version: left.version }).await;
        assert!(is_member(&restored));
        let seats = vec![seat(carol, standing)];
        let earlier = house.ask(Op::Restore { seats, version: restored.version }).await;
        assert!(is_member(&earlier) && earlier.version == restored.version, "what is older changes nothing");
    })
    .await;
}
