//! Properties of all translators for any input: no panic, valid output, and bounded state.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use signaling_dialects::peerjs::Keys;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator, name};
use signaling_protocol::client::{self, ClientMessage};

/// Maximum requests of one input.
const MAX_REQUESTS: usize = 512;
/// Maximum state of one translator: for rxdb two lists of 500 ids in 256 rooms, and requests.
const MAX_STATE: usize = 6 * 1024 * 1024;

fn open(dialect: Dialect) -> Translator {
    open_at(dialect, path_of(dialect), "key=peerjs&id=alice&token=t")
}

fn path_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::PeerJs => "/peerjs",
        Dialect::PixelStreaming => "/sfu",
        _ => "",
    }
}

fn open_at(dialect: Dialect, path: &str, query: &str) -> Translator {
    let settings = Settings::default();
    let head = Head { method: "GET", path, query, upgrade: true, ..Head::default() };
    let Answer::Upgrade(mut opening) = dialect.request(&settings, &head, &[0; 32]) else { panic!("{dialect:?}") };
    if dialect == Dialect::GStreamer {
        for text in GSTREAMER_WELCOME {
            opening.translator.input(Instant::now(), Input::Mesh(text.as_bytes()), &mut Out::default());
        }
    }
    opening.translator
}

/// Messages of the mesh before a GStreamer client is read.
const GSTREAMER_WELCOME: [&str; 3] = [
    r#"{"type":"welcome"}"#,
    r#"{"type":"joined","room":"~gs:","members":[{"client_id":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","data":{"roles":["producer"],"meta":null,"n":1}}]}"#,
    r#"{"type":"ack","id":1}"#,
];

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
        assert!(name::is_of(dialect, target) && message.id().is_some() == needs_id, "{request:?}");
    }
    for frame in &out.frames {
        assert!(serde_json::from_str::<serde_json::Map<_, _>>(frame).is_ok(), "{frame}");
    }
    assert!(out.requests.len() <= MAX_REQUESTS);
    let written: usize = out.frames.iter().map(String::len).sum();
    // A frame about a player is longer than the player in the list of a room.
    assert!(written <= 3 * (input_bytes + state_before) + 1024, "{written} bytes for {input_bytes}");
}

/// Passes an input, and then all ticks that are due.
fn pass(dialect: Dialect, translator: &mut Translator, now: Instant, input: Input<'_>) {
    let size = match input {
        Input::Mesh(text) | Input::Text(text) | Input::Binary(text) => text.len(),
        Input::Tick | Input::Pong => 0,
    };
    let (mut out, before) = (Out::default(), translator.retained_bytes());
    translator.input(now, input, &mut out);
    check(dialect, &out, size, before);
    if translator.deadline().is_some_and(|deadline| deadline <= now) {
        let (mut out, before) = (Out::default(), translator.retained_bytes());
        translator.input(now, Input::Tick, &mut out);
        check(dialect, &out, 0, before);
        let is_later = translator.deadline().is_none_or(|deadline| deadline > now);
        assert!(is_later || out.close.is_some(), "a tick must not be due at once again");
    }
    assert!(translator.retained_bytes() <= MAX_STATE);
}

/// A text of a client or of the mesh.
#[derive(Debug, Clone)]
enum Step {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Mesh(Vec<u8>),
    Pong,
    Wait(u64),
}

