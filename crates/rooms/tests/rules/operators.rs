//! Operators remove clients from rooms, keep them out and close rooms.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{LeftReason, OpRefusal, Operation, Requester, Room, Rules, SeatStatus};

use crate::test_room::{START_MS as T, ahead, changes_of, is_member, on_all, requester, rules, seat};

const SECOND: Duration = Duration::from_secs(1);

fn remove(name: &str) -> Operation {
    Operation::Remove { client: ClientId::new(name).unwrap(), block: None }
}

fn block(name: &str, time: Duration) -> Operation {
    Operation::Remove { client: ClientId::new(name).unwrap(), block: Some(time) }
}

#[test]
fn removed_client_is_out_until_it_joins_again() {
    on_all(rules(1), |mut room| {
        room.join_all(&["alice", "bob", "carol"]);
        let removed = room.apply(remove("bob"));
        assert_eq!((&removed.statuses[..], removed.waiting), (&[SeatStatus::Out(LeftReason::Removed)][..], 1));
        let removed = room.apply(remove("alice"));
        assert_eq!(changes_of(&removed), ["~alice", "+carol"]);
        assert_eq!(room.claim(&["alice"]).statuses, [SeatStatus::Out(LeftReason::Removed)]);
        assert_eq!(changes_of(&room.apply(remove("alice"))), [""; 0], "a repetition changes nothing");
        assert_eq!(room.apply(remove("eve")).statuses, [SeatStatus::Unknown]);
        assert_eq!(ahead(&room.join("bob")), 0);
        room.leave("bob");
        assert_eq!(room.claim(&["bob"]).statuses, [SeatStatus::Out(LeftReason::Left)]);
    });
}

#[test]
fn result_names_the_node_of_the_removed_client() {
    let (rules, mut room) = (rules(0), Room::new(1));
    for name in ["alice", "bob"] {
        let requester = Requester { node: NodeId::new(name).unwrap(), number: 1, ..requester(name) };
        room.apply(&rules, T, &Operation::Join { requester, data: None, capacity: None });
    }
    let removed = room.apply(&rules, T, &remove("alice"));
    assert_eq!(removed.nodes.iter().map(NodeId::as_str).collect::<Vec<_>>(), ["alice", "bob"]);
    assert_eq!(removed.informed, 1);
}

#[test]
fn loss_does_not_undo_a_removal() {
    let (rules, mut room) = (rules(1), Room::new(1));
    let join = |name, number| {
        let requester = Requester { number, ..requester(name) };
        Operation::Join { requester, data: None, capacity: None }
    };
    for op in [join("alice", 1), join("bob", 1), remove("alice")] {
        room.apply(&rules, T, &op);
    }
    room.lost_operations(T + 1);
    let seats = vec![seat(Requester { number: 1, ..requester("alice") }, SeatStatus::Member { place: T })];
    let restore = Operation::Restore { seats, confirmed_in: (1, 1), version: 0, capacity: None };
    assert_eq!(room.apply(&rules, T + 2, &restore).statuses, [SeatStatus::Out(LeftReason::Removed)]);
    room.apply(&rules, T + 2, &join("alice", 2));
    assert_eq!(ahead(&room.apply(&rules, T + 3, &restore)), 0, "the seat is from before her removal");
}

#[test]
fn blocked_client_is_refused_until_the_end_of_its_block() {
    on_all(rules(1), |mut room| {
        room.join_all(&["alice", "bob"]);
        for (name, others) in [("bob", 1), ("alice", 0)] {
            let blocked = room.apply(block(name, 2 * SECOND));
            assert_eq!(blocked.statuses, [SeatStatus::Out(LeftReason::Removed)], "{name}");
            assert_eq!((blocked.count, blocked.waiting), (others, 0));
        }
        room.advance(SECOND);
        let refused = room.join("alice");
        assert_eq!((refused.refused, refused.count), (Some(OpRefusal::Blocked { rest: SECOND }), 0));
        room.apply(remove("alice"));
        assert_eq!(room.join("alice").blocks, 2, "a removal without a time ends no block");
        room.apply(Operation::Unblock { client: ClientId::new("bob").unwrap() });
        assert!(is_member(&room.join("bob")));
        room.advance(SECOND);
        assert_eq!((ahead(&room.join("alice")), room.leave("eve").blocks), (0, 0));
    });
}

