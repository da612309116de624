//! Properties of all translators for any input: no panic, valid output, and bounded state.
//!
//! A random translator follows a transcript of its dialect for a while. Then it receives lines of
//! the transcript in any order, objects of their fields, and other bytes.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::value::RawValue;
use signaling_dialects::peerjs::Keys;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client::{self, ClientMessage};

/// Maximum requests of one input.
const MAX_REQUESTS: usize = 512;
/// Maximum state of one translator: for rxdb two lists of 500 ids in 256 rooms, and requests.
const MAX_STATE: usize = 6 * 1024 * 1024;

fn prefix(dialect: Dialect) -> String {
    format!("~{}:", dialect.code())
}

/// Checks the output of one input of this size.
fn check(dialect: Dialect, out: &Out, input_bytes: usize, state_before: usize) {
    for request in &out.requests {
        let message = client::parse(request.as_bytes()).unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        let target = match &message {
            ClientMessage::Signal { to, .. } => to,
            ClientMessage::Join { room, .. } | ClientMessage::Leave { room, .. } => room,
            ClientMessage::Broadcast { room, .. } | ClientMessage::Members { room, .. } => room,
            other => panic!("{other:?}"),
        };
        let needs_id = !matches!(message, ClientMessage::Members { .. });
        let is_its =
            target.strip_prefix(&format!("~{}", dialect.code())).is_some_and(|rest| rest.starts_with([':', '.']));
        assert!(is_its && message.id().is_some() == needs_id, "{request:?}");
    }
    for frame in &out.frames {
        assert!(serde_json::from_str::<serde_json::Map<_, _>>(frame).is_ok(), "{frame}");
    }
    assert!(out.requests.len() <= MAX_REQUESTS);
    let written: usize = out.frames.iter().map(String::len).sum();
    // A frame about a player is longer than the player in the list of a room.
    assert!(written <= 3 * (input_bytes + state_before) + 1024, "{written} bytes for {input_bytes}");
}

/// A client of a translator, whose effects are checked.
struct Client {
    dialect: Dialect,
    translator: Translator,
    now: Instant,
}

impl Client {
    fn new(dialect: Dialect, target: &str) -> Self {
        let translator = crate::open(dialect, target, 0).translator;
        Self { dialect, translator, now: Instant::now() }
    }

    fn input_once(&mut self, input: Input<'_>) -> Out {
        let bytes = match input {
            Input::Mesh(text) | Input::Text(text) | Input::Binary(text) => text.len(),
            Input::Tick | Input::Pong => 0,
        };
        let (mut out, before) = (Out::default(), self.translator.retained_bytes());
        self.translator.input(self.now, input, &mut out);
        check(self.dialect, &out, bytes, before);
        out
    }

    fn is_due(&self) -> bool {
        self.translator.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    /// Passes an input, and then a tick if it is due. Returns the effects of the input.
    fn input(&mut self, input: Input<'_>) -> Out {
        let out = self.input_once(input);
        if self.is_due() {
            let ticked = self.input_once(Input::Tick);
            assert!(!self.is_due() || ticked.close.is_some(), "a tick must not be due at once again");
        }
        assert!(self.translator.retained_bytes() <= MAX_STATE);
        out
    }

    fn text(&mut self, text: &str) -> Out {
        self.input(Input::Text(text.as_bytes()))
    }

    fn mesh(&mut self, text: &str) -> Out {
        self.input(Input::Mesh(text.as_bytes()))
    }

    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.input(Input::Tick);
    }

    /// Passes the input in a line of a transcript.
    fn line(&mut self, line: &str) {
        match (crate::input(line), line.strip_prefix("wait ")) {
            (Some(input), _) => drop(self.input(input)),
            (None, Some(ms)) => self.wait(ms.parse().unwrap()),
            (None, None) => {}
        }
    }
}

