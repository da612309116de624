//! Operators remove clients from rooms.

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{LeftReason, Operation, Requester, Room, SeatStatus};

use crate::test_room::{START_MS as T, ahead, changes_of, on_all, requester, rules, seat};

fn remove(name: &str) -> Operation {
    Operation::Remove { client: ClientId::new(name).unwrap() }
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
    let (rules, mut room) = (rules(0), Room::default());
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
    let (rules, mut room) = (rules(1), Room::default());
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
