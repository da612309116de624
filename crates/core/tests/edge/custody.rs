//! Regression tests of the edge's core for faults from simulations, each as its shortest course of
//! events.

use std::time::{Duration, Instant};

use signaling_core::edge::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, Reading, Settings};
use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{DeliveryOutcome, DetachReason, Origin, Slot, ToEdge, ToNode};
use signaling_wire::{DownSeq, MessageNumber, RemainingTtl, Seq, SessionId};

const HOLD: RemainingTtl = RemainingTtl::NONE;

struct Edge {
    core: EdgeCore,
    now: Instant,
}

impl Edge {
    fn new() -> Self {
        Self { core: EdgeCore::new(Settings::default()), now: Instant::now() }
    }

    fn connect(&mut self) -> ClientKey {
        self.connect_as(false)
    }

    fn connect_as(&mut self, reliable: bool) -> ClientKey {
        let newcomer = Newcomer {
            client_id: ClientId::new("anna").unwrap(),
            session: SessionId([1; 16]),
            accepted_at_us: 1,
            reliable,
            request: ConnectRequest::default(),
        };
        let client = self.core.connect(self.now, newcomer);
        assert_eq!(self.core.next_effect(), Some(Effect::AssignNode(client)));
        client
    }

    /// A client with an open socket, attached through `link` in slot 0.
    fn open(&mut self, link: LinkKey) -> ClientKey {
        let client = self.connect();
        self.let_in(client, link);
        client
    }

    /// A reliable client with an open socket, attached through `link` in slot 0.
    fn open_reliable(&mut self, link: LinkKey) -> ClientKey {
        let client = self.connect_as(true);
        self.let_in(client, link);
        client
    }

    fn let_in(&mut self, client: ClientKey, link: LinkKey) {
        self.core.attach(self.now, client, link);
        self.hear(link, &[attached(0)]);
        assert_eq!(self.core.next_effect(), Some(Effect::Accept(client)));
        self.core.socket_opened(self.now, client);
        self.said(link);
    }

    fn received(&mut self, client: ClientKey, n: u64) {
        let text = format!(r#"{{"type":"received","n":{n}}}"#);
        self.core.client_text(self.now, client, text.as_bytes());
    }

    /// Returns the unwritten output as text.
    fn output(&self, client: ClientKey) -> String {
        String::from_utf8_lossy(self.core.output(client)).into_owned()
    }

    /// Advances the time, with a sweep every half second.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(500);
            self.core.sweep(self.now);
        }
    }

    fn hear(&mut self, link: LinkKey, frames: &[ToEdge<'_>]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.append(&mut bytes));
        self.core.link_frames(self.now, link, &bytes).unwrap();
    }

    fn write_all(&mut self, client: ClientKey) {
        let count = self.core.output(client).len();
        self.core.wrote(self.now, client, count);
    }

    fn said(&mut self, link: LinkKey) -> Vec<String> {
        let batch = self.core.take_batch(link);
        let mut rest = &batch[..];
        let mut said = Vec::new();
        while !rest.is_empty() {
            said.push(match ToNode::take(&mut rest).unwrap() {
                ToNode::Attach(attach) if attach.grant.is_some() => format!("attach proven {}", attach.slot),
                ToNode::Attach(attach) => format!("attach {} known {}", attach.slot, attach.state.is_some()),
                ToNode::Grant { slot, .. } => format!("grant {slot}"),
                ToNode::Up { slot, seq, .. } => format!("up {slot} {seq}"),
                ToNode::Confirm { slot, up_to, .. } => format!("confirm {slot} {up_to}"),
                ToNode::Detach { slot, .. } => format!("detach {slot}"),
                ToNode::Release { slot, .. } => format!("release {slot}"),
                ToNode::Alive { slot } => format!("alive {slot}"),
                ToNode::Kicked { client_id, at } => format!("kicked {client_id} {at}"),
            });
        }
        said
    }
}

