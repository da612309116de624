//! Arbitrary frames. They borrow their texts and bytes, which each test leaks.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use signaling_wire::forward::{Envelope, EnvelopeOutcome, Item, QueueId, Recipient};
use signaling_wire::seats::{RoomChange, SeatState};
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, Origin, Request, ToEdge, ToNode, Unwritten};
use signaling_wire::{DownSeq, MessageNumber, RemainingTtl, Seq, SessionId};

fn text() -> impl Strategy<Value = &'static str> {
    ".{0,24}".prop_map(|text| &*text.leak())
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..64).prop_map(|bytes| &*bytes.leak())
}

fn via() -> impl Strategy<Value = Vec<&'static str>> {
    vec(text(), 0..5)
}

fn session() -> impl Strategy<Value = SessionId> {
    any::<[u8; 16]>().prop_map(SessionId)
}

fn origin() -> impl Strategy<Value = Origin> {
    (session(), message_number()).prop_map(|(session, number)| Origin { session, number })
}

fn message_number() -> impl Strategy<Value = MessageNumber> {
    any::<u64>().prop_map(MessageNumber)
}

fn seq() -> impl Strategy<Value = Seq> {
    any::<u64>().prop_map(Seq)
}

fn down_seq() -> impl Strategy<Value = DownSeq> {
    any::<u64>().prop_map(DownSeq)
}

fn ttl() -> impl Strategy<Value = RemainingTtl> {
    any::<std::time::Duration>().prop_map(RemainingTtl::from_duration)
}

fn cause() -> impl Strategy<Value = DetachReason> {
    prop_oneof![Just(DetachReason::Left), Just(DetachReason::Lost), Just(DetachReason::Closed)]
}

fn request() -> impl Strategy<Value = Request<'static>> {
    (text(), text(), option::of(text()), option::of(text()), text())
        .prop_map(|(path, query, origin, resume, address)| Request { path, query, origin, resume, address })
}

fn attach() -> impl Strategy<Value = Attach<'static>> {
    let who = (any::<u32>(), session(), text(), any::<u64>(), any::<bool>(), seq());
    (who, request(), option::of(bytes()), option::of(bytes()), option::of(cause())).prop_map(
        |(who, request, grant, state, cause)| {
            let (slot, session, client_id, accepted_at_us, reliable, seq) = who;
            Attach { slot, session, client_id, accepted_at_us, reliable, seq, request, grant, state, cause }
        },
    )
}

pub(crate) fn to_node() -> impl Strategy<Value = ToNode<'static>> {
    let slot = any::<u32>;
    let unwritten = prop_oneof![Just(Unwritten::Skipped), Just(Unwritten::Gap), Just(Unwritten::NoRoom)];
    prop_oneof![
        attach().prop_map(ToNode::Attach),
        (slot(), seq(), ttl(), bytes()).prop_map(|(slot, seq, ttl, payload)| ToNode::Up { slot, seq, ttl, payload }),
        (slot(), down_seq(), vec((down_seq(), unwritten), 0..5))
            .prop_map(|(slot, up_to, exceptions)| ToNode::Confirm { slot, up_to, exceptions }),
        (slot(), cause()).prop_map(|(slot, cause)| ToNode::Detach { slot, cause }),
        (slot(), text()).prop_map(|(slot, to)| ToNode::Release { slot, to }),
        slot().prop_map(|slot| ToNode::Alive { slot }),
        (slot(), bytes()).prop_map(|(slot, grant)| ToNode::Grant { slot, grant }),
        (text(), any::<u64>()).prop_map(|(client_id, at)| ToNode::Kicked { client_id, at }),
    ]
}

