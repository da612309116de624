//! Client messages in equivalent JSON forms, and invalid bytes.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use signaling_protocol::ErrorCode;
use signaling_protocol::client::{self, ClientMessage, EdgeMessage};
use signaling_protocol::limits::MAX_REQUEST_ID;
use signaling_protocol::server;

const KNOWN_FIELDS: [&str; 9] = ["type", "to", "room", "after", "token", "data", "id", "ttl_ms", "n"];
const MAX_ANSWER_BYTES: usize = 1_000;

/// A field's name and its value as JSON text.
type Field = (String, String);

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._~:@-]{1,128}"
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((".{0,6}", inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn fields_of(kind: &str, fields: Vec<(&str, Option<Value>)>) -> Vec<Field> {
    let kind = ("type", Some(Value::from(kind)));
    let present = |(name, value): (&str, Option<Value>)| Some((name.into(), value?.to_string()));
    std::iter::once(kind).chain(fields).filter_map(present).collect()
}

/// Generates the fields of any valid message, `type` first.
fn message() -> impl Strategy<Value = Vec<Field>> {
    let id = || option::of((1..=MAX_REQUEST_ID).prop_map(Value::from));
    let data = || json().prop_map(Some);
    prop_oneof![
        (name(), data(), id(), option::of(any::<u64>())).prop_map(|(to, data, id, ttl)| {
            fields_of(
                "signal",
                vec![("to", Some(to.into())), ("data", data), ("id", id), ("ttl_ms", ttl.map(Value::from))],
            )
        }),
        (name(), option::of(json()), id()).prop_map(|(room, data, id)| {
            fields_of("join", vec![("room", Some(room.into())), ("data", data), ("id", id)])
        }),
        (name(), id()).prop_map(|(room, id)| fields_of("leave", vec![("room", Some(room.into())), ("id", id)])),
        (name(), option::of(name())).prop_map(|(room, after)| {
            fields_of("members", vec![("room", Some(room.into())), ("after", after.map(Value::from))])
        }),
        (name(), data(), id(), option::of(any::<u64>())).prop_map(|(room, data, id, ttl)| {
            fields_of(
                "broadcast",
                vec![("room", Some(room.into())), ("data", data), ("id", id), ("ttl_ms", ttl.map(Value::from))],
            )
        }),
        any::<u64>().prop_map(|n| fields_of("received", vec![("n", Some(n.into()))])),
        ".{0,40}".prop_map(|token| fields_of("token", vec![("token", Some(token.into()))])),
        Just(fields_of("ice_servers", vec![])),
        Just(fields_of("ping", vec![])),
    ]
}

fn unknown_field() -> impl Strategy<Value = Field> {
    (".{0,8}", json())
        .prop_filter("known", |(name, _)| !KNOWN_FIELDS.contains(&&**name))
        .prop_map(|(name, value)| (name, value.to_string()))
}

fn write(fields: &[Field], space: &str) -> Vec<u8> {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{space}{}{space}:{space}{value}{space}", Value::from(name.as_str())))
        .collect();
    format!("{space}{{{}}}{space}", fields.join(",")).into_bytes()
}

/// Returns the edge's view of a message that a node accepts.
fn seen_by_the_edge(message: &ClientMessage<'_>) -> EdgeMessage {
    match message {
        ClientMessage::Ping => EdgeMessage::Ping,
        ClientMessage::Received { n } => EdgeMessage::Received { n: *n },
        ClientMessage::Token { .. } => EdgeMessage::Token,
        _ => EdgeMessage::Other,
    }
}

fn check_any(bytes: &[u8]) {
    let peeked = client::peek(bytes);
    match client::parse(bytes) {
        Ok(message) => assert_eq!(peeked, seen_by_the_edge(&message)),
        Err(bad) => {
            assert!(matches!(bad.code, ErrorCode::BadMessage | ErrorCode::TooLarge));
            assert!(bad.message.len() <= MAX_ANSWER_BYTES, "{}", bad.message.len());
        }
    }
}

proptest! {
    #[test]
    fn message_is_equal_in_any_field_order_and_spacing(
        (plain, shuffled) in (message(), vec(unknown_field(), 0..4)).prop_flat_map(|(plain, unknown)| {
            let all: Vec<Field> = plain.iter().cloned().chain(unknown).collect();
            (Just(plain), Just(all).prop_shuffle())
        }),
        space in "[ \t\r\n]{0,2}",
    ) {
        let (plain, shuffled) = (write(&plain, ""), write(&shuffled, &space));
        let (wanted, got) = (client::parse(&plain).unwrap(), client::parse(&shuffled).unwrap());
        prop_assert_eq!(format!("{wanted:?}"), format!("{got:?}"));
        prop_assert_eq!(client::peek(&plain), seen_by_the_edge(&wanted));
        prop_assert_eq!(client::peek(&shuffled), seen_by_the_edge(&wanted));
    }

    #[test]
    fn message_with_a_missing_byte_does_no_harm(fields in message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = write(&fields, "");
        let at = at.index(text.len());
        check_any(&text[..at]);
        check_any(&[&text[..at], &text[at + 1..]].concat());
        check_any(&[&text[..at], &[byte], &text[at + 1..]].concat());
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..256)) {
        check_any(&bytes);
    }

    #[test]
    fn random_json_does_no_harm(value in json(), kind in ".{0,80}") {
        check_any(value.to_string().as_bytes());
        check_any(write(&[("type".into(), Value::from(kind).to_string()), ("to".into(), value.to_string())], "").as_slice());
    }

    #[test]
    fn repeated_known_field_is_rejected(fields in message(), at in any::<prop::sample::Index>()) {
        let twice = fields[at.index(fields.len())].clone();
        let text = write(&[fields, vec![twice]].concat(), "");
        prop_assert_eq!(client::parse(&text).unwrap_err().code, ErrorCode::BadMessage);
    }

    #[test]
    fn id_is_from_1_to_the_largest_javascript_integer(id in prop_oneof![any::<u64>(), 0..3_u64, MAX_REQUEST_ID - 2..MAX_REQUEST_ID + 3]) {
        let text = format!(r#"{{"type":"leave","room":"r","id":{id}}}"#);
        let valid = (1..=MAX_REQUEST_ID).contains(&id);
        match client::parse(text.as_bytes()) {
            Ok(ClientMessage::Leave { id: Some(read), .. }) => prop_assert!(valid && read == id),
            Err(bad) => prop_assert!(!valid && bad.id.is_none() && bad.code == ErrorCode::BadMessage),
            Ok(other) => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn error_has_the_id_of_the_request(id in 1..=MAX_REQUEST_ID, kind in "signal|join|leave|broadcast|[a-z]{0,9}x") {
        let text = format!(r#"{{"id":{id},"type":"{kind}","to":"no name","room":"no name"}}"#);
        prop_assert_eq!(client::parse(text.as_bytes()).unwrap_err().id, Some(id));
    }

    #[test]
    fn signal_carries_its_data_unchanged(from in name(), data in json(), id in option::of(any::<u64>()), n in any::<u64>()) {
        let data = format!("{data:#}");
        let raw: &RawValue = serde_json::from_str(&data).unwrap();
        let mut text = Vec::new();
        server::write_signal(&mut text, &from, raw, id);
        prop_assert_eq!(text.pop(), Some(b'}'));
        server::write_receipt_tail(&mut text, n, "m-1");

        let mut wanted = format!(r#"{{"type":"signal","from":"{from}","data":{data}"#);
        if let Some(id) = id {
            wanted += &format!(r#","id":{id}"#);
        }
        wanted += &format!(r#","n":{n},"m":"m-1"}}"#);
        prop_assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }
}

#[test]
fn deeply_nested_value_does_no_harm() {
    let deep = 200_000;
    check_any(&vec![b'['; deep]);
    let nested = [b"[".repeat(deep), b"]".repeat(deep)].concat();
    check_any(&[&br#"{"type":"signal","to":"bob","data":"#[..], &nested, b"}"].concat());
    check_any(&[&br#"{"unknown":"#[..], &nested, br#","type":"ping"}"#].concat());
}