/// Returns the reason of a detach that the node receives.
fn detach_reason(batch: &[u8]) -> Option<DetachReason> {
    let mut rest = batch;
    while !rest.is_empty() {
        if let ToNode::Detach { cause, .. } = ToNode::take(&mut rest).unwrap() {
            return Some(cause);
        }
    }
    None
}

fn attached(slot: Slot) -> ToEdge<'static> {
    let session = SessionId([1; 16]);
    ToEdge::Attached { slot, session, resumed: false, seq: Seq(0), hold: HOLD, greeting: &[], state: b"admitted" }
}

fn down(slot: Slot, d: u64) -> ToEdge<'static> {
    message(slot, d, 1)
}

fn message(slot: Slot, d: u64, number: u64) -> ToEdge<'static> {
    let origin = Some(Origin { session: SessionId([2; 16]), number: MessageNumber(number) });
    let ttl = RemainingTtl::from_duration(Duration::from_secs(1));
    ToEdge::Down { slot, down_seq: DownSeq(d), origin, prev_pending: MessageNumber::NONE, ttl, payload: b"{}" }
}

#[test]
fn frames_before_a_fault_are_executed() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    let mut bytes = Vec::new();
    (1..=70).for_each(|d| message(0, d, d).append(&mut bytes));
    bytes.extend([0xff; 3]);
    assert!(edge.core.link_frames(edge.now, link, &bytes).is_err());
    assert_eq!(edge.output(client).matches("{}").count(), 70);
}

#[test]
fn confirms_follow_a_session_to_its_next_link() {
    let mut edge = Edge::new();
    let (old, new) = (edge.core.link_up(), edge.core.link_up());
    let client = edge.open(old);
    edge.hear(old, &[down(0, 1)]);
    edge.write_all(client);
    edge.core.link_down(old);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    edge.hear(new, &[attached(0), down(0, 1)]);
    assert_eq!(edge.said(new), ["attach 0 known true", "confirm 0 1"]);
}

#[test]
fn link_carries_no_confirms_of_a_session_that_has_left_it() {
    let mut edge = Edge::new();
    let (old, new) = (edge.core.link_up(), edge.core.link_up());
    let client = edge.open(old);
    edge.core.release(client, "b");
    edge.hear(old, &[down(0, 1)]);
    edge.write_all(client);
    edge.hear(old, &[ToEdge::Released { slot: 0, state: b"admitted" }]);
    edge.core.attach(edge.now, client, new);
    edge.hear(new, &[attached(0), down(0, 1)]);
    assert_eq!(edge.said(old), ["release 0"]);
    assert_eq!(edge.said(new), ["attach 0 known true", "confirm 0 1"]);
}

#[test]
fn backlog_does_not_keep_confirms() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.hear(link, &[down(0, 1)]);
    edge.write_all(client);
    let text = format!(r#"{{"type":"signal","to":"ben","data":"{}"}}"#, "x".repeat(60_000));
    for _ in 0..6 {
        edge.core.client_text(edge.now, client, text.as_bytes());
    }
    assert_eq!(edge.said(link), ["up 0 1", "up 0 2", "up 0 3", "up 0 4", "up 0 5", "confirm 0 1"]);
    assert_eq!(edge.said(link), ["up 0 6"]);
}

