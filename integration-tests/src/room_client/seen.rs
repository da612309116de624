//! A client's record of its rooms, and checks of its consistency, for `RoomClient`. Pure.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

/// All messages that one client received.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    id: String,
    room_by_name: BTreeMap<String, RoomSeen>,
    /// The `ack` or `error` to each request, by its `id`.
    pub answer_by_request: BTreeMap<u64, Value>,
    /// All `joined` messages, in order.
    pub states: Vec<Value>,
    /// All `broadcast` messages, in order.
    pub broadcasts: Vec<Value>,
    /// Close frame or error at the end of the socket; `None` while it is open.
    pub closed: Option<String>,
}

/// Record of one room.
#[derive(Clone, Debug, Default)]
pub struct RoomSeen {
    pub seat: SeatStatus,
    /// Members with their data, the client itself included; `null` for a member without data.
    pub members: BTreeMap<String, Value>,
    /// Highest version received; 0 before the first.
    pub version: u64,
    /// Members that were shown as leaving, or were missing in a later full state.
    pub departures: Vec<Departure>,
    /// Reasons of the client's own `left` messages.
    pub left_reasons: Vec<String>,
    /// Inconsistencies: a present member joins with the same data, or an absent one leaves. A
    /// version falls, or changes repeat it. Changes come without a membership, or members exceed
    /// the capacity.
    pub faults: Vec<String>,
    capacity: Option<u64>,
}

/// Seat of a client in a room, by the latest message about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeatStatus {
    /// No message came, or the client has no seat.
    #[default]
    Out,
    /// In the waiting queue: clients ahead, and all clients in it.
    Waiting {
        ahead: u64,
        queue_length: u64,
    },
    Member,
}

/// A departure of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Arrival of the message that showed it.
    pub at: Instant,
    /// The member that left.
    pub client_id: String,
    /// `left`, `expired`, or `unlisted` if the member was missing in a full state.
    pub reason: String,
}

impl Seen {
    /// Creates an empty record of the client `id`.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Returns the record of one room; an empty one if nothing arrived.
    pub fn room(&self, room: &str) -> RoomSeen {
        self.room_by_name.get(room).cloned().unwrap_or_default()
    }

    /// Returns the inconsistencies of all rooms.
    pub fn faults(&self) -> impl Iterator<Item = String> + '_ {
        let faults = self.room_by_name.iter().flat_map(|(name, room)| room.faults.iter().map(move |it| (name, it)));
        faults.map(|(room, fault)| format!("{} in {room}: {fault}", self.id))
    }

    /// Records a message that arrived at `at`.
    pub fn receive(&mut self, at: Instant, message: Value) {
        let kind = message["type"].as_str().unwrap_or_default();
        if let (Some(request), "ack" | "error") = (message["id"].as_u64(), kind) {
            self.answer_by_request.insert(request, message);
            return;
        }
        if let ("joined" | "members_changed" | "waiting" | "left", Some(name)) = (kind, message["room"].as_str()) {
            self.room_by_name.entry(name.to_owned()).or_default().receive(&self.id, at, kind, &message);
        }
        match kind {
            "joined" => self.states.push(message),
            "broadcast" => self.broadcasts.push(message),
            _ => {}
        }
    }
}

impl RoomSeen {
    fn receive(&mut self, own: &str, at: Instant, kind: &str, message: &Value) {
        match kind {
            "joined" => self.state(own, at, message),
            "members_changed" => self.changed(own, at, message),
            "waiting" => {
                let number = |field: &str| message[field].as_u64().unwrap();
                self.seat = SeatStatus::Waiting { ahead: number("ahead"), queue_length: number("queue_length") };
            }
            _ => {
                self.seat = SeatStatus::Out;
                self.members.clear();
                self.left_reasons.push(message["reason"].as_str().unwrap().to_owned());
            }
        }
    }

