//! Any operations on a room.

use std::time::Duration;

use proptest::prelude::*;
use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{LeftReason, Operation, Requester, Seat, SeatStatus};
use signaling_wire::{Rank, SessionId, SocketId};

fn someone() -> impl Strategy<Value = Requester> {
    (0..6_u8, 0..2_u8, 0..3_u64, 0..12_u64, 0..2_u8).prop_map(|(client, session, attachment, number, node)| Requester {
        client: ClientId::new(&format!("c{client}")).unwrap(),
        session: SessionId([session + 1; 16]),
        socket: SocketId([session; 8]),
        rank: Rank(7 + u64::from(session / 2)),
        attachment,
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
        prop_oneof![Just(SeatStatus::Out(LeftReason::Left)), Just(SeatStatus::Unknown)],
    ];
    let seat = (someone(), status, data()).prop_map(|(requester, status, data)| Seat { requester, status, data });
    prop::collection::vec(seat, 1..4)
}

/// An operation, and the seconds before it.
pub(crate) fn step() -> impl Strategy<Value = (u64, Operation)> {
    let op = prop_oneof![
        6 => (someone(), data()).prop_map(|(requester, data)| Operation::Join { requester, data, capacity: None }),
        3 => someone().prop_map(|requester| Operation::Leave { requester }),
        1 => someone().prop_map(|requester| Operation::Revoke { requester }),
        1 => someone().prop_map(|requester| Operation::Unblock { client: requester.client }),
        1 => prop::option::of(0..30_u64).prop_map(|time| Operation::Close { time: time.map(Duration::from_secs) }),
        2 => Just(Operation::Open),
        1 => (someone(), prop::option::of(0..30_u64)).prop_map(|(requester, block)| {
            Operation::Remove { client: requester.client, block: block.map(Duration::from_secs) }
        }),
        2 => (someone(), 0..30_u64).prop_map(|(requester, keep)| Operation::Drop { requester, keep: Duration::from_secs(keep) }),
        3 => seats().prop_map(|seats| Operation::Claim { seats }),
        1 => (seats(), 0..4_000_000_000_000_u64).prop_map(|(seats, version)| Operation::Restore { seats, confirmed_in: (0, 0), version, capacity: None }),
        2 => prop::option::of(someone()).prop_map(|requester| Operation::List { after: requester.map(|requester| requester.client) }),
        2 => someone().prop_map(|requester| Operation::Find { client: requester.client }),
        1 => prop::option::of(0..4_u32).prop_map(|capacity| Operation::SetCapacity { capacity }),
    ];
    (prop_oneof![3 => Just(0_u64), 2 => 0..20_u64, 1 => 30..400_u64], op)
}