#[test]
fn room_has_at_most_1000_blocks() {
    let (rules, mut room) = (rules(0), Room::new(1));
    room.apply(&rules, T, &Operation::Join { requester: requester("alice"), data: None, capacity: None });
    for number in 0..1_000 {
        assert_eq!(room.apply(&rules, T, &block(&format!("c{number}"), SECOND)).refused, None);
    }
    let refused = room.apply(&rules, T, &block("alice", SECOND));
    assert_eq!((refused.refused, refused.count), (Some(OpRefusal::TooManyBlocks), 1));
    assert_eq!(room.apply(&rules, T, &block("c1", 2 * SECOND)).refused, None);
    assert_eq!(room.apply(&rules, T + 1_000, &block("alice", SECOND)).refused, None, "the others have ended");
}

#[test]
fn block_bars_a_seat_that_is_restored_later() {
    let (rules, mut room) = (rules(0), Room::rebuilt(T, T));
    room.apply(&rules, T, &block("alice", SECOND));
    let seats = vec![seat(requester("alice"), SeatStatus::Member { place: T })];
    let restore = Operation::Restore { seats, confirmed_in: (0, 0), version: 0, capacity: None };
    let restored = room.apply(&rules, T + 1, &restore);
    assert_eq!((&restored.statuses[..], restored.count), (&[SeatStatus::Out(LeftReason::Removed)][..], 0));
}

#[test]
fn room_without_clients_is_kept_until_its_blocks_end() {
    let (rules, mut room) = (rules(0), Room::new(1));
    room.apply(&rules, T, &block("alice", SECOND));
    assert_eq!((room.deadline(&rules), room.is_finished(T + 999)), (Some(T + 1_000), false));
    assert!(room.is_finished(T + 1_000));
}

#[test]
fn closed_room_ends_its_seats_and_refuses_joins() {
    on_all(rules(2), |mut room| {
        room.join_all(&["alice", "bob", "carol"]);
        let closed = room.apply(Operation::Close { time: Some(2 * SECOND) });
        assert_eq!((changes_of(&closed), closed.count, closed.waiting), (vec!["~alice".into(), "~bob".into()], 0, 0));
        assert_eq!((closed.closed, closed.closed_for), (true, Some(2 * SECOND)));
        let out = SeatStatus::Out(LeftReason::Closed);
        assert_eq!(room.claim(&["alice", "carol"]).statuses, [out, out]);
        assert_eq!(room.join("eve").refused, Some(OpRefusal::Closed { rest: Some(2 * SECOND) }));
        room.advance(2 * SECOND);
        assert!(is_member(&room.join("alice")));
        room.apply(Operation::Close { time: None });
        room.advance(3_600 * SECOND);
        assert_eq!(room.join("alice").refused, Some(OpRefusal::Closed { rest: None }));
        assert!(!room.apply(Operation::Open).closed && is_member(&room.join("alice")));
    });
}

#[test]
fn closed_room_opens_when_all_its_seats_have_ended() {
    let (rules, mut room) = (Rules { ended_at_once: 2, ..rules(2) }, Room::new(1));
    for name in ["alice", "bob", "carol", "dave", "eve"] {
        let requester = Requester { number: 1, ..requester(name) };
        room.apply(&rules, T, &Operation::Join { requester, data: None, capacity: None });
    }
    room.apply(&rules, T, &Operation::Close { time: Some(Duration::ZERO) });
    assert_eq!((room.counts(), room.deadline(&rules)), ((0, 3), Some(T)), "the queue moves up to no seat");
    room.apply(&rules, T, &Operation::Open);
    let join = Operation::Join { requester: requester("zoe"), data: None, capacity: None };
    assert_eq!(room.counts(), (0, 1));
    let opened = room.apply(&rules, T, &Operation::List { after: None });
    assert_eq!((room.counts(), opened.closed), ((0, 0), false));
    assert!(is_member(&room.apply(&rules, T, &join)));
}

#[test]
fn closed_room_bars_seats_that_are_restored_later() {
    let (rules, mut room) = (rules(0), Room::rebuilt(T, T));
    room.apply(&rules, T, &Operation::Close { time: None });
    let seats = vec![seat(requester("alice"), SeatStatus::Member { place: T })];
    let restore = Operation::Restore { seats, confirmed_in: (0, 0), version: 0, capacity: None };
    let restored = room.apply(&rules, T + 1, &restore);
    assert_eq!((&restored.statuses[..], restored.count), (&[SeatStatus::Out(LeftReason::Closed)][..], 0));
}

#[test]
fn room_without_clients_is_kept_while_it_is_closed() {
    let (rules, day) = (rules(0), 86_400_000);
    for (time, kept) in [(Some(SECOND), 1_000), (None, day + 1)] {
        let mut room = Room::new(1);
        room.apply(&rules, T, &Operation::Close { time });
        assert_eq!((room.deadline(&rules), room.is_finished(T + kept - 1)), (Some(T + kept), false));
        assert!(room.is_finished(T + kept));
    }
}
