//! Requests of room clients, and the frames that they receive, for `clients`. Pure.

use std::borrow::Cow;

use serde::Deserialize;

/// Returns a request to join a room, whose data is the number of the change in the run, if any.
pub(super) fn join(room: &str, id: u64, change: Option<u64>) -> String {
    let data = change.map(|change| format!(r#","data":{{"change":{change}}}"#)).unwrap_or_default();
    format!(r#"{{"type":"join","room":"{room}","id":{id}{data}}}"#)
}

/// Returns a request to leave a room or its waiting queue.
pub(super) fn leave(room: &str, id: u64) -> String {
    format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#)
}

/// The fields of a received frame that are read. Each type of frame has some of them.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) code: Cow<'a, str>,
    pub(super) id: Option<u64>,
    #[serde(default, borrow)]
    pub(super) members: Vec<Member<'a>>,
    /// `true` if pages with more members follow.
    #[serde(default)]
    pub(super) more: bool,
    #[serde(default, borrow)]
    pub(super) joined: Vec<Member<'a>>,
    #[serde(default, borrow)]
    pub(super) left: Vec<Member<'a>>,
}

/// A member of a room, or a client that left it.
#[derive(Deserialize)]
pub(super) struct Member<'a> {
    #[serde(borrow)]
    pub(super) client_id: Cow<'a, str>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    change: Option<u64>,
}

impl Member<'_> {
    /// Returns the change of the run by which the client joined, if any.
    pub(super) fn change(&self) -> Option<u64> {
        self.data.as_ref()?.change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_json_with_what_they_need() {
        let join: serde_json::Value = serde_json::from_str(&join("r", 7, Some(6))).unwrap();
        assert_eq!(join, serde_json::json!({ "type": "join", "room": "r", "id": 7, "data": { "change": 6 } }));
        let leave: serde_json::Value = serde_json::from_str(&leave("r", 8)).unwrap();
        assert_eq!(leave, serde_json::json!({ "type": "leave", "room": "r", "id": 8 }));
    }

    #[test]
    fn room_frames_are_parsed() {
        let changed = r#"{"type":"members_changed","room":"r","version":5,"joined":[{"client_id":"b","data":{"change":9}},{"client_id":"c","data":null}],"left":[{"client_id":"d","reason":"left"}]}"#;
        let changed: Frame<'_> = serde_json::from_str(changed).unwrap();
        let joined: Vec<_> = changed.joined.iter().map(|member| (&*member.client_id, member.change())).collect();
        assert_eq!((joined, &*changed.left[0].client_id), (vec![("b", Some(9)), ("c", None)], "d"));

        let page = r#"{"type":"joined","room":"r","version":4,"capacity":null,"count":2,"members":[{"client_id":"a","data":null}],"more":true}"#;
        let page: Frame<'_> = serde_json::from_str(page).unwrap();
        assert_eq!((page.members.len(), page.more), (1, true));

        let error = r#"{"type":"error","code":"room_store_unavailable","message":"no","id":3,"room":"r"}"#;
        let error: Frame<'_> = serde_json::from_str(error).unwrap();
        assert_eq!((&*error.code, error.id), ("room_store_unavailable", Some(3)));
    }
}