pub(crate) fn to_edge() -> impl Strategy<Value = ToEdge<'static>> {
    let slot = any::<u32>;
    let outcome =
        prop_oneof![Just(DeliveryOutcome::Done), Just(DeliveryOutcome::Unavailable), Just(DeliveryOutcome::Refused)];
    prop_oneof![
        (slot(), session(), any::<bool>(), seq(), ttl(), bytes(), bytes()).prop_map(
            |(slot, session, resumed, seq, hold, greeting, state)| {
                ToEdge::Attached { slot, session, resumed, seq, hold, greeting, state }
            }
        ),
        (slot(), any::<u16>(), text(), text(), option::of(any::<u32>())).prop_map(
            |(slot, status, code, message, retry_after_ms)| {
                ToEdge::Rejected { slot, status, code, message, retry_after_ms }
            }
        ),
        (slot(), seq(), any::<u32>(), outcome, bytes())
            .prop_map(|(slot, first, count, outcome, reply)| ToEdge::Outcomes { slot, first, count, outcome, reply }),
        (slot(), down_seq(), option::of(origin()), message_number(), ttl(), bytes()).prop_map(
            |(slot, down_seq, origin, prev_pending, ttl, payload)| ToEdge::Down {
                slot,
                down_seq,
                origin,
                prev_pending,
                ttl,
                payload
            }
        ),
        (slot(), any::<u16>(), text()).prop_map(|(slot, code, reason)| ToEdge::Close { slot, code, reason }),
        (slot(), bytes()).prop_map(|(slot, state)| ToEdge::Released { slot, state }),
        (slot(), bytes()).prop_map(|(slot, state)| ToEdge::SessionState { slot, state }),
        Just(ToEdge::Draining),
        slot().prop_map(|slot| ToEdge::Probe { slot }),
        Just(ToEdge::Serving),
        (text(), any::<u64>(), any::<bool>()).prop_map(|(client_id, at, at_once)| ToEdge::Kicked {
            client_id,
            at,
            at_once
        }),
    ]
}

fn envelope() -> impl Strategy<Value = Envelope<'static>> {
    let queue_id = any::<u64>().prop_map(QueueId);
    (text(), origin(), message_number(), ttl(), any::<[bool; 2]>(), queue_id, via(), bytes()).prop_map(
        |(to, origin, prev_pending, ttl, [may_hold, retransmitted], queue_id, via, payload)| Envelope {
            to,
            origin,
            prev_pending,
            ttl,
            may_hold,
            retransmitted,
            queue_id,
            via,
            payload,
        },
    )
}

fn seat() -> impl Strategy<Value = SeatState<'static>> {
    (text(), any::<bool>(), any::<[u64; 4]>(), option::of(any::<u64>()), option::of(text())).prop_map(
        |(room, member, [place, number, incarnation, version], ahead, data)| SeatState {
            room,
            member,
            place,
            number,
            incarnation,
            version,
            ahead,
            data,
        },
    )
}

fn room_change() -> impl Strategy<Value = RoomChange<'static>> {
    prop_oneof![
        (text(), option::of(text())).prop_map(|(client_id, data)| RoomChange::Joined { client_id, data }),
        text().prop_map(|client_id| RoomChange::Left { client_id }),
        text().prop_map(|client_id| RoomChange::Expired { client_id }),
    ]
}

pub(crate) fn item() -> impl Strategy<Value = Item<'static>> {
    let queue_id = || any::<u64>().prop_map(QueueId);
    let outcome = prop_oneof![
        Just(EnvelopeOutcome::Written),
        Just(EnvelopeOutcome::Skipped),
        Just(EnvelopeOutcome::Retransmit),
        Just(EnvelopeOutcome::Expired)
    ];
    prop_oneof![
        envelope().prop_map(Item::Envelope),
        (queue_id(), message_number(), outcome, via()).prop_map(|(queue_id, number, outcome, via)| Item::Outcome {
            queue_id,
            number,
            outcome,
            via
        }),
        (queue_id(), via()).prop_map(|(queue_id, via)| Item::Held { queue_id, via }),
        (text(), queue_id()).prop_map(|(to, queue_id)| Item::Forget { to, queue_id }),
        (text(), session(), any::<u64>(), any::<bool>()).prop_map(|(client_id, session, accepted_at_us, here)| {
            Item::Located { client_id, session, accepted_at_us, here }
        }),
        (text(), session(), any::<u64>()).prop_map(|(client_id, session, accepted_at_us)| Item::RequestSession {
            client_id,
            session,
            accepted_at_us
        }),
        (text(), session(), any::<u64>(), seq(), ttl()).prop_map(|(client_id, session, accepted_at_us, seq, ttl)| {
            Item::Lingering { client_id, session, accepted_at_us, seq, ttl }
        }),
        (text(), session(), any::<u64>(), vec(seat(), 0..4)).prop_map(|(client_id, session, accepted_at_us, seats)| {
            Item::Seats { client_id, session, accepted_at_us, seats }
        }),
        (text(), any::<[u64; 2]>(), vec(room_change(), 0..4), any::<bool>()).prop_map(
            |(room, [incarnation, version], changes, queue_moved)| Item::RoomChanged {
                room,
                incarnation,
                version,
                changes,
                queue_moved
            }
        ),
        (envelope(), vec((text(), message_number(), queue_id()), 0..4)).prop_map(|(envelope, others)| {
            let others = others
                .into_iter()
                .map(|(to, prev_pending, queue_id)| Recipient { to, prev_pending, queue_id })
                .collect();
            Item::Copies { envelope, others }
        }),
    ]
}
