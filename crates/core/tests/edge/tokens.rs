//! Tokens of clients, their renewal over the open socket, and kicks.

use std::time::{Duration, Instant};

use signaling_core::edge::{ClientKey, Effect, Kick, KickName, PresentedToken, VerifiedToken};
use signaling_protocol::CloseCode;
use signaling_wire::trunk::{ToEdge, ToNode};

use crate::stage::{Edge, attached, client_id};

const SECOND: Duration = Duration::from_secs(1);
const ISSUED: u64 = 1_000;

pub(crate) fn verified(grant: &[u8], expires: Option<Instant>) -> VerifiedToken {
    VerifiedToken { grant: grant.into(), subject: None, issued: ISSUED, expires, rate_class: None }
}

fn kicked_id(number: u32) -> KickName {
    KickName::new(client_id(number).as_str())
}

/// Creates an edge with an open socket of client 0. `token`: the grant and the lifetime of its
/// token.
fn open(token: Option<(&[u8], Option<Duration>)>) -> (Edge, ClientKey) {
    let mut edge = Edge::with(|_| {});
    let token = token.map(|(grant, life)| verified(grant, life.map(|life| edge.now + life)));
    let client = edge.connect(false, token, None);
    edge.admit(client, "");
    edge.core.socket_opened(edge.now, client);
    (edge, client)
}

fn effects(edge: &mut Edge) -> Vec<Effect> {
    std::iter::from_fn(|| edge.core.next_effect()).collect()
}

/// Advances the time, with input of the client at its end. Returns the close code of its socket.
/// `None`: it is open.
fn close_after(edge: &mut Edge, client: ClientKey, time: Duration) -> Option<CloseCode> {
    edge.now += time;
    edge.core.heard(edge.now, client);
    edge.core.sweep(edge.now);
    edge.closed()
}