#[test]
fn last_messages_of_a_replaced_client_reach_a_node() {
    let mut edge = Edge::new();
    let (old, new) = (edge.core.link_up(), edge.core.link_up());
    let client = edge.open(old);
    edge.core.client_text(edge.now, client, br#"{"type":"signal"}"#);
    edge.core.link_down(old);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    let (code, message) = ("replaced", "a newer connection");
    edge.hear(new, &[ToEdge::Rejected { slot: 0, status: 409, code, message, retry_after_ms: None }]);
    assert!(matches!(edge.core.next_effect(), Some(Effect::Close(..))));
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    assert_eq!(edge.said(new), ["attach 0 known true", "up 0 1", "attach 1 known true", "up 1 1"]);
    edge.hear(
        new,
        &[ToEdge::Outcomes { slot: 1, first: Seq(1), count: 1, outcome: DeliveryOutcome::Done, reply: &[] }],
    );
    assert_eq!(edge.said(new), ["detach 1"], "the node may forget it");
    assert!(edge.core.is_empty());
}

#[test]
fn newcomer_moved_before_admission_attaches_as_newcomer() {
    let mut edge = Edge::new();
    let (old, new) = (edge.core.link_up(), edge.core.link_up());
    let client = edge.connect();
    edge.core.attach(edge.now, client, old);
    edge.core.release(client, "b");
    edge.hear(old, &[ToEdge::Released { slot: 0, state: &[] }]);
    assert_eq!(edge.core.next_effect(), Some(Effect::AssignNode(client)));
    edge.core.attach(edge.now, client, new);
    assert_eq!(edge.said(new), ["attach 0 known false"]);
}

#[test]
fn session_without_frames_leaves_with_its_socket() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.core.socket_closed(client, DetachReason::Lost);
    assert_eq!(edge.said(link), ["detach 0"]);
    assert!(edge.core.is_empty());
}

#[test]
fn client_that_requests_without_reading_is_too_slow() {
    for ask in [
        (|core: &mut EdgeCore, now, client| {
            core.client_text(now, client, br#"{"type":"ping"}"#);
        }) as fn(&mut EdgeCore, Instant, ClientKey),
        |core, now, client| {
            core.client_ping(now, client, &[b'x'; 125]);
        },
    ] {
        let mut edge = Edge::new();
        let link = edge.core.link_up();
        let client = edge.open(link);
        (0..100_000).for_each(|_| ask(&mut edge.core, edge.now, client));
        match edge.core.next_effect() {
            Some(Effect::Close(_, code, last_words)) => {
                assert_eq!(code, CloseCode::TOO_SLOW);
                assert!(last_words.len() < 600 * 1024);
            }
            other => panic!("{other:?}"),
        }
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
        let mut edge = Edge::new();
        let link = edge.core.link_up();
        let client = edge.open(link);

        edge.core.client_left(client, code.map(CloseCode));

        let Some(Effect::Close(_, _, answer)) = edge.core.next_effect() else { panic!("{code:?} is not answered") };
        let body = code.map(u16::to_be_bytes);
        let body = body.as_ref().map_or(&[][..], |code| code);
        assert!(answer.ends_with(&[&[0x88, body.len() as u8], body].concat()), "{code:?}: {answer:?}");
        assert_eq!(detach_reason(&edge.core.take_batch(link)), Some(gone), "{code:?}");
    }
}

#[test]
fn message_is_confirmed_when_the_reliable_client_received_it() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open_reliable(link);
    edge.hear(link, &[message(0, 1, 1), message(0, 2, 2), message(0, 3, 3)]);
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
    let mut edge = Edge::new();
    let (old, new) = (edge.core.link_up(), edge.core.link_up());
    let client = edge.open_reliable(old);
    edge.hear(old, &[message(0, 1, 1), message(0, 2, 2)]);
    edge.write_all(client);
    edge.received(client, 1);
    edge.core.link_down(old);
    edge.core.attach(edge.now, client, new);
    edge.hear(new, &[attached(0), message(0, 1, 1), message(0, 2, 2), message(0, 3, 3)]);
    assert_eq!(edge.said(new), ["attach 0 known true", "confirm 0 1"]);
    assert!(edge.output(client).contains(r#""n":3,"#), "numbers go on on one socket");
    edge.write_all(client);
    edge.received(client, 2);
    assert_eq!(edge.said(new), ["confirm 0 2"]);
}

#[test]
fn unreceived_messages_return_to_the_node_when_a_socket_ends() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open_reliable(link);
    edge.hear(link, &[message(0, 1, 1), message(0, 2, 2)]);
    edge.write_all(client);
    edge.received(client, 1);
    edge.core.socket_closed(client, DetachReason::Lost);
    assert_eq!(edge.said(link), ["confirm 0 1", "detach 0"]);
}

#[test]
fn reliable_client_without_received_is_closed_as_too_slow() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open_reliable(link);
    edge.hear(link, &[message(0, 1, 1)]);
    edge.pass(Duration::from_secs(9));
    assert_eq!(edge.core.next_effect(), None, "its socket has not taken it yet");
    edge.write_all(client);
    edge.pass(Duration::from_secs(4));
    edge.received(client, 1);
    edge.hear(link, &[message(0, 2, 2)]);
    edge.write_all(client);
    edge.pass(Duration::from_millis(4_500));
    assert_eq!(edge.core.next_effect(), None);
    edge.pass(Duration::from_secs(1));
    assert!(matches!(edge.core.next_effect(), Some(Effect::Close(_, CloseCode::TOO_SLOW, _))));
    assert_eq!(edge.said(link), ["confirm 0 1", "detach 0"]);
}

