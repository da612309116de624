use std::borrow::Cow;

use serde::Deserialize;

/// Returns a request to join a room, whose data is the number of the change in the run, if any.
pub(super) fn join(room: &str, id: u64, change: Option<u64>) -> String {
    let data = change.map(|change| format!(r#","data":{{"change":{change}}}"#)).unwrap_or_default();
    format!(r#"{{"type":"join","room":"{room}","id":{id}{data}}}"#)
}

pub(super) fn leave(room: &str, id: u64) -> String {
    format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#)
}

/// A joined client, and the change by which it joined.
pub(super) type Joiner<'a> = (Cow<'a, str>, Option<u64>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received<'a> {
    /// The client is in the room; the members carry its change, `None` if pages follow.
    Joined {
        members: Option<Vec<Joiner<'a>>>,
    },
    Waiting,
    /// Other clients joined, with the change of the run, or left.
    Changed {
        joined: Vec<Joiner<'a>>,
        left: Vec<Cow<'a, str>>,
    },
    Left,
    Ack {
        id: u64,
    },
    Error {
        code: Cow<'a, str>,
        id: Option<u64>,
    },
    /// Any other message, by its type.
    Other(Cow<'a, str>),
}

/// The fields that are read from a server's message.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    code: Cow<'a, str>,
    id: Option<u64>,
    #[serde(default, borrow)]
    members: Vec<Member<'a>>,
    #[serde(default)]
    more: bool,
    #[serde(default, borrow)]
    joined: Vec<Member<'a>>,
    #[serde(default, borrow)]
    left: Vec<Member<'a>>,
}

#[derive(Deserialize)]
struct Member<'a> {
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    data: Option<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    change: Option<u64>,
}

/// Parses a server's message. Returns `None` if it is invalid.
pub(super) fn read(text: &str) -> Option<Received<'_>> {
    let Message { kind, code, id, members, more, joined, left } = serde_json::from_str(text).ok()?;
    Some(match (&*kind, id) {
        ("joined", _) => Received::Joined { members: (!more).then(|| joiners(members)) },
        ("waiting", _) => Received::Waiting,
        ("left", _) => Received::Left,
        ("ack", Some(id)) => Received::Ack { id },
        ("error", id) => Received::Error { code, id },
        ("members_changed", _) => {
            Received::Changed { joined: joiners(joined), left: left.into_iter().map(|it| it.client_id).collect() }
        }
        _ => Received::Other(kind),
    })
}

fn joiners(members: Vec<Member<'_>>) -> Vec<Joiner<'_>> {
    members.into_iter().map(|it| (it.client_id, it.data.and_then(|shown| shown.change))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn requests_are_json_with_what_they_need() {
        let join: serde_json::Value = serde_json::from_str(&join("r", 7, Some(6))).unwrap();
        assert_eq!(join, serde_json::json!({ "type": "join", "room": "r", "id": 7, "data": { "change": 6 } }));
        let leave: serde_json::Value = serde_json::from_str(&leave("r", 8)).unwrap();
        assert_eq!(leave, serde_json::json!({ "type": "leave", "room": "r", "id": 8 }));
    }

    #[test]
    fn room_messages_are_parsed() {
        let joined = r#"{"type":"joined","room":"r","version":4,"capacity":null,"count":1,"members":[{"client_id":"a","data":null}],"more":false}"#;
        let members = Some(vec![("a".into(), None)]);
        assert_eq!(read(joined), Some(Received::Joined { members }));
        let page = joined.replace(r#""more":false"#, r#""more":true"#);
        assert_eq!(read(&page), Some(Received::Joined { members: None }));
        let waiting = r#"{"type":"waiting","room":"r","ahead":0,"queue_length":3}"#;
        assert_eq!(read(waiting), Some(Received::Waiting));
        let changed = r#"{"type":"members_changed","room":"r","version":5,"joined":[{"client_id":"b","data":{"change":9}},{"client_id":"c","data":null}],"left":[{"client_id":"d","reason":"left"}]}"#;
        let joined = vec![("b".into(), Some(9)), ("c".into(), None)];
        assert_eq!(read(changed), Some(Received::Changed { joined, left: vec!["d".into()] }));
        assert_eq!(read(r#"{"type":"ack","id":3}"#), Some(Received::Ack { id: 3 }));
        let error = r#"{"type":"error","code":"room_store_unavailable","message":"no","id":3,"room":"r"}"#;
        assert_eq!(read(error), Some(Received::Error { code: "room_store_unavailable".into(), id: Some(3) }));
        assert_eq!(read(r#"{"type":"pong"}"#), Some(Received::Other("pong".into())));
        assert_eq!(read("?"), None);
    }
}
