//! Roles and `meta` of a peer: its member data in the room.
//!
//! The data is `{"roles":ROLES,"meta":META,"n":NUMBER}`. A peer that has set no status has no `n`.
//! Each status has another number, so that an unchanged one is announced as well.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::IgnoredReason;
use crate::json::{Object, array, string};
use uuid::Uuid;

const NULL: &str = "null";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    /// It sends media.
    Producer,
    /// It receives each change of a status.
    Listener,
    /// It waits for a session that a producer starts.
    Consumer,
}

/// Parses an array of roles. A repeated role counts once. `None`: no array, or another value in it.
pub(super) fn parse_roles(value: &RawValue) -> Option<Vec<Role>> {
    let mut roles = Vec::new();
    for value in array(value)? {
        let role: Role = serde_json::from_value(string(value)?.into()).ok()?;
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    Some(roles)
}

/// Returns roles as a JSON array.
pub(super) fn quote_roles(roles: &[Role]) -> String {
    // An array in memory: serialization cannot fail.
    serde_json::to_string(roles).unwrap_or_default()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) roles: Vec<Role>,
    /// JSON that the client chose; `null` by default.
    pub(super) meta: Box<str>,
    /// Number of this status, from 1. 0: the peer has set none.
    pub(super) number: u64,
}

impl Default for Status {
    fn default() -> Self {
        Self { roles: Vec::new(), meta: NULL.into(), number: 0 }
    }
}

impl Status {
    /// Parses a client's `setPeerStatus`. Fails if its roles are missing or invalid.
    pub(super) fn of_message(message: &Object<'_>, number: u64) -> Result<Self, IgnoredReason> {
        let roles = message.get("roles").and_then(parse_roles).ok_or(IgnoredReason::Field)?;
        let meta = message.get("meta").map_or(NULL, RawValue::get).into();
        Ok(Self { roles, meta, number })
    }

    /// Parses the data of a member. Without valid data the member has set no status.
    pub(super) fn of_member(data: Option<&RawValue>) -> Self {
        let parse = |data: &RawValue| {
            let data = Object::parse(data.get().as_bytes())?;
            let number = data.get("n").map_or(Some(0), |number| number.get().parse().ok())?;
            Self::of_message(&data, number).ok()
        };
        data.and_then(parse).unwrap_or_default()
    }

    /// Returns the `data` of the member: JSON that [`Status::of_member`] parses.
    pub(super) fn to_data(&self) -> String {
        let number = if self.number == 0 { String::new() } else { format!(r#","n":{}"#, self.number) };
        format!(r#"{{"roles":{},"meta":{}{number}}}"#, quote_roles(&self.roles), self.meta)
    }

    pub(super) fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Returns `true` if other peers may start sessions with this one.
    pub(super) fn is_callable(&self) -> bool {
        self.has(Role::Producer) || self.has(Role::Consumer)
    }

    /// Returns the announcement of this status for listeners.
    pub(super) fn announcement(&self, peer: Uuid) -> String {
        announcement(&quote_roles(&self.roles), &self.meta, peer)
    }

    /// Returns the announcement of the peer's departure for listeners.
    pub(super) fn departure(&self, peer: Uuid) -> String {
        announcement("[]", &self.meta, peer)
    }
}

fn announcement(roles: &str, meta: &str, peer: Uuid) -> String {
    format!(r#"{{"type":"peerStatusChanged","roles":{roles},"meta":{meta},"peerId":"{peer}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn status_is_its_member_data() {
        let data = r#"{"roles":["listener","producer"],"meta":{"a": [1]},"n":7}"#;
        let status = Status::of_member(Some(raw(data)));
        assert_eq!((status.to_data(), status.number), (data.to_owned(), 7));
        assert!(status.is_callable() && status.has(Role::Listener) && !status.has(Role::Consumer));
        assert_eq!(Status::default().to_data(), r#"{"roles":[],"meta":null}"#);
    }

    #[test]
    fn invalid_data_is_no_status() {
        for data in ["5", "{}", r#"{"roles":["viewer"]}"#, r#"{"roles":"producer"}"#, r#"{"roles":[],"n":-1}"#] {
            assert_eq!(Status::of_member(Some(raw(data))), Status::default(), "{data}");
        }
        assert_eq!(Status::of_member(None), Status::default());
    }

    #[test]
    fn repeated_role_counts_once() {
        assert_eq!(parse_roles(raw(r#"["consumer","consumer"]"#)), Some(vec![Role::Consumer]));
    }
}
