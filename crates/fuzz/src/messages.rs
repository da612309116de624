//! JSON messages of clients.

use serde_json::Value;
use signaling_protocol::client::{self, ClientMessage, EdgeMessage};
use signaling_protocol::server::write_signal;

/// Parses any bytes as a message, in each way of the edge and the node, and compares the results.
///
/// # Panics
/// If the ways disagree, an error text is empty or has 1,000 bytes, or a relayed `signal` has other
/// data or another id.
pub fn messages(text: &[u8]) {
    let parsed = client::parse(text);
    let names = client::names(text);
    match (client::peek(text), &parsed) {
        (EdgeMessage::Ping, Ok(message)) => assert!(matches!(message, ClientMessage::Ping), "{message:?}"),
        (EdgeMessage::Received { n }, Ok(message)) => {
            assert!(matches!(message, ClientMessage::Received { n: read } if *read == n), "{message:?}");
        }
        (EdgeMessage::Token, Ok(message)) => assert!(matches!(message, ClientMessage::Token { .. }), "{message:?}"),
        (EdgeMessage::Other, Ok(message)) => {
            let is_for_the_edge =
                matches!(message, ClientMessage::Ping | ClientMessage::Received { .. } | ClientMessage::Token { .. });
            assert!(!is_for_the_edge, "{message:?}");
        }
        // The edge answers these messages itself, whatever their other content.
        (_, Err(bad)) => assert!(!bad.message.is_empty() && bad.message.len() < 1_000, "{bad:?}"),
    }
    let Ok(message) = parsed else { return };
    if message.takes_id() {
        assert_eq!(names.id, message.id());
    }
    if let ClientMessage::Signal { to, data, id, .. } = &message {
        assert_eq!(names.to.as_deref(), Some(&**to));
        let mut passed_on = Vec::new();
        write_signal(&mut passed_on, "alice", data, *id);
        // Valid JSON beyond this library (large numbers, half surrogates, depth) is relayed only.
        if let Ok(sent) = serde_json::from_str::<Value>(data.get()) {
            let passed_on: Value = serde_json::from_slice(&passed_on).unwrap_or_default();
            assert_eq!((&passed_on["type"], &passed_on["data"]), (&Value::from("signal"), &sent));
            assert_eq!(passed_on["id"].as_u64(), *id);
        }
    }
}
