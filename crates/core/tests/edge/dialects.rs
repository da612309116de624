//! Clients of dialects at the edge: translation, confirms, backpressure and ends.

use std::time::Duration;

use signaling_core::edge::{ClientKey, DialectClient, Rate, RateLimits, Reading, Settings};
use signaling_dialects::dialect::Settings as DialectSettings;
use signaling_dialects::{Answer, Dialect, Head};
use signaling_protocol::CloseCode;
use signaling_wire::Credential;

use crate::stage::{Edge, done, message};

const WELCOME: &str = r#"{"type":"welcome"}"#;
const OFFER: &str = r#"{"type":"OFFER","dst":"bob"}"#;

/// Creates an edge with a client of a dialect in slot 0.
fn open(dialect: Dialect, change: impl FnOnce(&mut Settings)) -> (Edge, ClientKey) {
    let mut edge = Edge::with(change);
    let client = edge.connect(false, None, Some(client_of(dialect)));
    edge.admit(client, WELCOME);
    edge.core.socket_opened(edge.now, client);
    edge.said(edge.link);
    (edge, client)
}

pub(crate) fn client_of(dialect: Dialect) -> DialectClient {
    let path = match dialect {
        Dialect::PeerJs => "/peerjs",
        Dialect::PixelStreaming => "/player",
        _ => "",
    };
    let head = Head { method: "GET", path, query: "key=peerjs&id=alice&token=t", upgrade: true, ..Head::default() };
    let settings = DialectSettings::default();
    let Answer::Upgrade(opening) = dialect.request(&settings, &head, &[0; 32]) else { panic!("no upgrade") };
    let (translator, credential, lifetime) = (opening.translator, opening.credential.map(Credential), opening.lifetime);
    DialectClient { dialect, translator, credential, lifetime }
}