const FIELDS: &[&str] = &[
    "Signal",
    "more",
    "code",
    "r",
    "d",
    "type",
    "type",
    "dst",
    "payload",
    "topic",
    "topics",
    "data",
    "room",
    "senderPeerId",
    "receiverPeerId",
    "from",
    "id",
    "retry_after_ms",
    "members",
    "joined",
    "left",
    "reason",
    "k",
    "p",
    "m",
    "s",
    "roles",
    "roles",
    "meta",
    "peerId",
    "peerId",
    "sessionId",
    "sessionId",
    "sdp",
    "ice",
    "offer",
    "error",
    "version",
    "sid",
    "more",
];
const VALUES: &[&str] = &[
    r#"{"receiver":"11111111-1111-4111-8111-111111111111","data":[ ]}"#,
    r#"[{"client_id":"~mb:11111111-1111-4111-8111-111111111111","data":{"t":"11111111-1111-4111-8111-111111111111"}}]"#,
    r#""~mb:""#,
    r#""~mb::2""#,
    r#""~mb::2:11111111-1111-4111-8111-111111111111""#,
    r#""overloaded""#,
    "true",
    r#""OFFER""#,
    r#""LEAVE""#,
    r#""subscribe""#,
    r#""unsubscribe""#,
    r#""publish""#,
    r#""join""#,
    r#""signal""#,
    r#""bob""#,
    r#""aaaaaaaaaaaa""#,
    r#""bbbbbbbbbbbb""#,
    r#""room-1""#,
    r#""\ud83d\ude00\u0000\"""#,
    r#"["a","b",1]"#,
    r#"[{"client_id":"~rx:bbbbbbbbbbbb","data":[ ]}]"#,
    r#"[{"client_id":"~rx:aaaaaaaaaaaa","reason":"left"}]"#,
    r#""~rx:room-1""#,
    r#""~yw:a""#,
    r#""expired""#,
    r#""\ud800""#,
    "null",
    "1",
    "2",
    "5000",
    r#"{"x":{}}"#,
    "true",
    r#""setPeerStatus""#,
    r#""setPeerStatus""#,
    r#""startSession""#,
    r#""startSession""#,
    r#""peer""#,
    r#""list""#,
    r#""endSession""#,
    r#""endSessionV1_1""#,
    r#"["producer"]"#,
    r#"["consumer","listener"]"#,
    r#""~gs:""#,
    r#""bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb""#,
    r#""cccccccc-cccc-4ccc-cccc-cccccccccccc""#,
    r#"{"type":"offer","sdp":"v=0"}"#,
    r#"{"candidate":"","sdpMLineIndex":0}"#,
    r#"[{"client_id":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","reason":"left","data":{"roles":["producer"],"meta":{},"n":2}}]"#,
];
/// Messages of the mesh that continue a session.
const MESSAGES: &[&str] = &[
    r#"{"type":"welcome"}"#,
    r#"{"type":"ack","id":3}"#,
    r#"{"type":"error","code":"overloaded","message":"","id":3}"#,
    r#"{"type":"joined","room":"~mb:","members":[{"client_id":"~mb:11111111-1111-4111-8111-111111111111"}],"more":true}"#,
    r#"{"type":"joined","room":"~mb::2","members":[{"client_id":"~mb:00000000-0000-4000-8000-000000000000"}]}"#,
    r#"{"type":"members_changed","room":"~mb::2","joined":[{"client_id":"~mb:11111111-1111-4111-8111-111111111111","data":{"g":"11111111-1111-4111-8111-111111111111"}}],"left":[]}"#,
    r#"{"type":"joined","room":"~mb::2:11111111-1111-4111-8111-111111111111","members":[{"client_id":"~mb:11111111-1111-4111-8111-111111111111"}]}"#,
    r#"{"type":"members_changed","room":"~mb::2:11111111-1111-4111-8111-111111111111","joined":[],"left":[{"client_id":"~mb:11111111-1111-4111-8111-111111111111","reason":"left"}]}"#,
    r#"{"type":"signal","from":"~mb:11111111-1111-4111-8111-111111111111","data":{"k":"s","r":"~mb:","d":1}}"#,
    r#"{"type":"ack","id":1}"#,
    r#"{"type":"ack","id":2}"#,
    r#"{"type":"error","code":"room_store_unavailable","message":"","id":1,"retry_after_ms":1000}"#,
    r#"{"type":"error","code":"recipient_unavailable","message":"","id":2}"#,
    r#"{"type":"joined","room":"~rx:room-1","members":[{"client_id":"~rx:bbbbbbbbbbbb"}]}"#,
    r#"{"type":"members_changed","room":"~rx:room-1","joined":[{"client_id":"~rx:cccccccccccc"}],"left":[]}"#,
    r#"{"type":"signal","from":"~rx:bbbbbbbbbbbb","data":{"k":"s","m":{"type":"signal","room":"room-1","senderPeerId":"bbbbbbbbbbbb","receiverPeerId":"aaaaaaaaaaaa"}}}"#,
    r#"{"type":"signal","from":"~pj:peerjs:bob","data":{"k":"OFFER","p":[ 1 ]}}"#,
    r#"{"type":"broadcast","room":"~yw:a","from":"~yw:b","data":{"k":"p","m":{"topic":"a"}}}"#,
    r#"{"type":"left","room":"~yw:a","reason":"expired"}"#,
    r#"{"type":"joined","room":"~gs:","count":9,"more":true,"members":[{"client_id":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb"}]}"#,
    r#"{"type":"members_changed","room":"~gs:","joined":[{"client_id":"~gs:dddddddd-dddd-4ddd-dddd-dddddddddddd","data":{"roles":["consumer"],"meta":[1],"n":1}}],"left":[{"client_id":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","reason":"left"}]}"#,
    r#"{"type":"signal","from":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","data":{"k":"start","r":"~gs:","sid":"cccccccc-cccc-4ccc-cccc-cccccccccccc","roles":[],"offer":null}}"#,
    r#"{"type":"signal","from":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","data":{"k":"end","sid":"cccccccc-cccc-4ccc-cccc-cccccccccccc","error":null}}"#,
    r#"{"type":"signal","from":"~gs:bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb","data":{"k":"peer","sid":"cccccccc-cccc-4ccc-cccc-cccccccccccc","ice":{}}}"#,
];

