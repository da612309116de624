//! Names of the keys of a journal.

use signaling_protocol::RoomName;

use crate::KeyPrefix;

/// Keys that are not of one room.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: KeyPrefix,
    pub(crate) rooms: String,
    pub(crate) mesh: String,
    pub(crate) registry: String,
    pub(crate) nodes: String,
}

/// Keys of one room, all in one slot of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct RoomKeys {
    pub(crate) members: String,
    pub(crate) participants: String,
    pub(crate) waiting: String,
    pub(crate) checkin: String,
    pub(crate) waiters: String,
    pub(crate) meta: String,
}

impl Keys {
    pub(crate) fn new(prefix: KeyPrefix) -> Self {
        let name = prefix.as_str();
        let (rooms, mesh) = (format!("{name}:rooms"), format!("{name}:mesh"));
        let (registry, nodes) = (format!("{{{name}}}:registry"), format!("{{{name}}}:nodes"));
        Self { rooms, mesh, registry, nodes, prefix }
    }

    /// Returns the key of the clients of a process, `NODE/INCARNATION`.
    pub(crate) fn clients(&self, process: &str) -> String {
        format!("{{{}}}:clients:{process}", self.prefix.as_str())
    }

    pub(crate) fn of(&self, room: &RoomName) -> RoomKeys {
        let key = |kind: &str| format!("{}:{{{room}}}:{kind}", self.prefix.as_str());
        RoomKeys {
            members: key("members"),
            participants: key("participants"),
            waiting: key("waiting"),
            checkin: key("checkin"),
            waiters: key("waiters"),
            meta: key("meta"),
        }
    }
}

impl RoomKeys {
    /// Returns all keys but `meta`.
    pub(crate) fn contents(&self) -> [&str; 5] {
        [&self.members, &self.participants, &self.waiting, &self.checkin, &self.waiters]
    }
}
