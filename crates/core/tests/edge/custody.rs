//! Regression tests of the edge's core for faults from simulations, each in its shortest form.

use std::time::{Duration, Instant};

use signaling_core::edge::{ClientKey, EdgeCore, Effect, LinkKey, Reading};
use signaling_protocol::CloseCode;
use signaling_wire::trunk::{DetachReason, ToEdge};

use crate::stage::{Edge, attached, done, message};

#[test]
fn frames_before_a_fault_are_executed() {
    let (mut edge, link, client) = Edge::with_client(false);
    let mut bytes = Vec::new();
    (1..=70).for_each(|d| message(d, d).append(&mut bytes));
    bytes.extend([0xff; 3]);
    assert!(edge.core.link_frames(edge.now, link, &bytes).is_err());
    assert_eq!(edge.output(client).matches("{}").count(), 70);
}

/// Attaches a client to another link, since its link is lost or its node released it.
fn move_to_next_link(edge: &mut Edge, client: ClientKey, is_lost: bool) -> LinkKey {
    let (old, new) = (edge.link, edge.core.link_up(edge.now, edge.now));
    if is_lost {
        edge.core.link_down(old);
    } else {
        edge.core.release(client, "b");
        edge.hear(old, &[ToEdge::Released { slot: 0, state: b"admitted" }]);
    }
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    edge.hear(new, &[attached(0, "")]);
    new
}

#[test]
fn confirms_follow_a_session_to_its_next_link() {
    for is_lost in [true, false] {
        let (mut edge, old, client) = Edge::with_client(false);
        edge.hear(old, &[message(1, 1)]);
        edge.write_all(client);
        let new = move_to_next_link(&mut edge, client, is_lost);
        edge.hear(new, &[message(1, 1)]);
        // A released node sends no delivered message again.
        assert!(is_lost || edge.said(old) == ["confirm 0 1", "release 0"]);
        assert_eq!(edge.said(new), ["attach 0 known true", "confirm 0 1"]);
    }
}

