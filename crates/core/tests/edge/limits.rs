//! Reactions of the edge's core to clients that send too much, and to a shortage of memory.

use std::time::Duration;

use signaling_core::edge::{ClientKey, Effect, KickName, Rate, RateLimits, Reading, VerifiedToken};
use signaling_core::rate_class::RateClass;
use signaling_protocol::CloseCode;
use signaling_wire::RateDebts;
use signaling_wire::trunk::{Slot, ToEdge, ToNode};

use crate::stage::{Edge, attached, done, down};
use crate::tokens::verified;

const RATE: Option<Rate> = Some(Rate { per_second: 10, burst: 10 });
const MESSAGES: RateLimits = RateLimits { messages: RATE, bytes: None, controls: None };
const CONTROLS: RateLimits = RateLimits { messages: None, bytes: None, controls: RATE };

impl Edge {
    fn paced(rates: RateLimits) -> Self {
        Self::with(|settings| settings.rates = rates)
    }

    /// Creates an edge with these rates, and a plain client in slot 0.
    fn with_paced(rates: RateLimits) -> (Self, ClientKey) {
        let mut edge = Self::paced(rates);
        let client = edge.open(false);
        (edge, client)
    }

    /// Counts the uplink messages since the last call.
    fn ups(&mut self) -> usize {
        self.said(self.link).iter().filter(|said| said.starts_with("up ")).count()
    }

    /// Takes the client's output as text.
    fn hears(&mut self, client: ClientKey) -> String {
        let text = self.output(client);
        self.write_all(client);
        text
    }

    fn outcomes(&mut self, slot: Slot, first: u64, count: u32) {
        self.hear(self.link, &[done(slot, first, count, "")]);
    }
}