#[test]
fn socket_outlives_its_token_only_if_a_newer_one_was_shown() {
    let (mut edge, client) = open(Some((b"old", Some(10 * SECOND))));
    assert_eq!(edge.said(edge.link), ["attach 0 old"]);
    edge.say(client, r#"{"type":"token","token":"a.b.c"}"#);
    let asked = effects(&mut edge);
    assert_eq!(asked, [Effect::Verify(client, PresentedToken("a.b.c".into()))]);
    assert!(!format!("{asked:?}").contains("a.b.c"));
    edge.core.renewed(client, verified(b"new", Some(edge.now + 20 * SECOND)));
    assert_eq!(edge.said(edge.link), ["grant 0 new"]);
    assert_eq!(close_after(&mut edge, client, 15 * SECOND), None);
    assert_eq!(close_after(&mut edge, client, 5 * SECOND), Some(CloseCode::TOKEN_EXPIRED));
    assert_eq!((edge.said(edge.link), edge.core.counts().expired_tokens), (vec!["detach 0 Closed".to_owned()], 1));
}

#[test]
fn token_that_is_refused_changes_nothing_but_is_answered() {
    let (mut edge, client) = open(Some((b"old", Some(10 * SECOND))));
    edge.core.not_renewed(client, "the token's signature is wrong");
    let error = r#"{"type":"error","code":"forbidden","message":"the token's signature is wrong"}"#;
    assert!(edge.output(client).contains(error), "{}", edge.output(client));
    assert_eq!(close_after(&mut edge, client, 10 * SECOND), Some(CloseCode::TOKEN_EXPIRED));
}

#[test]
fn next_node_gets_the_grant_of_the_latest_token() {
    let (mut edge, client) = open(Some((b"old", None)));
    edge.core.renewed(client, verified(b"new", None));
    let next = edge.core.link_up(edge.now, edge.now);
    edge.core.link_down(edge.link);
    edge.core.attach(edge.now, client, next);
    edge.hear(next, &[attached(0, "")]);
    assert_eq!(edge.said(next), ["attach 0 new"]);
    assert_eq!(close_after(&mut edge, client, 1_000_000 * SECOND), None, "this one does not expire");
}

#[test]
fn attach_has_no_grant_when_tokens_are_not_required() {
    let (mut edge, client) = open(None);
    assert_eq!(edge.said(edge.link), ["attach 0 known false"]);
    let text = r#"{"type":"token","token":"a.b.c"}"#;
    edge.say(client, text);
    assert_eq!(effects(&mut edge), []);
    let batch = edge.core.take_batch(edge.link);
    let mut rest = &batch[..];
    assert!(matches!(ToNode::take(&mut rest), Ok(ToNode::Clock { .. })));
    assert!(matches!(ToNode::take(&mut rest), Ok(ToNode::Up { payload, .. }) if payload == text.as_bytes()));
}

#[test]
fn kicked_session_ends_for_good() {
    let (mut edge, _) = open(Some((b"old", None)));
    edge.said(edge.link);
    assert!(!edge.core.kick(&kicked_id(1), ISSUED - 1, true));
    assert!(edge.core.kick(&kicked_id(0), ISSUED - 1, true));
    assert!(matches!(effects(&mut edge)[..], [Effect::Close(_, CloseCode::KICKED, _)]));
    assert_eq!(edge.said(edge.link), ["detach 0 Left"]);
}

#[test]
fn kick_ends_all_sessions_of_a_subject() {
    let mut edge = Edge::with(|_| {});
    let token = VerifiedToken { subject: Some(KickName::new("auth0|7")), ..verified(b"", None) };
    let client = edge.connect(false, Some(token.clone()), None);
    edge.admit(client, "");
    edge.core.socket_opened(edge.now, client);
    assert_eq!(edge.core.subject_of(&kicked_id(0)), token.subject);
    let mut other = Edge::with(|_| {});
    let named = other.connect(false, Some(token.clone()), None);
    other.admit(named, "");
    other.said(other.link);
    assert!(other.core.kick(&kicked_id(0), ISSUED, true), "a kick by its id is one of its subject");
    assert_eq!(other.said(other.link), [format!("kicked auth0|7 {ISSUED}")]);
    assert!(other.core.is_kicked(&client_id(1), &token));
    assert!(edge.core.kick(&KickName::new("auth0|7"), ISSUED, true));
    assert_eq!(edge.closed(), Some(CloseCode::KICKED));
    assert!(edge.core.is_kicked(&client_id(0), &token));
    assert!(!edge.core.is_kicked(&client_id(0), &verified(b"", None)));
}

#[test]
fn kick_by_a_node_reaches_a_client_of_another_node() {
    let (mut edge, _) = open(None);
    let other = edge.core.link_up(edge.now, edge.now);
    let kicked = |name, at, at_once| ToEdge::Kicked { name, at, at_once };
    let frames = [kicked("client-0", 9, true), kicked("a subject", 9, true), kicked("client-0", 7, false)];
    edge.hear(other, &frames);
    let kick = |name, at, at_once| Effect::Kick(Kick { name: KickName::new(name), at, at_once });
    let kicks = [kick("client-0", 9, true), kick("a subject", 9, true), kick("client-0", 7, false)];
    assert_eq!(effects(&mut edge), kicks);
}

#[test]
fn client_with_a_newer_token_survives_a_kick_from_elsewhere() {
    let (mut edge, _) = open(Some((b"grant", None)));
    assert!(!edge.core.kick(&kicked_id(0), ISSUED - 1, false));
    assert!(!edge.core.is_kicked(&client_id(0), &verified(b"", None)));
    assert!(edge.core.kick(&kicked_id(0), ISSUED, false), "its token may be from before");
    assert!(edge.core.is_kicked(&client_id(0), &verified(b"", None)));
    let (mut edge, _) = open(Some((b"grant", None)));
    edge.core.kick(&kicked_id(0), ISSUED - 1, false);
    assert!(!edge.core.kick(&kicked_id(0), ISSUED - 1, true), "each node reports a kick that is known by now");
    assert!(edge.core.kick(&kicked_id(0), ISSUED, true), "this one is new");
    assert!(!edge.core.is_kicked(&client_id(1), &verified(b"", None)));

    let (mut edge, _) = open(None);
    assert!(!edge.core.kick(&kicked_id(0), ISSUED, false), "clients without tokens have none to be rejected");
}

#[test]
fn kick_before_the_socket_is_open_ends_the_session() {
    let mut edge = Edge::with(|_| {});
    let (waiting, ended) = (edge.connect(false, None, None), ["attach 0 known false", "detach 0 Left"]);
    edge.core.attach(edge.now, waiting, edge.link);
    assert!(edge.core.kick(&kicked_id(0), ISSUED, true));
    assert_eq!(edge.said(edge.link), ended);
    assert!(effects(&mut edge).iter().any(|it| matches!(it, Effect::Refuse(_, refusal) if refusal.status == 403)));

    let mut edge = Edge::with(|_| {});
    let client = edge.connect(false, None, None);
    edge.admit(client, "");
    assert!(edge.core.kick(&kicked_id(0), ISSUED, true));
    assert!(!edge.core.kick(&kicked_id(0), ISSUED, true), "once is enough");
    edge.core.socket_opened(edge.now, client);
    assert_eq!(edge.said(edge.link), ended);
}

#[test]
fn node_receives_the_kicks_that_an_edge_remembers() {
    let (mut edge, _) = open(None);
    edge.core.kick(&kicked_id(1), 8, false);
    edge.core.kick(&kicked_id(0), 7, false);
    let new = edge.core.link_up(edge.now, edge.now);
    edge.core.spread_kick(&kicked_id(1), 9);
    assert_eq!(edge.said(new), ["kicked client-0 7", "kicked client-1 8", "kicked client-1 9"]);
}