/// Messages of Pixel Streaming's clients. A session continues if some follow each other.
const STREAMING_TEXTS: [&str; 14] = [
    r#"{"type":"endpointId","id":"Foo"}"#,
    r#"{"type":"endpointId","id":"Bar"}"#,
    r#"{"type":"listStreamers"}"#,
    r#"{"type":"subscribe","streamerId":"Foo"}"#,
    r#"{"type":"subscribe","streamerId":"Other"}"#,
    r#"{"type":"subscribe"}"#,
    r#"{"type":"unsubscribe"}"#,
    r#"{"type":"answer","sdp":"v=0","playerId":"Player1"}"#,
    r#"{"type":"offer","sdp":"v=0","playerId":"Player1"}"#,
    r#"{"type":"iceCandidate","playerId":"Player1","candidate":{}}"#,
    r#"{"type":"streamerDataChannels"}"#,
    r#"{"type":"disconnectPlayer","playerId":"Player1","reason":"\u0000"}"#,
    r#"{"type":"stopStreaming"}"#,
    r#"{"type":"ping","time":1e3}"#,
];
const STREAMING_MESSAGES: [&str; 19] = [
    r#"{"type":"welcome","ice_servers":[{"urls":["stun:a"]}]}"#,
    r#"{"type":"joined","room":"~ps:s:Foo","members":[{"client_id":"~ps:u:0"}]}"#,
    r#"{"type":"joined","room":"~ps:s:Foo","members":[{"client_id":"~ps:u:1"}]}"#,
    r#"{"type":"joined","room":"~ps:s:Foo","members":[]}"#,
    r#"{"type":"joined","room":"~ps:sub:Foo","members":[{"client_id":"~ps:u:0","data":{"streamer":true}},{"client_id":"~ps:p:1","data":{"s":1}}],"more":true}"#,
    r#"{"type":"joined","room":"~ps:sub:Foo","members":[{"client_id":"~ps:u:1","data":{"streamer":true}},{"client_id":"~ps:u:0","data":{"s":1}},{"client_id":"~ps:p:0","data":{"s":1}}]}"#,
    r#"{"type":"joined","room":"~ps:list","members":[{"client_id":"~ps:u:1","data":{"id":"Foo"}}],"more":true}"#,
    r#"{"type":"joined","room":"~ps:list","members":[]}"#,
    r#"{"type":"members_changed","room":"~ps:sub:Foo","joined":[{"client_id":"~ps:p:1","data":{"s":2}}],"left":[]}"#,
    r#"{"type":"members_changed","room":"~ps:sub:Foo","joined":[],"left":[{"client_id":"~ps:p:1","reason":"left"},{"client_id":"~ps:u:1","reason":"left"}]}"#,
    r#"{"type":"error","code":"overloaded","message":"","id":1,"retry_after_ms":1}"#,
    r#"{"type":"error","code":"overloaded","message":"","id":3}"#,
    r#"{"type":"error","code":"room_store_unavailable","message":"","room":"~ps:list","retry_after_ms":1}"#,
    r#"{"type":"error","code":"forbidden","message":"","room":"~ps:s:Foo"}"#,
    r#"{"type":"signal","from":"~ps:u:1","data":{"k":"in","s":1}}"#,
    r#"{"type":"signal","from":"~ps:u:1","data":{"k":"full","s":1,"max":2}}"#,
    r#"{"type":"signal","from":"~ps:u:1","data":{"k":"m","s":1,"m":{"type":"offer"}}}"#,
    r#"{"type":"signal","from":"~ps:u:1","data":{"k":"probe"}}"#,
    r#"{"type":"signal","from":"~ps:u:1","data":{"k":"alive"}}"#,
];