#[test]
fn backlog_does_not_keep_confirms() {
    let (mut edge, link, client) = Edge::with_client(false);
    edge.hear(link, &[message(1, 1)]);
    edge.write_all(client);
    let text = format!(r#"{{"type":"signal","to":"ben","data":"{}"}}"#, "x".repeat(60_000));
    for _ in 0..6 {
        edge.say(client, &text);
    }
    assert_eq!(edge.said(link), ["up 0 1", "up 0 2", "up 0 3", "up 0 4", "up 0 5", "confirm 0 1"]);
    assert_eq!(edge.said(link), ["up 0 6"]);
}

#[test]
fn last_messages_of_a_replaced_client_reach_a_node() {
    let (mut edge, old, client) = Edge::with_client(false);
    let new = edge.core.link_up(edge.now, edge.now);
    edge.say(client, r#"{"type":"signal"}"#);
    edge.core.link_down(old);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    let (code, message) = ("replaced", "a newer connection");
    edge.hear(new, &[ToEdge::Rejected { slot: 0, status: 409, code, message, retry_after_ms: None }]);
    assert!(matches!(edge.core.next_effect(), Some(Effect::Close(..))));
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    assert_eq!(edge.said(new), ["attach 0 known true", "up 0 1", "attach 1 known true", "up 1 1"]);
    edge.hear(new, &[done(1, 1, 1, "")]);
    assert_eq!(edge.said(new), ["detach 1 Closed"], "the node may forget it");
    assert!(edge.core.is_empty());
}

#[test]
fn newcomer_moved_before_admission_attaches_as_newcomer() {
    let mut edge = Edge::with(|_| {});
    let (old, new, client) = (edge.link, edge.core.link_up(edge.now, edge.now), edge.connect(false, None, None));
    edge.core.attach(edge.now, client, old);
    edge.core.release(client, "b");
    edge.hear(old, &[ToEdge::Released { slot: 0, state: &[] }]);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    assert_eq!(edge.said(new), ["attach 0 known false"]);
}

#[test]
fn client_that_requests_without_reading_is_too_slow() {
    let asks: [fn(&mut EdgeCore, Instant, ClientKey); 2] = [
        |core, now, client| _ = core.client_text(now, client, br#"{"type":"ping"}"#),
        |core, now, client| _ = core.client_ping(now, client, &[b'x'; 125]),
    ];
    for ask in asks {
        let (mut edge, _, client) = Edge::with_client(false);
        (0..100_000).for_each(|_| ask(&mut edge.core, edge.now, client));
        let Some(Effect::Close(_, code, last_words)) = edge.core.next_effect() else { panic!("it stays open") };
        assert_eq!(code, CloseCode::TOO_SLOW);
        assert!(last_words.len() < 600 * 1024);
    }
}

#[test]
fn only_a_close_with_1000_ends_the_session() {
    for (code, gone) in [
        (Some(1000), DetachReason::Left),
        (Some(1001), DetachReason::Lost),
        (None, DetachReason::Lost),
        (Some(3000), DetachReason::Lost),
        (Some(4001), DetachReason::Lost),
    ] {
        let (mut edge, link, client) = Edge::with_client(false);

        edge.core.client_left(client, code.map(CloseCode));

        let Some(Effect::Close(_, _, answer)) = edge.core.next_effect() else { panic!("{code:?} is not answered") };
        let body = code.map(u16::to_be_bytes);
        let body = body.as_ref().map_or(&[][..], |code| code);
        assert!(answer.ends_with(&[&[0x88, body.len() as u8], body].concat()), "{code:?}: {answer:?}");
        assert_eq!(edge.said(link), [format!("detach 0 {gone:?}")], "{code:?}");
        assert!(edge.core.is_empty(), "it has sent nothing");
    }
}

#[test]
fn message_is_confirmed_when_the_reliable_client_received_it() {
    let (mut edge, link, client) = Edge::with_client(true);
    edge.hear(link, &[message(1, 1), message(2, 2), message(3, 3)]);
    assert!(edge.output(client).contains(r#""n":2,"m":"AgICAgICAgICAgICAgICAg-2""#), "{}", edge.output(client));
    edge.write_all(client);
    assert!(edge.said(link).is_empty(), "written is not received");
    edge.received(client, 2);
    assert_eq!(edge.said(link), ["confirm 0 2"]);
    edge.received(client, 1);
    assert!(edge.said(link).is_empty());
    edge.received(client, 3);
    assert_eq!(edge.said(link), ["confirm 0 3"]);
}

#[test]
fn received_confirms_duplicates_also_at_the_next_node() {
    let (mut edge, old, client) = Edge::with_client(true);
    edge.hear(old, &[message(1, 1), message(2, 2)]);
    edge.write_all(client);
    edge.received(client, 1);
    let new = move_to_next_link(&mut edge, client, true);
    edge.hear(new, &[message(1, 1), message(2, 2), message(3, 3)]);
    assert_eq!(edge.said(new), ["attach 0 known true", "confirm 0 1"]);
    assert!(edge.output(client).contains(r#""n":3,"#), "numbers go on on one socket");
    edge.write_all(client);
    edge.received(client, 2);
    assert_eq!(edge.said(new), ["confirm 0 2"]);
}

#[test]
fn unreceived_messages_return_to_the_node_when_a_socket_ends() {
    let (mut edge, link, client) = Edge::with_client(true);
    edge.hear(link, &[message(1, 1), message(2, 2)]);
    edge.write_all(client);
    edge.received(client, 1);
    edge.core.socket_closed(client, DetachReason::Lost);
    assert_eq!(edge.said(link), ["confirm 0 1", "detach 0 Lost"]);
    assert!(edge.core.is_empty(), "it has sent nothing");
}

#[test]
fn reliable_client_without_received_is_closed_as_too_slow() {
    let (mut edge, link, client) = Edge::with_client(true);
    edge.hear(link, &[message(1, 1)]);
    edge.pass(Duration::from_secs(9));
    assert_eq!(edge.core.next_effect(), None, "its socket has not taken it yet");
    edge.write_all(client);
    edge.pass(Duration::from_secs(4));
    edge.received(client, 1);
    edge.hear(link, &[message(2, 2)]);
    edge.write_all(client);
    edge.pass(Duration::from_millis(4_500));
    assert_eq!(edge.core.next_effect(), None);
    edge.pass(Duration::from_secs(1));
    assert!(matches!(edge.core.next_effect(), Some(Effect::Close(_, CloseCode::TOO_SLOW, _))));
    assert_eq!(edge.said(link), ["confirm 0 1", "detach 0 Closed"]);
}

#[test]
fn received_is_in_time_when_the_edge_was_paused() {
    let (mut edge, link, client) = Edge::with_client(true);
    edge.hear(link, &[message(1, 1)]);
    edge.write_all(client);
    edge.now += Duration::from_secs(60);
    edge.core.sweep(edge.now);
    edge.core.heard(edge.now, client);
    edge.received(client, 1);
    edge.pass(Duration::from_secs(2));
    assert_eq!(edge.core.next_effect(), None);
}

#[test]
fn received_for_an_unsent_number_is_an_error() {
    let (mut edge, link, client) = Edge::with_client(true);
    edge.hear(link, &[message(1, 1)]);
    edge.write_all(client);
    edge.received(client, 2);
    assert!(edge.output(client).contains(r#""code":"bad_message""#), "{}", edge.output(client));
    assert!(edge.said(link).is_empty());
    edge.received(client, 1);
    assert_eq!(edge.said(link), ["confirm 0 1"]);
    assert_eq!(edge.core.next_effect(), None);
}

#[test]
fn plain_client_gets_no_numbers_and_its_received_is_ignored() {
    let (mut edge, link, client) = Edge::with_client(false);
    edge.hear(link, &[message(1, 1)]);
    assert!(edge.output(client).ends_with("{}"));
    edge.received(client, 9);
    assert!(edge.output(client).ends_with("{}"), "no answer");
    assert!(edge.said(link).is_empty());
    edge.write_all(client);
    assert_eq!(edge.said(link), ["confirm 0 1"]);
}

fn last_words(edge: &mut Edge) -> (CloseCode, String) {
    match edge.core.next_effect() {
        Some(Effect::Close(_, code, words)) => (code, String::from_utf8_lossy(&words).into_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ack_before_a_duplicate_is_among_the_last_words() {
    let (mut edge, link, client) = Edge::with_client(false);
    edge.say(client, r#"{"type":"signal"}"#);
    edge.hear(link, &[message(1, 1)]);
    edge.write_all(client);
    edge.hear(link, &[done(0, 1, 1, r#"{"type":"ack","id":1}"#), message(2, 1)]);
    edge.core.close(client, CloseCode::GOING_AWAY, "");
    let (_, words) = last_words(&mut edge);
    assert!(words.contains(r#""type":"ack""#), "{words}");
}

#[test]
fn message_queued_before_a_handoff_is_not_in_the_last_words() {
    for is_lost in [true, false] {
        let (mut edge, old, client) = Edge::with_client(false);
        edge.hear(old, &[message(1, 1)]);
        let new = move_to_next_link(&mut edge, client, is_lost);
        edge.hear(new, &[message(1, 1), message(2, 2)]);
        edge.core.close(client, CloseCode::GOING_AWAY, "");
        let (_, words) = last_words(&mut edge);
        assert!(!words.contains("{}"), "both go to the client's next socket: {words}");
        assert!(!edge.said(new).contains(&"confirm 0 1".to_owned()));
    }
}

#[test]
fn probe_is_answered_for_a_client_that_is_not_read() {
    let (mut edge, link, client) = Edge::with_client(false);
    edge.core.heard(edge.now, client);
    while edge.say(client, r#"{"type":"signal"}"#) == Reading::On {}
    edge.said(link);
    edge.pass(Duration::from_secs(60));
    assert_eq!(edge.core.next_effect(), None, "its silence means nothing");
    edge.hear(link, &[ToEdge::Probe { slot: 0 }]);
    assert_eq!(edge.said(link), ["alive 0"]);

    edge.core.socket_ends(client);
    edge.hear(link, &[ToEdge::Probe { slot: 0 }]);
    assert!(edge.said(link).is_empty(), "it has closed its side");
}

#[test]
fn probe_of_a_client_that_is_read_asks_the_client() {
    let (mut edge, link, client) = Edge::with_client(false);
    edge.hear(link, &[ToEdge::Probe { slot: 0 }]);
    assert!(edge.said(link).is_empty());
    edge.core.heard(edge.now, client);
    assert_eq!(edge.said(link), ["alive 0"]);
}
