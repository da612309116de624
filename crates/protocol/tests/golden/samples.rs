//! One frame of each variant and of each value of its small enums. A kept set names these: never change one, add others.

use std::time::{Duration, UNIX_EPOCH};

use signaling_protocol::forward::{Envelope, EnvelopeFate, Header, Item, Recipient, Ticket};
use signaling_protocol::seats::{RoomChange, Seat};
use signaling_protocol::trunk::{Attach, Fate, Gone, Origin, Request, ToEdge, ToNode, Unwritten};
use signaling_protocol::{ClientId, Incarnation, Left, SessionId, resume};

pub(crate) const SECRET: &[u8] = b"the golden mesh secret";
pub(crate) const TOKEN_EXPIRY: Duration = Duration::from_secs(1_800_000_000);
pub(crate) const SESSION: SessionId = SessionId(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
const ORIGIN: Origin = Origin { session: SESSION, number: 70_000 };
const SLOT: u32 = 300;
const SIGNAL: &[u8] = br#"{"type":"signal","to":"bob","data":{"sdp":"v=0"},"id":7}"#;
const STATE: &[u8] = b"state";
/// One room pattern with a capacity, and signals within rooms alone.
const GRANT: &[u8] = b"\x01\x01\x06team-*\x01\x08\x01\x01";

fn hold() -> Left {
    Left::from_duration(Duration::from_secs(20))
}

/// What a client with this id and session would be given.
pub(crate) fn resume_token() -> String {
    resume::issue(SECRET, &ClientId::new("alice").unwrap(), SESSION, UNIX_EPOCH + TOKEN_EXPIRY)
}

pub(crate) fn to_node() -> Vec<(&'static str, ToNode<'static>)> {
    let new = Attach {
        slot: SLOT,
        session: SESSION,
        client_id: "alice",
        born: 1_800_000_000_000_000,
        reliable: true,
        seq: 0,
        request: Request {
            path: "/v1/connect",
            query: "client_id=alice&reliable=1",
            origin: Some("https://app.example"),
            bearer: Some("a.b.c"),
            resume: Some("token"),
            address: "192.0.2.7:50000",
        },
        state: None,
        gone: None,
    };
    let moved = Attach { reliable: false, seq: 4_000_000_000, request: Request::default(), state: Some(STATE), ..new };
    let exceptions = vec![(5, Unwritten::Passed), (300, Unwritten::Gap)];
    vec![
        ("attach_new", ToNode::Attach(new)),
        ("attach_moved", ToNode::Attach(moved)),
        ("attach_gone", ToNode::Attach(Attach { gone: Some(Gone::Lost), ..moved })),
        ("up", ToNode::Up { slot: SLOT, seq: 251, left: hold(), payload: SIGNAL }),
        ("confirm", ToNode::Confirm { slot: SLOT, up_to: 65_536, exceptions }),
        ("detach_left", ToNode::Detach { slot: SLOT, gone: Gone::Left }),
        ("detach_lost", ToNode::Detach { slot: SLOT, gone: Gone::Lost }),
        ("detach_closed", ToNode::Detach { slot: SLOT, gone: Gone::Closed }),
        ("release", ToNode::Release { slot: SLOT, to: "signaling-node-2" }),
        ("alive", ToNode::Alive { slot: SLOT }),
        ("attach_proven", ToNode::AttachProven { attach: Attach { request: Request::default(), ..new }, grant: GRANT }),
        ("grant", ToNode::Grant { slot: SLOT, grant: GRANT }),
        ("kicked", ToNode::Kicked { client_id: "bob", at: 1_800_000_000 }),
    ]
}

pub(crate) fn to_edge() -> Vec<(&'static str, ToEdge<'static>)> {
    let attached = ToEdge::Attached {
        slot: SLOT,
        session: SESSION,
        resumed: true,
        seq: 12,
        hold: hold(),
        greeting: br#"{"type":"welcome"}"#,
        state: STATE,
    };
    let rejected = |retry_after_ms| ToEdge::Rejected {
        slot: SLOT,
        status: 503,
        code: "unavailable",
        message: "no node can take the client",
        retry_after_ms,
    };
    let fates = |fate, reply| ToEdge::Fates { slot: SLOT, first: 250, count: 3, fate, reply };
    let down = |origin, prev| ToEdge::Down { slot: SLOT, d: 1, origin, prev, left: Left::NONE, payload: SIGNAL };
    vec![
        ("attached", attached),
        ("rejected", rejected(None)),
        ("rejected_for_a_while", rejected(Some(1_000))),
        ("fates_done", fates(Fate::Done, br#"{"type":"ack","id":7}"#)),
        ("fates_unavailable", fates(Fate::Unavailable, b"{}")),
        ("fates_refused", fates(Fate::Refused, b"")),
        ("down_of_a_client", down(Some(ORIGIN), 69_999)),
        ("down_of_the_node", down(None, 0)),
        ("close", ToEdge::Close { slot: SLOT, code: 4410, reason: "replaced by a newer connection" }),
        ("released", ToEdge::Released { slot: SLOT, state: STATE }),
        ("session_state", ToEdge::SessionState { slot: SLOT, state: STATE }),
        ("draining", ToEdge::Draining),
        ("probe", ToEdge::Probe { slot: SLOT }),
        ("serving", ToEdge::Serving),
        ("kick", ToEdge::Kick { client_id: "bob" }),
        ("kicked", ToEdge::Kicked { client_id: "bob", at: 1_800_000_000, at_once: false }),
    ]
}

pub(crate) fn header() -> Header<'static> {
    Header {
        sender: "signaling-node-0",
        incarnation: Incarnation(*b"\x01\x23\x45\x67\x89\xab\xcd\xef"),
        lane: 3,
        number: 5_000_000_000,
        view: 0xfedc_ba98_7654_3210,
    }
}

pub(crate) fn items() -> Vec<(&'static str, Item<'static>)> {
    let ticket = Ticket(0x0123_4567_89ab_cdef);
    let via = || vec!["signaling-node-0", "signaling-node-1"];
    let envelope = Envelope {
        to: "bob",
        origin: ORIGIN,
        prev: 1,
        left: hold(),
        waits: true,
        repeat: false,
        ticket,
        via: via(),
        payload: SIGNAL,
    };
    let copies = Item::Copies { envelope: envelope.clone(), others: vec![Recipient { to: "carol", prev: 0, ticket }] };
    let member = Seat {
        room: "r",
        member: true,
        place: 1,
        number: 2,
        incarnation: 80_000,
        version: 70_000,
        ahead: None,
        data: Some("{}"),
    };
    let waiting = Seat { member: false, ahead: Some(3), data: None, ..member };
    let changes = vec![
        RoomChange::Joined { client_id: "bob", data: Some("{}") },
        RoomChange::Joined { client_id: "carol", data: None },
        RoomChange::Left { client_id: "bob" },
        RoomChange::Expired { client_id: "carol" },
    ];
    let located = |here| Item::Located { client_id: "bob", session: SESSION, born: 1_800_000_000_000_000, here };
    let fate = |fate| Item::Fate { ticket, number: 70_000, fate, via: via() };
    vec![
        ("envelope", Item::Envelope(envelope)),
        ("fate_written", fate(EnvelopeFate::Written)),
        ("fate_passed", fate(EnvelopeFate::Passed)),
        ("fate_again", fate(EnvelopeFate::Again)),
        ("fate_expired", fate(EnvelopeFate::Expired)),
        ("held", Item::Held { ticket, via: via() }),
        ("forget", Item::Forget { to: "bob", ticket }),
        ("located", located(true)),
        ("located_no_more", located(false)),
        ("wanted", Item::Wanted { client_id: "bob", session: SESSION, born: 1 }),
        ("lingering", Item::Lingering { client_id: "bob", session: SESSION, born: 1, seq: 70_000, left: hold() }),
        ("seats", Item::Seats { client_id: "bob", session: SESSION, born: 1, seats: vec![member, waiting] }),
        (
            "room_changed",
            Item::RoomChanged { room: "r", incarnation: 80_000, version: 70_000, changes, line_moved: true },
        ),
        ("copies", copies),
    ]
}
