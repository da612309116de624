//! Equivalent JSON texts parse to the same client message, and other text is rejected.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};
use signaling_protocol::ErrorCode;
use signaling_protocol::client::{self, ClientMessage, EdgeMessage};
use signaling_protocol::limits::MAX_REQUEST_ID;

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

/// Returns `type` and the other fields. A `null` other than `data` counts as absent.
fn fields_of(kind: &str, mut fields: Value) -> Vec<Field> {
    let fields = fields.as_object_mut().map(std::mem::take).unwrap_or_default();
    let present = fields.into_iter().filter(|(name, value)| name == "data" || !value.is_null());
    let all = std::iter::once(("type".to_owned(), kind.into())).chain(present);
    all.map(|(name, value)| (name, value.to_string())).collect()
}

/// Generates the fields of any valid message, `type` first.
fn message() -> impl Strategy<Value = Vec<Field>> {
    let id = || option::of(1..=MAX_REQUEST_ID);
    let ttl_ms = || option::of(any::<u64>());
    prop_oneof![
        (name(), json(), id(), ttl_ms()).prop_map(|(to, data, id, ttl_ms)| {
            fields_of("signal", json!({ "to": to, "data": data, "id": id, "ttl_ms": ttl_ms }))
        }),
        (name(), json(), id())
            .prop_map(|(room, data, id)| fields_of("join", json!({ "room": room, "data": data, "id": id }))),
        (name(), id()).prop_map(|(room, id)| fields_of("leave", json!({ "room": room, "id": id }))),
        (name(), option::of(name()))
            .prop_map(|(room, after)| fields_of("members", json!({ "room": room, "after": after }))),
        (name(), json(), id(), ttl_ms()).prop_map(|(room, data, id, ttl_ms)| {
            fields_of("broadcast", json!({ "room": room, "data": data, "id": id, "ttl_ms": ttl_ms }))
        }),
        any::<u64>().prop_map(|n| fields_of("received", json!({ "n": n }))),
        ".{0,40}".prop_map(|token| fields_of("token", json!({ "token": token }))),
        Just(fields_of("ice_servers", json!({}))),
        Just(fields_of("ping", json!({}))),
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
}

#[test]
fn deeply_nested_value_does_no_harm() {
    let deep = 200_000;
    check_any(&vec![b'['; deep]);
    let nested = [b"[".repeat(deep), b"]".repeat(deep)].concat();
    check_any(&[&br#"{"type":"signal","to":"bob","data":"#[..], &nested, b"}"].concat());
    check_any(&[&br#"{"unknown":"#[..], &nested, br#","type":"ping"}"#].concat());
}