#[test]
fn received_is_in_time_when_the_edge_was_paused() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open_reliable(link);
    edge.hear(link, &[message(0, 1, 1)]);
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
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open_reliable(link);
    edge.hear(link, &[message(0, 1, 1)]);
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
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.hear(link, &[message(0, 1, 1)]);
    assert!(edge.output(client).ends_with("{}"));
    edge.received(client, 9);
    assert!(edge.output(client).ends_with("{}"), "no answer");
    assert!(edge.said(link).is_empty());
    edge.write_all(client);
    assert_eq!(edge.said(link), ["confirm 0 1"]);
}

/// Outcomes of the client's own requests, each with a reply.
fn acked(slot: Slot, first: u64, reply: &str) -> ToEdge<'_> {
    ToEdge::Outcomes { slot, first: Seq(first), count: 1, outcome: DeliveryOutcome::Done, reply: reply.as_bytes() }
}

fn last_words(edge: &mut Edge) -> (CloseCode, String) {
    match edge.core.next_effect() {
        Some(Effect::Close(_, code, words)) => (code, String::from_utf8_lossy(&words).into_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ack_before_a_duplicate_is_among_the_last_words() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.core.client_text(edge.now, client, br#"{"type":"signal"}"#);
    edge.hear(link, &[message(0, 1, 1)]);
    edge.write_all(client);
    edge.hear(link, &[acked(0, 1, r#"{"type":"ack","id":1}"#), message(0, 2, 1)]);
    edge.core.close(client, CloseCode::GOING_AWAY, "");
    let (_, words) = last_words(&mut edge);
    assert!(words.contains(r#""type":"ack""#), "{words}");
}

#[test]
fn message_queued_before_a_handoff_is_not_in_the_last_words() {
    for lost in [true, false] {
        let mut edge = Edge::new();
        let (old, new) = (edge.core.link_up(), edge.core.link_up());
        let client = edge.open(old);
        edge.hear(old, &[message(0, 1, 1)]);
        if lost {
            edge.core.link_down(old);
        } else {
            edge.core.release(client, "b");
            edge.hear(old, &[ToEdge::Released { slot: 0, state: b"admitted" }]);
        }
        edge.core.next_effect();
        edge.core.attach(edge.now, client, new);
        edge.hear(new, &[attached(0), message(0, 1, 1), message(0, 2, 2)]);
        edge.core.close(client, CloseCode::GOING_AWAY, "");
        let (_, words) = last_words(&mut edge);
        assert!(!words.contains("{}"), "both go to the client's next socket: {words}");
        assert!(!edge.said(new).contains(&"confirm 0 1".to_owned()));
    }
}

#[test]
fn probe_is_answered_for_a_client_that_is_not_read() {
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.core.heard(edge.now, client);
    while edge.core.client_text(edge.now, client, br#"{"type":"signal"}"#) == Reading::On {}
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
    let mut edge = Edge::new();
    let link = edge.core.link_up();
    let client = edge.open(link);
    edge.hear(link, &[ToEdge::Probe { slot: 0 }]);
    assert!(edge.said(link).is_empty());
    edge.core.heard(edge.now, client);
    assert_eq!(edge.said(link), ["alive 0"]);
}
