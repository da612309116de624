//! `PROTOCOL.md` matches this crate: the code parses and writes its examples, defines its tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_protocol::client::{self, ClientMessage};
use signaling_protocol::close::Advice;
use signaling_protocol::limits::{
    DEFAULT_HOLD, DEFAULT_MESSAGE_BYTES, HEARTBEAT, MAX_MEMBER_DATA_BYTES, MAX_QUERY_BYTES, MAX_REQUEST_ID,
};
use signaling_protocol::server::{self, ServerMessage};
use signaling_protocol::{CloseCode, ErrorCode};

const DOCUMENT: &str = include_str!("../PROTOCOL.md");
const CLIENT_TYPES: &str = "signal join leave members broadcast received token ice_servers ping";
const SERVER_TYPES: &str =
    "welcome signal broadcast ack error joined waiting members_changed left ice_servers moved pong goodbye";

#[test]
fn client_examples_parse_as_their_type() {
    let mut seen = BTreeSet::new();
    for line in lines("json client") {
        let message = client::parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{}: {line}", bad.message));
        let kind = type_of(&message);
        assert_eq!(kind, Example::read(line).kind(), "{line}");
        seen.insert(kind);
    }
    assert_eq!(seen, CLIENT_TYPES.split(' ').collect::<BTreeSet<_>>());
}

#[test]
fn server_examples_equal_the_encoder_output() {
    let mut seen = BTreeSet::new();
    for line in lines("json server") {
        let example = Example::read(line);
        assert!(line.starts_with(&format!("{{\"type\":\"{}\"", example.kind())), "`type` comes first: {line}");
        for encoding in example.encodings().unwrap_or_else(|| panic!("no encoder: {line}")) {
            assert_eq!(String::from_utf8(encoding).unwrap(), line);
        }
        seen.insert(example.kind());
    }
    assert_eq!(seen, SERVER_TYPES.split(' ').collect::<BTreeSet<_>>());
}

#[test]
fn each_message_type_has_its_section() {
    for (section, types) in [("What a client sends", CLIENT_TYPES), ("What a server sends", SERVER_TYPES)] {
        let headings = section_of(section).lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
        assert_eq!(headings.collect::<Vec<_>>().join(" "), types);
    }
}

#[test]
fn error_code_table_equals_the_crate() {
    let documented: BTreeSet<_> = rows("Error codes").map(|cells| cells[0].trim_matches('`')).collect();
    assert_eq!(documented, ErrorCode::ALL.map(ErrorCode::as_str).into());
}

#[test]
fn close_code_table_equals_the_crate() {
    let advice_in_words = |code: u16| match CloseCode(code).advice() {
        Advice::ComeBack => "come back",
        Advice::ComeBackLater => "come back later",
        Advice::StayAway => "stay away",
    };
    let documented: BTreeMap<u16, _> =
        rows("Close codes").map(|cells| (cells[0].parse().expect(cells[0]), cells[2])).collect();
    let of_the_crate = include_str!("../src/close.rs")
        .lines()
        .filter(|line| line.trim_start().starts_with("pub const"))
        .filter_map(|line| line.split_once("Self(")?.1.strip_suffix(");")?.parse().ok())
        .map(|code: u16| (code, advice_in_words(code)))
        .collect();
    assert!(documented.contains_key(&CloseCode::KICKED.0));
    assert_eq!(documented, of_the_crate);
}

#[test]
fn status_table_equals_the_crate() {
    let refusals: BTreeMap<u16, _> = rows_from(section_of("Connecting"), "| status |")
        .map(|cells| (cells[0].parse().unwrap(), cells[2].parse().ok().map(CloseCode)))
        .collect();
    assert_eq!(refusals.len(), 10);
    for status in 300..600 {
        assert_eq!(refusals.get(&status).copied().flatten(), CloseCode::of_status(status), "{status}");
    }
}

#[test]
fn documented_limits_equal_the_crate() {
    let thousands = |number: usize| format!("{},{:03}", number / 1_000, number % 1_000);
    for number in [
        format!("({} unless the operator", thousands(DEFAULT_MESSAGE_BYTES)),
        format!("at most {} bytes |", thousands(MAX_MEMBER_DATA_BYTES)),
        format!("The query has at most {} bytes", thousands(MAX_QUERY_BYTES)),
        format!("from 1 to {MAX_REQUEST_ID} "),
        format!("hold time ({})", thousands(DEFAULT_HOLD.as_millis().try_into().unwrap())),
        format!("After {} s (`heartbeat_ms`)", HEARTBEAT.as_secs()),
    ] {
        assert!(DOCUMENT.contains(&number), "{number}");
    }
}

