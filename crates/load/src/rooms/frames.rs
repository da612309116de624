//! Requests of room clients, and the frames that they receive, for `clients`. Pure.

use std::borrow::Cow;

use serde::Deserialize;

/// Returns a request to join a room. `room` must need no escape in JSON. `change`: number of the
/// join among all joins and leaves of this process, from 0. The other members receive it as the
/// member's data. `None`: no data.
pub(super) fn join(room: &str, id: u64, change: Option<u64>) -> String {
    let data = change.map(|change| format!(r#","data":{{"change":{change}}}"#)).unwrap_or_default();
    format!(r#"{{"type":"join","room":"{room}","id":{id}{data}}}"#)
}

/// Returns a request to leave a room or its waiting queue. `room` must need no escape in JSON.
pub(super) fn leave(room: &str, id: u64) -> String {
    format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#)
}

/// The fields of a received frame that are read. Only `members_changed` has `joined` and `left`.
#[derive(Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// Error code. Empty in any frame but `error`.
    #[serde(default, borrow)]
    pub(super) code: Cow<'a, str>,
    /// Id of the request that the frame answers. `None`: it answers none.
    pub(super) id: Option<u64>,
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
    /// Returns the `change` with which the client joined ([`join`]). `None`: it had none, or the
    /// entry is one of `left`, which have no data.
    pub(super) fn change(&self) -> Option<u64> {
        self.data.as_ref()?.change
    }
}
