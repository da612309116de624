//! Newcomers that a node asks to prove that they live, before they have a session.

use std::time::Duration;

use signaling_core::edge::{ClientKey, DialectClient, Effect, Rate, Reading, Refusal};
use signaling_dialects::Dialect;
use signaling_protocol::CloseCode;
use signaling_wire::trunk::ToEdge;

use crate::dialects::client_of;
use crate::stage::{Edge, attached};

const WELCOME: &str = r#"{"type":"welcome"}"#;
const RATE: Rate = Rate { per_second: 10, burst: 10 };
const TEXT: &str = r#"{"type":"signal","to":"bob","data":1}"#;

/// Creates an edge with a client in slot 0 whose node asks for the proof. Its socket is open.
fn asked() -> (Edge, ClientKey) {
    asked_in(Edge::with(|settings| settings.rates.messages = Some(RATE)), None)
}

fn asked_in(mut edge: Edge, dialect: Option<DialectClient>) -> (Edge, ClientKey) {
    let client = edge.connect(false, None, dialect);
    edge.core.attach(edge.now, client, edge.link);
    edge.hear(edge.link, &[ToEdge::Prove { slot: 0 }]);
    assert_eq!(edge.core.next_effect(), Some(Effect::Accept(client)));
    edge.core.socket_opened(edge.now, client);
    assert_eq!(edge.core.output(client), [0x89, 0], "a ping and no welcome");
    edge.write_all(client);
    assert_eq!(edge.said(edge.link), ["attach 0 known false"]);
    (edge, client)
}

fn answer(edge: &mut Edge, client: ClientKey) {
    edge.core.heard(edge.now, client);
    assert_eq!(edge.core.client_pong(edge.now, client), Reading::On);
}

#[test]
fn client_is_welcome_once_it_has_answered() {
    let (mut edge, client) = asked();
    answer(&mut edge, client);
    assert_eq!(edge.said(edge.link), ["proved 0 client-0"]);
    edge.hear(edge.link, &[ToEdge::Prove { slot: 0 }, attached(0, WELCOME)]);
    assert_eq!(edge.said(edge.link), ["proved 0 client-0"], "a repeated request gets its answer too");
    let rate = r#""rate":{"messages":10,"burst":10,"now":10}}"#;
    assert!(edge.output(client).ends_with(rate), "{}", edge.output(client));
    edge.pass(Duration::from_secs(9));
    assert_eq!(edge.closed(), None);
}

#[test]
fn newcomer_without_a_session_gets_no_goodbye() {
    let (mut edge, client) = asked();
    edge.core.send_away(client, CloseCode::GOING_AWAY, "this server is draining", 1_000);
    let Some(Effect::Close(_, CloseCode::GOING_AWAY, last_words)) = edge.core.next_effect() else { panic!() };
    assert_eq!(last_words[0], 0x88, "a close frame alone");
}

#[test]
fn early_messages_wait_for_the_session() {
    let (mut edge, client) = asked();
    assert_eq!(edge.say(client, TEXT), Reading::On, "its pong may be behind");
    answer(&mut edge, client);
    assert_eq!(edge.say(client, TEXT), Reading::Paused);
    assert_eq!(edge.said(edge.link), ["proved 0 client-0"]);
    edge.hear(edge.link, &[attached(0, WELCOME)]);
    assert_eq!(edge.said(edge.link), ["up 0 1", "up 0 2"]);
    assert!(edge.reads_again(client));

    let (mut edge, client) = asked();
    let read = (0..256).take_while(|_| edge.say(client, TEXT) == Reading::On).count();
    assert_eq!((read, edge.said(edge.link)), (255, vec!["proved 0 client-0".to_owned()]), "its pong would stay unread");
}

#[test]
fn flood_before_the_session_is_paused_after_it() {
    let edge = Edge::with(|settings| settings.rates.messages = Some(Rate { per_second: 10, burst: 1 }));
    let (mut edge, client) = asked_in(edge, Some(client_of(Dialect::YWebrtc)));
    let publish = r#"{"type":"publish","topic":"t","data":1}"#;
    (0..3).for_each(|_| assert_eq!(edge.say(client, publish), Reading::On));
    answer(&mut edge, client);
    edge.hear(edge.link, &[attached(0, WELCOME)]);
    assert_eq!(edge.say(client, publish), Reading::Paused);
}