/// Makes a message of a type from the fields of an example. Lists follow the semicolon.
macro_rules! make {
    ($example:ident, $type:ident $($field:ident)* $(; $($list:ident)*)?) => {
        ServerMessage::$type {
            $($field: $example.get(stringify!($field)),)*
            $($($list: &$example.get::<Option<Vec<_>>>(stringify!($list)).unwrap_or_default(),)*)?
        }
    };
}

/// Any message of a server, parsed so that it can be encoded again.
struct Example<'a>(BTreeMap<&'a str, &'a RawValue>);

impl<'a> Example<'a> {
    fn read(line: &'a str) -> Self {
        Self(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Parses a field. One that is absent has the value `null`.
    fn get<T: Deserialize<'a>>(&self, field: &str) -> T {
        let text = self.0.get(field).map_or("null", |value| value.get());
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{field}: {error}"))
    }

    fn kind(&self) -> &'a str {
        self.get("type")
    }

    /// Encodes the message with every encoder for its type.
    fn encodings(&self) -> Option<Vec<Vec<u8>>> {
        let message = match self.kind() {
            "signal" | "broadcast" => return Some(vec![self.client_message()]),
            "welcome" => {
                let welcome = make!(self, Welcome client_id resume resumed heartbeat_ms max_message_bytes ice_valid_ms node; ice_servers);
                let mut text = welcome.to_json();
                if let Some(rate) = self.get("rate") {
                    text.pop();
                    server::write_rate_tail(&mut text, &rate);
                }
                return Some(vec![text]);
            }
            "ack" => make!(self, Ack id delivered),
            "error" => make!(self, Error code message id to room retry_after_ms),
            "ice_servers" => make!(self, IceServers ice_valid_ms; ice_servers),
            "moved" => make!(self, Moved node),
            "joined" => make!(self, Joined room version capacity count more after; members),
            "waiting" => make!(self, Waiting room ahead queue_length),
            "members_changed" => make!(self, MembersChanged room version; joined left),
            "left" => make!(self, Left room reason),
            "pong" => ServerMessage::Pong,
            "goodbye" => make!(self, Goodbye reason retry_after_ms),
            _ => return None,
        };
        let mut encodings = vec![message.to_json()];
        if let ServerMessage::Ack { id, delivered: None } = message {
            let mut out = Vec::new();
            server::write_ack(&mut out, id);
            encodings.push(out);
        }
        Some(encodings)
    }

    fn client_message(&self) -> Vec<u8> {
        let (mut out, from, data, id) = (Vec::new(), self.get("from"), self.get("data"), self.get("id"));
        match self.get("room") {
            Some(room) => server::write_broadcast(&mut out, room, from, data, id),
            None => server::write_signal(&mut out, from, data, id),
        }
        if let (Some(n), Some(m)) = (self.get("n"), self.get("m")) {
            out.pop();
            server::write_receipt_tail(&mut out, n, m);
        }
        out
    }
}

fn type_of(message: &ClientMessage<'_>) -> &'static str {
    match message {
        ClientMessage::Signal { .. } => "signal",
        ClientMessage::Join { .. } => "join",
        ClientMessage::Leave { .. } => "leave",
        ClientMessage::Members { .. } => "members",
        ClientMessage::Broadcast { .. } => "broadcast",
        ClientMessage::Received { .. } => "received",
        ClientMessage::Token { .. } => "token",
        ClientMessage::IceServers => "ice_servers",
        ClientMessage::Ping => "ping",
    }
}

/// Returns the lines of all fenced blocks with this tag.
fn lines(tag: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut fence = None;
    for line in DOCUMENT.lines() {
        match line.strip_prefix("```") {
            Some(opened) => fence = if fence.is_none() { Some(opened) } else { None },
            None if fence == Some(tag) => found.push(line),
            None => {}
        }
    }
    assert_eq!(fence, None, "a fence is not closed");
    assert!(!found.is_empty(), "{tag}");
    found
}

fn section_of(title: &str) -> &'static str {
    let section = DOCUMENT.split("\n## ").find_map(|section| section.strip_prefix(title)?.strip_prefix('\n'));
    section.unwrap_or_else(|| panic!("no section {title:?}"))
}

/// Returns the cells of each row of a section's table.
fn rows(title: &str) -> impl Iterator<Item = Vec<&'static str>> {
    rows_from(section_of(title), "| code |")
}

fn rows_from(section: &'static str, head: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let table = section.lines().skip_while(move |line| !line.starts_with(head)).skip(2);
    table
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}