/// Returns the target and the lines of each session in a transcript.
fn sessions(dialect: Dialect) -> Vec<(&'static str, Vec<&'static str>)> {
    let parts = crate::transcript(dialect).split("\nupgrade ").skip(1);
    let lines = parts.map(|part| part.lines().collect::<Vec<_>>()).filter(|lines| lines[1].starts_with("session"));
    lines.map(|lines| (lines[0], lines[1..].to_vec())).collect()
}

/// A random input.
#[derive(Debug, Clone)]
enum Pick {
    Line(Index),
    /// An object with names and values of other objects, by their indexes. `true`: from the mesh.
    Object(bool, Vec<(Index, Index)>),
    Bytes(Vec<u8>),
    Wait(u64),
}

fn pick() -> impl Strategy<Value = Pick> {
    let fields = prop::collection::vec(any::<(Index, Index)>(), 0..7);
    let bytes = prop_oneof![any::<Vec<u8>>(), r#"[\[\]{}":,a-z0-9 \\]{0,20}"#.prop_map(String::into_bytes)];
    prop_oneof![
        8 => any::<Index>().prop_map(Pick::Line),
        3 => (any::<bool>(), fields).prop_map(|(of_mesh, fields)| Pick::Object(of_mesh, fields)),
        1 => bytes.prop_map(Pick::Bytes),
        1 => (0_u64..10_000).prop_map(Pick::Wait),
    ]
}

proptest! {
    #[test]
    fn translator_survives_any_input(
        dialect in select(&Dialect::ALL[..]),
        (session, begin) in any::<(Index, Index)>(),
        picks in prop::collection::vec(pick(), 0..60),
    ) {
        let sessions = sessions(dialect);
        let all: Vec<&str> = sessions.iter().flat_map(|(_, lines)| lines).copied().collect();
        let objects = all.iter().filter_map(|line| line.split_once(' '));
        let fields: Vec<(String, Box<RawValue>)> = objects
            .filter_map(|(_, text)| serde_json::from_str::<std::collections::BTreeMap<_, _>>(text).ok())
            .flatten()
            .collect();
        let (target, lines) = session.get(&sessions);
        let mut client = Client::new(dialect, target);
        lines[..begin.index(lines.len())].iter().for_each(|line| client.line(line));
        for pick in picks {
            match pick {
                Pick::Line(line) => client.line(all[line.index(all.len())]),
                Pick::Object(of_mesh, parts) => {
                    let field = |(name, value): &(Index, Index)| {
                        format!("\"{}\": {}", name.get(&fields).0, value.get(&fields).1)
                    };
                    let parts: Vec<String> = parts.iter().map(field).collect();
                    let text = format!("{{{}}}", parts.join(","));
                    if of_mesh { client.mesh(&text) } else { client.text(&text) };
                }
                Pick::Bytes(bytes) => [Input::Text(&bytes), Input::Binary(&bytes), Input::Mesh(&bytes)]
                    .into_iter()
                    .for_each(|input| drop(client.input(input))),
                Pick::Wait(ms) => client.wait(ms),
            }
        }
    }

    #[test]
    fn request_survives_any_path_and_query(
        dialect in select(&Dialect::ALL[..]),
        path in "(/|peerjs|player|id|a|%|ä){0,5}",
        query in "((id|key|token|a)=?(peerjs|a|%2|%ff|\\+|=|ä){0,3}&?){0,6}",
        upgrade in any::<bool>(),
    ) {
        let settings = Settings { tokens: true, peerjs_keys: Keys::Any, ..Settings::default() };
        let head = Head { method: "GET", path: &path, query: &query, upgrade, ..Head::default() };
        if let Answer::Upgrade(opening) = dialect.request(&settings, &head, &[7; 32]) {
            prop_assert!(upgrade && opening.client_id.as_str().starts_with(&prefix(dialect)));
            let name = opening.client_id.as_str().trim_start_matches(&prefix(dialect));
            // A client may have the name `token`. Nothing else of the query is shown.
            let shown = format!("{opening:?} {head:?}").replace(name, "NAME");
            prop_assert!(!shown.contains("token"), "{}", shown);
        }
    }
}

#[test]
fn frame_with_10000_topics_joins_256() {
    let topics: Vec<String> = (0..10_000).map(|n| format!("\"{n}\"")).collect();
    let mut client = Client::new(Dialect::YWebrtc, "");
    let out = client.text(&format!(r#"{{"type":"subscribe","topics":[{}]}}"#, topics.join(",")));
    assert_eq!((out.requests.len(), client.translator.is_full()), (256, true));
    assert_eq!(out.events.iter().map(|(_, count)| count).sum::<u32>(), 10_000 - 256);
}

#[test]
fn flood_without_answers_stays_bounded() {
    let payload = "x".repeat(60_000);
    let recipient = "b".repeat(500);
    for (dialect, target, text) in [
        (Dialect::PeerJs, "/peerjs?key=peerjs&id=alice&token=t", format!(r#""OFFER","dst":"{recipient}","payload""#)),
        (Dialect::YWebrtc, "", r#""publish","topic":"t","data""#.to_owned()),
        (Dialect::Trystero, "", r#""publish","topic":"t","payload""#.to_owned()),
    ] {
        let (mut client, text) = (Client::new(dialect, target), format!(r#"{{"type":{text}:"{payload}"}}"#));
        let requests: usize = (0..2000).map(|_| client.text(&text).requests.len()).sum();
        assert!(client.translator.is_full() && requests <= MAX_REQUESTS, "{dialect:?}: {requests}");
        let bytes = client.translator.retained_bytes();
        assert!(bytes < 1024 * 1024, "{dialect:?}: {bytes}");
    }
}

#[test]
fn signals_of_unknown_senders_stay_bounded() {
    let mut client = Client::new(Dialect::Rxdb, "");
    client.text(r#"{"type":"join","room":"room-1"}"#);
    let mut held = |number: usize, bytes: usize| {
        let sender: String = format!("{number:012}").bytes().map(|digit| char::from(digit + 49)).collect();
        let data = "x".repeat(bytes);
        let message = format!(
            r#"{{"type":"signal","room":"room-1","senderPeerId":"{sender}","receiverPeerId":"aaaaaaaaaaaa","data":"{data}"}}"#
        );
        let text = format!(r#"{{"type":"signal","from":"~rx:{sender}","data":{{"k":"s","m":{message}}}}}"#);
        client.mesh(&text).events.is_empty()
    };
    assert_eq!((0..100).filter(|_| held(0, 1)).count(), 64);
    assert_eq!((100..2000).filter(|number| held(*number, 30_000)).count(), 34);
    assert!(client.translator.retained_bytes() < 2 * 1024 * 1024);
}

#[test]
fn matchbox_room_with_many_members_stays_bounded() {
    let mut client = Client::new(Dialect::Matchbox, "");
    client.mesh(r#"{"type":"welcome"}"#);
    client.mesh(r#"{"type":"joined","room":"~mb:","members":[],"more":false}"#);
    for change in ["joined", "left"] {
        for number in 0..6000 {
            let peer = format!(r#"[{{"client_id":"~mb:00000000-0000-4000-8001-{number:012}","reason":"left"}}]"#);
            client.mesh(&format!(r#"{{"type":"members_changed","room":"~mb:","{change}":{peer}}}"#));
        }
        assert!(client.translator.retained_bytes() < 512 * 1024);
    }
}

#[test]
fn gstreamer_state_and_lists_stay_bounded() {
    let mut client = Client::new(Dialect::GStreamer, "");
    for text in [r#"{"type":"welcome"}"#, r#"{"type":"ack","id":1}"#] {
        client.mesh(text);
    }
    let meta = "x".repeat(4000);
    for number in 0..1000 {
        let uuid = format!("{number:08}-0000-4000-8000-000000000000");
        let joined = format!(r#"{{"client_id":"~gs:{uuid}","data":{{"roles":["producer"],"meta":"{meta}","n":1}}}}"#);
        client.mesh(&format!(r#"{{"type":"members_changed","room":"~gs:","joined":[{joined}],"left":[]}}"#));
        client.text(&format!(r#"{{"type":"startSession","peerId":"{uuid}","offer":"{meta}"}}"#));
        client.text(&format!(r#"{{"type":"setPeerStatus","roles":["listener"],"meta":"{meta}"}}"#));
    }
    let bytes = client.translator.retained_bytes();
    assert!(client.translator.is_full() && bytes < 2 * 1024 * 1024, "{bytes}");
    let list = &client.text(r#"{"type":"list"}"#).frames[0];
    assert!(list.len() > 100 * 1024 && list.len() < 256 * 1024, "{}", list.len());
}

#[test]
fn peerjs_envelope_is_within_its_limit() {
    let target = format!("/peerjs?key=peerjs&token=t&id={}", "%22".repeat(255));
    let mut translator = crate::open(Dialect::PeerJs, &target, 255).translator;
    let text = format!(r#"{{"type":"CANDIDATE","dst":"{}","payload":1}}"#, "b".repeat(120));
    let mut out = Out::default();
    translator.input(Instant::now(), Input::Text(text.as_bytes()), &mut out);
    let added = out.requests[0].len() - "1".len();
    assert!(added <= signaling_dialects::dialect::ENVELOPE_BYTES, "{added}");
}

#[test]
fn request_ids_of_a_resumed_peerjs_session_do_not_repeat() {
    let first_id = |random| {
        let mut translator = crate::open(Dialect::PeerJs, "/peerjs?key=peerjs&id=alice&token=t", random).translator;
        let mut out = Out::default();
        translator.input(Instant::now(), Input::Text(br#"{"type":"OFFER","dst":"bob"}"#), &mut out);
        client::parse(out.requests[0].as_bytes()).unwrap().id().unwrap()
    };
    let (one, other) = (first_id(1), first_id(255));
    assert!(one.abs_diff(other) >= 1 << 20, "{one} {other}");
}

#[test]
fn messages_of_an_undecided_player_stay_bounded() {
    let mut client = Client::new(Dialect::PixelStreaming, "/player");
    let sdp = "x".repeat(60_000);
    client.text(r#"{"type":"subscribe","streamerId":"Foo"}"#);
    for number in 0..200 {
        client.text(&format!(r#"{{"type":"offer","sdp":"{sdp}"}}"#));
        let data = format!(r#"{{"k":"m","s":1,"m":{{"sdp":"{sdp}"}}}}"#);
        client.mesh(&format!(r#"{{"type":"signal","from":"~ps:u:{number}","data":{data}}}"#));
    }
    let bytes = client.translator.retained_bytes();
    assert!(client.translator.is_full() && bytes < 1_200_000, "{bytes}");
}

#[test]
fn list_of_streamers_has_at_most_2000_ids() {
    let mut client = Client::new(Dialect::PixelStreaming, "/player");
    assert_eq!(client.text(r#"{"type":"listStreamers"}"#).requests.len(), 1);
    for page in 0..5 {
        let member = |n| format!(r#"{{"client_id":"~ps:u:{n}","data":{{"id":"S{n}"}}}}"#);
        let members: Vec<String> = (page * 500..(page + 1) * 500).map(member).collect();
        let members = members.join(",");
        let after = if page > 0 { format!(r#","after":"~ps:u:{}""#, page * 500 - 1) } else { String::new() };
        let page_text = format!(r#"{{"type":"joined","room":"~ps.q:list","members":[{members}],"more":true{after}}}"#);
        let out = client.mesh(&page_text);
        assert_eq!(out.requests.len(), usize::from(page < 3));
        let ids: Vec<usize> = out.frames.iter().map(|frame| frame.matches(r#""S"#).count()).collect();
        assert_eq!(ids, if page == 3 { vec![2000] } else { Vec::new() });
    }
}
