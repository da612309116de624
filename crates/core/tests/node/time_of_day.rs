//! The time of day follows the system clock, which may change while a node runs.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use signaling_core::edge::KickName;
use signaling_core::ice::{IceServers, Turn};
use signaling_wire::RateDebts;
use signaling_wire::trunk::{Attach, DetachReason, Request, ToNode};

use crate::node::{Node, SECOND, START, newcomer};

const DAY: u64 = 24 * 3600;

/// Sets the system clock of a node, in seconds since 1970.
fn set_clock(node: &mut Node, seconds: u64) {
    node.core.set_clock((node.now, UNIX_EPOCH + Duration::from_secs(seconds)));
}

/// Connects a client and returns its `welcome`. Then its socket is lost, so its session lingers.
fn welcome(node: &mut Node, client: &str, session: u8, resume: Option<&str>) -> Value {
    let trunk = node.core.trunk_up(node.now);
    let request = Request { resume, ..Request::default() };
    node.send_frame(trunk, &ToNode::Attach(Attach { request, ..newcomer(0, client, session) }));
    let greeting = node.take_output(trunk).greeting;
    node.send_frame(trunk, &ToNode::Detach { slot: 0, cause: DetachReason::Lost, debts: RateDebts::default() });
    serde_json::from_str(&greeting).unwrap()
}

#[test]
fn turn_credentials_follow_the_system_clock_when_it_is_set() {
    let mut node = Node::new("a");
    let turn = Turn { urls: ["turn:t".to_owned()].into(), secret: (*b"secret").into(), lifetime: 60 * SECOND };
    node.core.set_ice_servers(IceServers { turn: Some(turn), ..IceServers::default() });
    let username = |welcome: Value| welcome["ice_servers"][0]["username"].as_str().unwrap().to_owned();
    assert_eq!(username(welcome(&mut node, "anna", 1, None)), format!("{}:anna", START + 60));
    set_clock(&mut node, START + DAY);
    node.now += 5 * SECOND;
    assert_eq!(username(welcome(&mut node, "bert", 1, None)), format!("{}:bert", START + DAY + 65));
}

#[test]
fn resume_token_expires_by_the_system_clock() {
    for (days, resumed) in [(6, true), (8, false)] {
        let mut node = Node::new("a");
        let token = welcome(&mut node, "anna", 1, None)["resume"].as_str().unwrap().to_owned();
        set_clock(&mut node, START + days * DAY);
        assert_eq!(welcome(&mut node, "anna", 2, Some(&token))["resumed"], resumed, "{days} days later");
    }
}

#[test]
fn kick_is_dated_by_the_system_clock() {
    let (mut node, anna) = (Node::new("a"), KickName::new("anna"));
    node.core.learn_kick(node.now, None, &anna, START + DAY);
    assert_eq!(node.core.kicks().iter().count(), 0, "a kick of tomorrow is not believed");
    set_clock(&mut node, START + DAY);
    node.core.learn_kick(node.now, None, &anna, START + DAY);
    assert_eq!(node.core.kicks().iter().count(), 1);
}
