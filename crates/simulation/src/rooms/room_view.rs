//! One client's view of one room, built from the events that it received.

use std::collections::BTreeMap;

use serde_json::Value;
use signaling_rooms::{Change, LeftReason};

use super::number;
use super::watch::Room;
use crate::event::ClientIx;

/// Data that a member shows: the index of its join request. `None` means no data.
pub(super) type Shown = Option<u64>;

/// A room as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RoomView {
    /// Version of the room after the last event.
    pub(super) version: u64,
    pub(super) members: BTreeMap<ClientIx, Shown>,
}

impl RoomView {
    /// Parses a `joined`; `None` if it is malformed.
    pub(super) fn read(joined: &Value) -> Option<Self> {
        let members = joined["members"].as_array()?.iter().map(member).collect::<Option<_>>()?;
        Some(Self { version: joined["version"].as_u64()?, members })
    }

    /// Returns `true` if the client `own` knows all other members as `present` has them. A join
    /// without an answer may have changed its own data.
    pub(super) fn knows_others(&self, present: &Self, room: &Room, own: ClientIx) -> bool {
        let others = |view: &Self| view.members.iter().map(|(id, shown)| (*id, shown.filter(|_| *id != own))).collect();
        let [known, present_members]: [Vec<_>; 2] = [self, present].map(others);
        let missed = Changed::between(self.version, present.version, room, own);
        known == present_members
            && (self.version == present.version || missed.is_none_or(|missed| missed.clients.is_empty()))
    }

    /// Applies a `members_changed` for the client `own`, which must report exactly the changes of
    /// the other members since the last one. Fails with a description otherwise, and leaves the
    /// view unchanged.
    pub(super) fn change(&mut self, message: &Value, room: &Room, own: ClientIx) -> Result<(), String> {
        let changed = Changed::read(message).ok_or("unreadable")?;
        if changed.version <= self.version {
            return Err(format!("version {} behind {}", changed.version, self.version));
        }
        if self.version >= room.unsure_until {
            let expected = Changed::between(self.version, changed.version, room, own)
                .ok_or_else(|| format!("from {} to {} passes over some", self.version, changed.version))?;
            if expected != changed {
                return Err(format!("{changed:?} from {}, in place of {expected:?}", self.version));
            }
        }
        self.version = changed.version;
        for (client, (shown, _)) in changed.clients {
            match shown {
                Some(shown) => self.members.insert(client, shown),
                None => self.members.remove(&client),
            };
        }
        Ok(())
    }
}

/// The last change of each client: its data or `None`, and `true` if it expired.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    version: u64,
    clients: BTreeMap<ClientIx, (Option<Shown>, bool)>,
}

impl Changed {
    fn read(message: &Value) -> Option<Self> {
        let mut clients = BTreeMap::new();
        for joined in message["joined"].as_array()? {
            let (client, shown) = member(joined)?;
            clients.insert(client, (Some(shown), false));
        }
        for left in message["left"].as_array()? {
            let expired = left["reason"].as_str()? == "expired";
            let earlier = clients.insert(number(left["client_id"].as_str()?)?, (None, expired));
            if earlier.is_some() {
                return None;
            }
        }
        Some(Self { version: message["version"].as_u64()?, clients })
    }

    /// Returns the changes of a room between two versions, without those of `own`, if all are
    /// known.
    fn between(from: u64, to: u64, room: &Room, own: ClientIx) -> Option<Self> {
        let mut clients = BTreeMap::new();
        for version in from + 1..=to {
            let (client, change) = match room.changes.get(&version)? {
                Change::Joined(member) => {
                    let shown = member.data.as_deref().and_then(|data| data.parse().ok());
                    (&member.client, (Some(shown), false))
                }
                Change::Left { client, reason } => (client, (None, *reason == LeftReason::Expired)),
            };
            clients.insert(number(client.as_str())?, change);
        }
        clients.remove(&own);
        Some(Self { version: to, clients })
    }
}

fn member(member: &Value) -> Option<(ClientIx, Shown)> {
    let client = number(member["client_id"].as_str()?)?;
    Some((client, member["data"].as_u64()))
}