#[test]
fn early_messages_behind_the_end_of_the_socket_are_not_sent() {
    let edge = Edge::with(|settings| settings.rates.controls = Some(Rate { per_second: 1, burst: 1 }));
    let (mut edge, client) = asked_in(edge, None);
    (0..2).for_each(|_| assert_eq!(edge.say(client, r#"{"type":"ping"}"#), Reading::On));
    assert_eq!(edge.say(client, TEXT), Reading::On);
    answer(&mut edge, client);
    edge.hear(edge.link, &[attached(0, WELCOME)]);
    assert_eq!(edge.closed(), Some(CloseCode::POLICY));
    assert_eq!(edge.said(edge.link), ["proved 0 client-0", "detach 0 Closed"]);
}

#[test]
fn silent_client_is_closed_after_two_seconds() {
    let (mut edge, client) = asked();
    edge.core.heard(edge.now, client);
    edge.pass(Duration::from_millis(1_500));
    assert_eq!(edge.closed(), None);
    edge.pass(Duration::from_millis(500));
    assert_eq!(edge.closed(), Some(CloseCode::HEARTBEAT_MISSED));
    assert_eq!((edge.said(edge.link), edge.core.is_empty()), (vec!["detach 0 Closed".to_owned()], true));
}

#[test]
fn later_refusal_is_a_close_code() {
    let rejected = ToEdge::Rejected { slot: 0, status: 409, code: "", message: "", retry_after_ms: None };
    let (mut edge, client) = asked_in(Edge::with(|_| {}), Some(client_of(Dialect::PeerJs)));
    edge.hear(edge.link, &[rejected]);
    assert_eq!((edge.closed(), edge.core.is_empty()), (Some(CloseCode::ID_IN_USE), true));
    assert_eq!(edge.core.dialect_counts(Dialect::PeerJs).claims, [0, 0, 1]);
    let refusal = Refusal { status: 503, code: String::new(), message: String::new(), retry_after_ms: None };
    let (mut other, lost) = asked();
    other.core.link_down(other.link);
    other.core.refuse(lost, refusal);
    assert_eq!((other.closed(), other.core.is_empty()), (Some(CloseCode::TRY_AGAIN), true));
    // Before the answer to the upgrade is sent.
    let mut early = Edge::with(|_| {});
    let waiting = early.connect(false, None, None);
    early.core.attach(early.now, waiting, early.link);
    let rejected = ToEdge::Rejected { slot: 0, status: 403, code: "", message: "", retry_after_ms: None };
    early.hear(early.link, &[ToEdge::Prove { slot: 0 }, rejected]);
    early.core.socket_opened(early.now, waiting);
    assert_eq!(early.closed(), Some(CloseCode::FORBIDDEN));
    assert!(edge.core.output(client).is_empty());
}

#[test]
fn client_that_has_answered_attaches_elsewhere_as_live() {
    let (mut edge, client) = asked();
    answer(&mut edge, client);
    edge.hear(edge.link, &[ToEdge::Released { slot: 0, state: &[] }]);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    let next = edge.core.link_up(edge.now, edge.now);
    edge.core.attach(edge.now, client, next);
    assert_eq!(edge.said(next), ["attach 0 live"]);
    edge.hear(next, &[attached(0, WELCOME)]);
    assert!(edge.output(client).contains(r#"{"type":"welcome","#));
}

#[test]
fn client_that_no_node_attaches_comes_back() {
    let (mut edge, client) = asked();
    answer(&mut edge, client);
    edge.pass(Duration::from_millis(7_500));
    assert_eq!(edge.closed(), None);
    edge.pass(Duration::from_millis(500));
    assert_eq!(edge.closed(), Some(CloseCode::TRY_AGAIN));
}