fn streaming_step() -> impl Strategy<Value = Step> {
    let ack = (1_u64..20).prop_map(|id| Step::Mesh(format!(r#"{{"type":"ack","id":{id}}}"#).into_bytes()));
    prop_oneof![
        4 => select(&STREAMING_TEXTS[..]).prop_map(|text| Step::Text(text.into())),
        6 => select(&STREAMING_MESSAGES[..]).prop_map(|text| Step::Mesh(text.into())),
        4 => ack,
        1 => step(),
    ]
}

fn object() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::collection::vec((select(FIELDS), select(VALUES)), 0..7);
    fields.prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    })
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => object(),
        1 => any::<Vec<u8>>(),
        1 => r#"[\[\]{}":,a-z0-9 \\]{0,20}"#.prop_map(String::into_bytes),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => text().prop_map(Step::Text),
        1 => text().prop_map(Step::Binary),
        1 => text().prop_map(Step::Mesh),
        1 => Just(Step::Pong),
        3 => select(MESSAGES).prop_map(|text| Step::Mesh(text.into())),
        2 => (0_u64..10_000).prop_map(Step::Wait),
    ]
}

/// Passes all steps to a translator.
fn run(dialect: Dialect, mut translator: Translator, steps: &[Step]) {
    let mut now = Instant::now();
    for step in steps {
        let input = match step {
            Step::Text(text) => Input::Text(text),
            Step::Binary(text) => Input::Binary(text),
            Step::Mesh(text) => Input::Mesh(text),
            Step::Pong => Input::Pong,
            Step::Wait(ms) => {
                now += Duration::from_millis(*ms);
                Input::Tick
            }
        };
        pass(dialect, &mut translator, now, input);
    }
}

proptest! {
    #[test]
    fn translator_survives_any_input(
        dialect in select(&Dialect::ALL[..]),
        next in 0..3,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let query = format!("key=peerjs&id=alice&token=t&next={next}");
        run(dialect, open_at(dialect, path_of(dialect), &query), &steps);
    }

    #[test]
    fn streaming_translator_survives_any_order(
        path in select(&["/streamer", "/player", "/sfu"][..]),
        steps in prop::collection::vec(streaming_step(), 0..80),
    ) {
        run(Dialect::PixelStreaming, open_at(Dialect::PixelStreaming, path, ""), &steps);
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
            prop_assert!(upgrade && name::is_of(dialect, opening.client_id.as_str()));
            let shown = format!("{opening:?} {head:?}");
            prop_assert!(!shown.contains("token"), "{}", shown);
        }
    }
}

#[test]
fn text_that_is_not_utf8_closes_with_1007() {
    for dialect in Dialect::ALL {
        let mut out = Out::default();
        open(dialect).input(Instant::now(), Input::Text(b"{\"type\":\"\xff\"}"), &mut out);
        assert_eq!(out.close.and_then(|close| close.code).map(|code| code.0), Some(1007));
    }
}