#[test]
fn messages_pass_the_translator_in_both_directions() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    assert!(edge.output(client).ends_with(r#"{"type":"OPEN"}"#), "{}", edge.output(client));
    edge.write_all(client);
    edge.say(client, OFFER);
    assert_eq!(edge.said(edge.link), ["up 0 1"]);
    let signal = br#"{"type":"signal","from":"~pj:peerjs:bob","data":{"k":"ANSWER","p":1}}"#;
    edge.hear(edge.link, &[crate::stage::down(0, 1, 1, signal)]);
    assert!(edge.output(client).ends_with(r#"{"type":"ANSWER","src":"bob","dst":"alice","payload":1}"#));
    assert!(edge.said(edge.link).is_empty(), "confirmed before it is written");
    edge.write_all(client);
    assert_eq!(edge.said(edge.link), ["confirm 0 1"]);
}

#[test]
fn message_without_frames_is_confirmed_at_once() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    edge.write_all(client);
    edge.hear(edge.link, &[message(1, 1)]);
    assert_eq!((edge.output(client), edge.said(edge.link)), (String::new(), vec!["confirm 0 1".to_owned()]));
}

#[test]
fn flood_pauses_reads_until_the_rate_allows_more() {
    let rate = Rate { per_second: 10, burst: 10 };
    let (mut edge, client) = open(Dialect::YWebrtc, |settings| {
        settings.rates = RateLimits { messages: Some(rate), ..RateLimits::default() }
    });
    let ping = r#"{"type":"ping"}"#;
    let paused_at = (0..20).find(|_| edge.say(client, ping) == Reading::Paused);
    assert_eq!(paused_at, Some(9), "after the burst");
    assert_eq!(edge.output(client).matches("pong").count(), 10, "no frame is lost");
    assert!(!edge.reads_again(client));
    edge.pass(Duration::from_millis(500));
    assert!(edge.reads_again(client));
}

#[test]
fn requests_without_outcome_pause_reads() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    let sent = (1..10_000).find(|_| edge.say(client, OFFER) == Reading::Paused).unwrap();
    assert!(sent >= 64, "{sent}");
    assert!(!edge.reads_again(client));
    for number in 1..=sent {
        edge.hear(edge.link, &[done(0, number, 1, &format!(r#"{{"type":"ack","id":{number}}}"#))]);
    }
    assert!(edge.reads_again(client));
}

#[test]
fn paused_client_gets_a_frame_of_its_dialect() {
    for (dialect, said, frame) in [
        (Dialect::YWebrtc, r#"{"type":"publish","topic":"t","data":1}"#, r#"{"type":"pong"}"#),
        // This dialect has no such frame.
        (Dialect::Trystero, r#"{"type":"publish","topic":"t","payload":1}"#, ""),
    ] {
        let (mut edge, client) = open(dialect, |settings| settings.retransmit.frames = 1);
        edge.write_all(client);
        assert_eq!(edge.say(client, said), Reading::Paused);
        edge.pass(Duration::from_secs(5));
        let output = edge.output(client);
        assert!(output.ends_with(frame) && output.is_empty() == frame.is_empty(), "{output}");
    }
}

#[test]
fn any_close_frame_ends_the_session() {
    for code in [None, Some(CloseCode(1001)), Some(CloseCode(4000))] {
        let (mut edge, client) = open(Dialect::PeerJs, |_| {});
        edge.core.client_left(client, code);
        assert_eq!(edge.said(edge.link).last().map(String::as_str), Some("detach 0 Left"), "{code:?}");
    }
}

#[test]
fn close_of_the_translator_has_no_code() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    edge.say(client, r#"{"type":"LEAVE"}"#);
    assert_eq!(edge.closed(), Some(CloseCode::NO_CODE));
    assert_eq!(edge.said(edge.link).last().map(String::as_str), Some("detach 0 Left"));
}

#[test]
fn drain_closes_clients_by_a_code_after_which_they_return() {
    for (dialect, code) in [(Dialect::PeerJs, CloseCode::GOING_AWAY), (Dialect::PixelStreaming, CloseCode(1012))] {
        let (mut edge, client) = open(dialect, |_| {});
        edge.core.send_away(client, CloseCode::GOING_AWAY, "drain", 500);
        assert_eq!(edge.closed(), Some(code), "{dialect:?}");
    }
}

#[test]
fn refused_room_request_is_repeated_by_the_sweep() {
    let (mut edge, client) = open(Dialect::YWebrtc, |_| {});
    edge.say(client, r#"{"type":"subscribe","topics":["t"]}"#);
    assert_eq!(edge.said(edge.link), ["up 0 1"]);
    let refused = r#"{"type":"error","code":"room_unavailable","message":"","id":1,"retry_after_ms":1000}"#;
    edge.hear(edge.link, &[done(0, 1, 1, refused)]);
    edge.pass(Duration::from_millis(500));
    assert!(edge.said(edge.link).is_empty());
    edge.pass(Duration::from_secs(1));
    assert_eq!(edge.said(edge.link), ["up 0 2"]);
}

#[test]
fn binary_frames_are_for_dialects_only() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    edge.core.client_binary(edge.now, client, OFFER.as_bytes());
    assert_eq!(edge.said(edge.link), ["up 0 1"]);
    let (mut edge, link, client) = Edge::with_client(false);
    edge.core.client_binary(edge.now, client, OFFER.as_bytes());
    assert!(edge.said(link).is_empty());
}

#[test]
fn events_of_a_dialect_are_counted() {
    let (mut edge, client) = open(Dialect::PeerJs, |_| {});
    edge.say(client, OFFER);
    edge.say(client, "no json");
    let counts = edge.core.dialect_counts(Dialect::PeerJs);
    assert_eq!((counts.frames_in, counts.frames_out, counts.ignored[0], counts.claims), (2, 1, 1, [1, 0, 0]));
    edge.core.sweep(edge.now);
    assert_eq!(edge.core.figures().dialect_sockets, [1, 0, 0, 0, 0, 0, 0]);
}