    fn state(&mut self, own: &str, at: Instant, message: &Value) {
        self.advance(message, "joined");
        self.capacity = message["capacity"].as_u64();
        let listed: BTreeMap<String, Value> = listed(&message["members"]).collect();
        let is_page = message["more"] == true || listed.len() as u64 != message["count"].as_u64().unwrap();
        if is_page {
            self.seat = SeatStatus::Member;
            return self.members.extend(listed);
        }
        if self.seat == SeatStatus::Member {
            let gone = self.members.keys().filter(|who| !listed.contains_key(*who));
            let gone = gone.map(|who| Departure { at, client_id: who.clone(), reason: "unlisted".to_owned() });
            self.departures.extend(gone);
        }
        self.seat = if listed.contains_key(own) { SeatStatus::Member } else { SeatStatus::Out };
        self.members = listed;
        self.check_capacity();
    }

    fn changed(&mut self, own: &str, at: Instant, message: &Value) {
        self.advance(message, "members_changed");
        if self.seat != SeatStatus::Member {
            self.faults.push(format!("receives changes outside: {message}"));
        }
        for (who, data) in listed(&message["joined"]) {
            let shown = self.members.insert(who.clone(), data.clone());
            if shown == Some(data) && who != own {
                self.faults.push(format!("{who} joins and was there"));
            }
        }
        for left in message["left"].as_array().unwrap() {
            let (who, reason) = (left["client_id"].as_str().unwrap(), left["reason"].as_str().unwrap());
            if self.members.remove(who).is_none() {
                self.faults.push(format!("{who} leaves and was not there"));
            }
            self.departures.push(Departure { at, client_id: who.to_owned(), reason: reason.to_owned() });
        }
        self.check_capacity();
    }

    fn check_capacity(&mut self) {
        let members = self.members.len() as u64;
        if let Some(capacity) = self.capacity.filter(|capacity| members > *capacity) {
            self.faults.push(format!("{members} members in version {}, and room for {capacity}", self.version));
        }
    }

    fn advance(&mut self, message: &Value, kind: &str) {
        let version = message["version"].as_u64().unwrap();
        if version < self.version || (version == self.version && kind == "members_changed") {
            self.faults.push(format!("{kind} of version {version} after {}", self.version));
        }
        self.version = self.version.max(version);
    }
}

fn listed(members: &Value) -> impl Iterator<Item = (String, Value)> + '_ {
    let members = members.as_array().unwrap().iter();
    members.map(|member| (member["client_id"].as_str().unwrap().to_owned(), member["data"].clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(id: &str) -> Value {
        json!({ "client_id": id, "data": null })
    }

    fn state(version: u64, members: &[&str]) -> Value {
        let listed: Vec<_> = members.iter().map(|id| member(id)).collect();
        let count = members.len();
        json!({ "type": "joined", "room": "r", "version": version, "count": count, "members": listed, "more": false })
    }

    fn change(version: u64, joined: &[&str], left: &[&str]) -> Value {
        let joined: Vec<_> = joined.iter().map(|id| member(id)).collect();
        let left: Vec<_> = left.iter().map(|id| json!({ "client_id": id, "reason": "left" })).collect();
        json!({ "type": "members_changed", "room": "r", "version": version, "joined": joined, "left": left })
    }

    fn record_of(messages: &[Value]) -> RoomSeen {
        let mut seen = Seen::new("me");
        messages.iter().for_each(|message| seen.receive(Instant::now(), message.clone()));
        seen.room("r")
    }

    #[test]
    fn contradicting_change_is_a_fault() {
        let faults = |changes: &[Value]| record_of(&[&[state(7, &["a", "me"])], changes].concat()).faults;

        assert_eq!(faults(&[change(8, &["a"], &[])]), ["a joins and was there"]);
        assert_eq!(faults(&[change(8, &[], &["b"])]), ["b leaves and was not there"]);
        assert_eq!(faults(&[change(7, &[], &[])]), ["members_changed of version 7 after 7"]);
        assert_eq!(faults(&[state(6, &["a", "me"])]), ["joined of version 6 after 7"]);
    }

    #[test]
    fn member_above_the_capacity_is_a_fault() {
        let mut full_state = state(7, &["a", "me"]);
        full_state["capacity"] = 2.into();
        let room = record_of(&[full_state, change(8, &["b"], &["a"]), change(9, &["a"], &[])]);

        assert_eq!(room.faults, ["3 members in version 9, and room for 2"]);
    }

    #[test]
    fn member_missing_in_a_full_state_has_departed() {
        let room = record_of(&[state(7, &["a", "me"]), state(9, &["me"])]);

        assert_eq!(room.departures[0].reason, "unlisted");
    }
}