#[test]
fn frame_with_10000_topics_joins_256() {
    let topics: Vec<String> = (0..10_000).map(|n| format!("\"{n}\"")).collect();
    let text = format!(r#"{{"type":"subscribe","topics":[{}]}}"#, topics.join(","));
    let (mut translator, mut out) = (open(Dialect::YWebrtc), Out::default());
    translator.input(Instant::now(), Input::Text(text.as_bytes()), &mut out);
    assert_eq!((out.requests.len(), translator.is_full()), (256, true));
    assert_eq!(out.events.iter().map(|(_, count)| count).sum::<u32>(), 10_000 - 256);
}

#[test]
fn flood_without_answers_stays_bounded() {
    let payload = "x".repeat(60_000);
    for (dialect, text) in [
        (Dialect::PeerJs, format!(r#"{{"type":"OFFER","dst":"{}","payload":"{payload}"}}"#, "b".repeat(500))),
        (Dialect::YWebrtc, format!(r#"{{"type":"publish","topic":"t","data":"{payload}"}}"#)),
        (Dialect::Trystero, format!(r#"{{"type":"publish","topic":"t","payload":"{payload}"}}"#)),
    ] {
        let (mut translator, now) = (open(dialect), Instant::now());
        let mut requests = 0;
        for _ in 0..2000 {
            let mut out = Out::default();
            translator.input(now, Input::Text(text.as_bytes()), &mut out);
            requests += out.requests.len();
        }
        assert!(translator.is_full() && requests <= MAX_REQUESTS, "{dialect:?}: {requests}");
        assert!(translator.retained_bytes() < 1024 * 1024, "{dialect:?}: {}", translator.retained_bytes());
    }
}

#[test]
fn signals_of_unknown_senders_stay_bounded() {
    let (mut translator, now) = (open(Dialect::Rxdb), Instant::now());
    pass(Dialect::Rxdb, &mut translator, now, Input::Text(br#"{"type":"join","room":"room-1"}"#));
    for number in 0..2000 {
        let sender: String = format!("{number:012}").bytes().map(|digit| char::from(digit + 49)).collect();
        let text = format!(
            r#"{{"type":"signal","from":"~rx:{sender}","data":{{"k":"s","m":{{"type":"signal","room":"room-1","senderPeerId":"{sender}","receiverPeerId":"aaaaaaaaaaaa","data":"{}"}}}}}}"#,
            "x".repeat(30_000)
        );
        pass(Dialect::Rxdb, &mut translator, now, Input::Mesh(text.as_bytes()));
    }
    assert!(translator.retained_bytes() < 2 * 1024 * 1024);
}

#[test]
fn matchbox_room_with_many_members_stays_bounded() {
    let (mut translator, now) = (open(Dialect::Matchbox), Instant::now());
    for message in [r#"{"type":"welcome"}"#, r#"{"type":"joined","room":"~mb:","members":[],"more":false}"#] {
        pass(Dialect::Matchbox, &mut translator, now, Input::Mesh(message.as_bytes()));
    }
    for change in ["joined", "left"] {
        for number in 0..6000 {
            let client = format!(r#"[{{"client_id":"~mb:00000000-0000-4000-8001-{number:012}","reason":"left"}}]"#);
            let text = format!(r#"{{"type":"members_changed","room":"~mb:","{change}":{client}}}"#);
            pass(Dialect::Matchbox, &mut translator, now, Input::Mesh(text.as_bytes()));
        }
        assert!(translator.retained_bytes() < 512 * 1024);
    }
}

#[test]
fn gstreamer_state_and_lists_stay_bounded() {
    const DIALECT: Dialect = Dialect::GStreamer;
    let (mut translator, now) = (open(DIALECT), Instant::now());
    let meta = "x".repeat(4000);
    for number in 0..1000 {
        let uuid = format!("{number:08}-0000-4000-8000-000000000000");
        let joined = format!(
            r#"{{"type":"members_changed","room":"~gs:","joined":[{{"client_id":"~gs:{uuid}","data":{{"roles":["producer"],"meta":"{meta}","n":1}}}}],"left":[]}}"#
        );
        pass(DIALECT, &mut translator, now, Input::Mesh(joined.as_bytes()));
        let start = format!(r#"{{"type":"startSession","peerId":"{uuid}","offer":"{meta}"}}"#);
        pass(DIALECT, &mut translator, now, Input::Text(start.as_bytes()));
        let status = format!(r#"{{"type":"setPeerStatus","roles":["listener"],"meta":"{meta}"}}"#);
        pass(DIALECT, &mut translator, now, Input::Text(status.as_bytes()));
    }
    assert!(translator.is_full() && translator.retained_bytes() < 2 * 1024 * 1024, "{}", translator.retained_bytes());
    let mut out = Out::default();
    translator.input(now, Input::Text(br#"{"type":"list"}"#), &mut out);
    assert!(out.frames[0].len() < 256 * 1024, "{}", out.frames[0].len());
}

#[test]
fn envelope_is_within_its_limit() {
    let id = "%22".repeat(255);
    let query = format!("key=peerjs&token=t&id={id}");
    let settings = Settings::default();
    let head = Head { method: "GET", path: "/peerjs", query: &query, upgrade: true, ..Head::default() };
    let Answer::Upgrade(mut opening) = Dialect::PeerJs.request(&settings, &head, &[255; 32]) else { panic!() };
    let text = format!(r#"{{"type":"CANDIDATE","dst":"{}","payload":1}}"#, "b".repeat(120));
    let mut out = Out::default();
    opening.translator.input(Instant::now(), Input::Text(text.as_bytes()), &mut out);
    let added = out.requests[0].len() - "1".len();
    assert!(added <= signaling_dialects::dialect::ENVELOPE_BYTES, "{added}");
}

#[test]
fn request_ids_of_a_resumed_peerjs_session_do_not_repeat() {
    let settings = Settings::default();
    let query = "key=peerjs&id=alice&token=t";
    let head = Head { method: "GET", path: "/peerjs", query, upgrade: true, ..Head::default() };
    let first_id = |random| {
        let Answer::Upgrade(mut opening) = Dialect::PeerJs.request(&settings, &head, &random) else { panic!() };
        let mut out = Out::default();
        opening.translator.input(Instant::now(), Input::Text(br#"{"type":"OFFER","dst":"bob"}"#), &mut out);
        client::parse(out.requests[0].as_bytes()).unwrap().id().unwrap()
    };
    let (one, other) = (first_id([1; 32]), first_id([255; 32]));
    assert!(one.abs_diff(other) >= 1 << 20, "{one} {other}");
}

#[test]
fn messages_of_an_undecided_player_stay_bounded() {
    let (mut translator, now) = (open_at(Dialect::PixelStreaming, "/player", ""), Instant::now());
    let text = format!(r#"{{"type":"offer","sdp":"{}"}}"#, "x".repeat(60_000));
    let early = |number: u64| {
        let sdp = "x".repeat(60_000);
        format!(r#"{{"type":"signal","from":"~ps:u:{number}","data":{{"k":"m","s":1,"m":{{"sdp":"{sdp}"}}}}}}"#)
    };
    pass(Dialect::PixelStreaming, &mut translator, now, Input::Text(br#"{"type":"subscribe","streamerId":"Foo"}"#));
    for number in 0..200 {
        pass(Dialect::PixelStreaming, &mut translator, now, Input::Text(text.as_bytes()));
        pass(Dialect::PixelStreaming, &mut translator, now, Input::Mesh(early(number).as_bytes()));
    }
    assert!(translator.is_full() && translator.retained_bytes() < 1_200_000, "{}", translator.retained_bytes());
}

#[test]
fn list_of_streamers_has_at_most_2000_ids() {
    let (mut translator, now) = (open_at(Dialect::PixelStreaming, "/player", ""), Instant::now());
    let mut out = Out::default();
    translator.input(now, Input::Text(br#"{"type":"listStreamers"}"#), &mut out);
    for page in 0..5 {
        let member = |n| format!(r#"{{"client_id":"~ps:u:{n}","data":{{"id":"S{n}"}}}}"#);
        let members: Vec<String> = (page * 500..(page + 1) * 500).map(member).collect();
        let text = format!(r#"{{"type":"joined","room":"~ps:list","members":[{}],"more":true}}"#, members.join(","));
        translator.input(now, Input::Mesh(text.as_bytes()), &mut out);
    }
    let [frame] = &out.frames[..] else { panic!("{:?}", out.frames) };
    assert_eq!((frame.matches(r#""S"#).count(), out.requests.len()), (2000, 4));
}