fn signal(id: u64) -> String {
    format!(r#"{{"type":"signal","to":"bob","data":1,"id":{id}}}"#)
}

#[test]
fn message_over_the_rate_is_refused_with_a_wait_and_dropped() {
    let (mut edge, client) = Edge::with_paced(MESSAGES);
    (1..=11).for_each(|id| assert_eq!(edge.say(client, &signal(id)), Reading::On));
    assert_eq!(edge.ups(), 10);
    let said = edge.hears(client);
    for part in [r#""code":"rate_limited""#, r#""id":11"#, r#""to":"bob""#, r#""retry_after_ms":100"#] {
        assert!(said.contains(part), "{said}");
    }
    edge.now += Duration::from_millis(100);
    edge.say(client, &signal(12));
    assert_eq!((edge.ups(), edge.hears(client).as_str(), edge.core.counts().over_message_rate), (1, "", 1));
}

#[test]
fn client_with_many_refusals_is_read_more_slowly() {
    let (mut edge, client) = Edge::with_paced(MESSAGES);
    (1..1_010).for_each(|id| assert_eq!(edge.say(client, &signal(id)), Reading::On));
    assert_eq!(edge.say(client, &signal(1_010)), Reading::Paused, "10 were accepted, and 1,000 refused");
    assert_eq!((edge.ups(), edge.core.counts().over_message_rate), (10, 1_000));

    edge.now += Duration::from_millis(4);
    edge.core.sweep(edge.now);
    assert!(!edge.reads_again(client));
    edge.now += Duration::from_millis(1);
    edge.core.sweep(edge.now);
    assert!(edge.reads_again(client));
    assert_eq!(edge.say(client, &signal(1_011)), Reading::Paused);
    assert_eq!((edge.ups(), edge.core.counts().over_message_rate), (0, 1_001));
}

#[test]
fn welcome_has_the_rates_of_the_client_and_their_levels() {
    let mut edge = Edge::paced(MESSAGES);
    let client = edge.connect(false, None, None);
    edge.admit(client, r#"{"type":"welcome"}"#);
    edge.core.socket_opened(edge.now, client);
    let welcome = r#"{"type":"welcome","rate":{"messages":10,"burst":10,"now":10}}"#;
    assert!(edge.hears(client).ends_with(welcome));
}

#[test]
fn client_that_ignores_refusals_for_5_s_is_closed() {
    let (mut edge, client) = Edge::with_paced(MESSAGES);
    let (start, step) = (edge.now, Duration::from_millis(10));
    let code = (0..1_000).find_map(|_| {
        edge.now += step;
        edge.say(client, &signal(1));
        edge.hears(client);
        edge.closed()
    });
    assert_eq!((code, edge.core.counts().rate_abuses), (Some(CloseCode::RATE_ABUSE), 1));
    // The burst lasts 0.1 s.
    let after = edge.now - start;
    assert!((5_100..5_300).contains(&after.as_millis()), "{after:?}");
}

#[test]
fn received_is_read_when_a_client_exceeds_its_rate() {
    let mut edge = Edge::paced(MESSAGES);
    let client = edge.open(true);
    for id in 1..=20 {
        edge.say(client, &signal(id));
    }
    edge.hears(client);
    assert_eq!(edge.say(client, r#"{"type":"received","n":99}"#), Reading::On);
    assert!(edge.hears(client).contains("`received` names 99"));
}

#[test]
fn client_with_too_many_control_frames_is_closed() {
    let controls: [fn(&mut Edge, ClientKey) -> Reading; 3] = [
        |edge, client| edge.say(client, r#"{"type":"ping"}"#),
        |edge, client| edge.core.client_ping(edge.now, client, b"p"),
        |edge, client| edge.core.client_pong(edge.now, client),
    ];
    for control in controls {
        let (mut edge, client) = Edge::with_paced(CONTROLS);
        (0..10).for_each(|_| assert_eq!(control(&mut edge, client), Reading::On));
        edge.hears(client);
        assert_eq!(control(&mut edge, client), Reading::Paused);
        assert_eq!(edge.closed(), Some(CloseCode::POLICY));
    }
}

#[test]
fn pongs_that_the_edge_asked_for_cost_nothing() {
    let (mut edge, client) = Edge::with_paced(CONTROLS);
    for _ in 0..30 {
        edge.hear(edge.link, &[ToEdge::Probe { slot: 0 }, ToEdge::Probe { slot: 0 }]);
        assert_eq!(edge.core.output(client).len(), 2, "one ping until it answers");
        edge.write_all(client);
        edge.core.heard(edge.now, client);
        assert_eq!(edge.core.client_pong(edge.now, client), Reading::On);
    }
    (0..10).for_each(|_| assert_eq!(edge.core.client_pong(edge.now, client), Reading::On));
    assert_eq!(edge.core.client_pong(edge.now, client), Reading::Paused);
}

#[test]
fn sockets_of_a_token_subject_share_its_rate() {
    let mut edge = Edge::paced(MESSAGES);
    let token = VerifiedToken { subject: Some(KickName::new("auth0|7")), ..verified(b"", None) };
    for passes in [8, 2, 0] {
        let client = edge.connect(false, Some(token.clone()), None);
        edge.admit(client, "");
        edge.core.socket_opened(edge.now, client);
        edge.ups();
        (0..8).for_each(|id| _ = edge.say(client, &signal(id)));
        assert_eq!(edge.ups(), passes);
        edge.core.client_left(client, Some(CloseCode::NORMAL));
        assert_eq!(edge.closed(), Some(CloseCode::NORMAL));
    }
}

#[test]
fn rates_used_at_another_edge_count_after_a_resume() {
    let (mut edge, client) = Edge::with_paced(MESSAGES);
    let mut resumed = attached(0, "");
    if let ToEdge::Attached { debts, .. } = &mut resumed {
        debts.messages = 700;
    }
    edge.hear(edge.link, &[resumed]);
    (0..8).for_each(|id| _ = edge.say(client, &signal(id)));
    assert_eq!(edge.ups(), 3);
}

#[test]
fn open_socket_that_attaches_again_reports_no_debts() {
    let (mut edge, client) = Edge::with_paced(MESSAGES);
    (0..8).for_each(|id| _ = edge.say(client, &signal(id)));
    let (old, new) = (edge.link, edge.core.link_up(edge.now, edge.now));
    edge.core.link_down(old);
    edge.core.attach(edge.now, client, new);
    let batch = edge.core.take_batch(new);
    let ToNode::Attach(attach) = ToNode::take(&mut &batch[..]).unwrap() else { panic!("no attach") };
    assert_eq!(attach.debts, RateDebts::default(), "the answer would charge them once more");
}

#[test]
fn rate_class_sets_the_rate_and_an_unknown_one_the_default() {
    let class = |name: &str| RateClass::new(name).unwrap();
    let few = RateLimits { messages: Some(Rate { per_second: 2, burst: 2 }), ..RateLimits::default() };
    let mut edge = Edge::with(|settings| {
        settings.rates = MESSAGES;
        settings.rate_classes = [(class("bots"), few)].into();
    });
    for (rate_class, passes) in [(Some("bots"), 2), (Some("people"), 10), (None, 10)] {
        let client = edge.open(false);
        edge.core.renewed(client, VerifiedToken { rate_class: rate_class.map(class), ..verified(b"", None) });
        edge.ups();
        for id in 0..20 {
            edge.say(client, &signal(id));
        }
        assert_eq!(edge.ups(), passes, "{rate_class:?}");
    }
}

#[test]
fn clients_are_read_less_while_memory_is_short() {
    let mut edge = Edge::with(|settings| settings.max_memory_bytes = 100_000);
    let (greedy, modest) = (edge.open(false), edge.open(false));
    let text = format!(r#"{{"type":"signal","to":"bob","data":"{}"}}"#, "x".repeat(5_000));
    let mut greedy_said = 0;
    while edge.say(greedy, &text) == Reading::On {
        greedy_said += 1;
    }
    assert!((9..=10).contains(&greedy_said), "half of the memory: {greedy_said}");
    (0..3).for_each(|_| assert_eq!(edge.say(modest, &text), Reading::On));
    assert_eq!(edge.say(modest, &text), Reading::Paused, "16 KiB for each");

    // `greedy` has all outcomes, so it is read at once. `modest` is read after the next sweep.
    edge.outcomes(0, 1, greedy_said + 1);
    (0..2).for_each(|_| edge.core.sweep(edge.now));
    let effects: Vec<_> = std::iter::from_fn(|| edge.core.next_effect()).collect();
    assert_eq!(effects, [Effect::Read(greedy), Effect::Read(modest)]);
    assert!(edge.core.kept() < 25_000, "{}", edge.core.kept());
}

#[test]
fn clients_with_the_most_unread_output_close_without_memory() {
    let mut edge = Edge::with(|settings| settings.max_memory_bytes = 300_000);
    let (deaf, slow, idle) = (edge.open(false), edge.open(false), edge.open(false));
    let payload = vec![b'x'; 50_000];
    for (slot, count) in [(0, 5), (1, 2)] {
        for d in 1..=count {
            edge.hear(edge.link, &[down(slot, d, u64::from(slot) * 10 + d, &payload)]);
        }
    }
    edge.core.sweep(edge.now);
    let closed: Vec<_> = std::iter::from_fn(|| edge.core.next_effect())
        .filter_map(|effect| match effect {
            Effect::Close(client, code, _) => Some((client, code)),
            _ => None,
        })
        .collect();
    assert_eq!(closed, [(deaf, CloseCode::TOO_SLOW)]);
    assert_eq!(edge.core.counts().evicted, 1);
    edge.core.sweep(edge.now);
    assert_eq!(edge.closed(), None);
    assert!([slow, idle].iter().all(|client| edge.core.identity(*client).is_some()));
}
