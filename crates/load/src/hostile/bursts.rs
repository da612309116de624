//! Requests that a room maker sends on one connection, for `makers`. Pure.

use crate::message::Wire;

/// New rooms of a connection: with the large room as many as one client may have.
const ROOMS: u64 = 255;
/// New rooms with data: with the large room as much as one client may have.
const ROOMS_WITH_DATA: u64 = 15;
const DATA_BYTES: usize = 4_000;
const LEFT_DATA_BYTES: usize = 2_000;
/// Far above the limit of a room's data, and below that of a message.
const OVERSIZED_BYTES: usize = 60_000;
const OVERSIZED_REQUESTS: u64 = 15;
const LISTS: u64 = 500;
/// Length to which the prefix of a room's name is padded, so that names are long.
const NAME_PREFIX_CHARACTERS: usize = 100;

/// Attack of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    /// New rooms, which end with the session.
    Rooms,
    /// New rooms that are left at once.
    EmptyRooms,
    /// A full room, whose waiting queue is entered and left.
    Queue,
    /// Lists of the members of a large room.
    Lists,
    /// New rooms with too much data, or large publications.
    Oversized,
}

impl Attack {
    const ALL: [Self; 5] = [Self::Rooms, Self::EmptyRooms, Self::Queue, Self::Lists, Self::Oversized];

    /// Returns the attack of this turn: one after the other.
    pub(super) fn of_turn(turn: u64) -> Self {
        Self::ALL[(turn % Self::ALL.len() as u64) as usize]
    }

    /// Returns the number of new names that a burst uses.
    pub(super) fn names(self) -> u64 {
        match self {
            Self::Rooms | Self::EmptyRooms => ROOMS,
            Self::Queue | Self::Lists => 0,
            Self::Oversized => OVERSIZED_REQUESTS,
        }
    }

    /// Returns the requests of a connection, whose new names begin with number `first`. A native
    /// client's have ids from 1 on, and the last one gets an answer after all others.
    pub(super) fn burst(self, wire: Wire, prefix: &str, first: u64) -> Vec<String> {
        let names = (first..first + self.names()).map(|number| format!("{prefix:r<NAME_PREFIX_CHARACTERS$}-{number}"));
        if wire == Wire::YWebrtc {
            self.publications(prefix, &names.collect::<Vec<_>>())
        } else {
            self.native(prefix, names)
        }
    }

    fn native(self, prefix: &str, names: impl Iterator<Item = String>) -> Vec<String> {
        let (large, queue) = (large_room(prefix), queue_room(prefix));
        let mut requests = vec![join(&large, DATA_BYTES)];
        match self {
            Self::Rooms => {
                let bytes = |number| if (number as u64) < ROOMS_WITH_DATA { DATA_BYTES } else { 0 };
                requests.extend(names.enumerate().map(|(number, name)| join(&name, bytes(number))));
            }
            Self::EmptyRooms => requests.extend(names.flat_map(|name| [join(&name, LEFT_DATA_BYTES), leave(&name)])),
            Self::Queue => requests.extend((0..ROOMS).flat_map(|_| [join(&queue, LEFT_DATA_BYTES), leave(&queue)])),
            Self::Lists => requests.extend((0..LISTS).map(|_| format!(r#""members","room":"{large}""#))),
            Self::Oversized => requests.extend(names.map(|name| join(&name, OVERSIZED_BYTES))),
        }
        requests.push(leave(&large));
        requests.iter().zip(1..).map(|(request, id)| format!(r#"{{"type":{request},"id":{id}}}"#)).collect()
    }

    fn publications(self, prefix: &str, names: &[String]) -> Vec<String> {
        let topics = |kind: &str| format!(r#"{{"type":"{kind}","topics":["{}"]}}"#, names.join(r#"",""#));
        let large = large_room(prefix);
        let mut texts = match self {
            Self::Rooms => vec![topics("subscribe")],
            Self::EmptyRooms => vec![topics("subscribe"), topics("unsubscribe")],
            Self::Queue | Self::Lists | Self::Oversized => {
                let data = "x".repeat(OVERSIZED_BYTES);
                let publication = format!(r#"{{"type":"publish","topic":"{large}","data":"{data}"}}"#);
                let publications = (0..OVERSIZED_REQUESTS).map(|_| publication.clone());
                let subscription = format!(r#"{{"type":"subscribe","topics":["{large}"]}}"#);
                [subscription].into_iter().chain(publications).collect()
            }
        };
        texts.push(r#"{"type":"ping"}"#.to_owned());
        texts
    }
}

fn large_room(prefix: &str) -> String {
    format!("{prefix}-large")
}

/// Returns the name of the room with one seat.
pub(super) fn queue_room(prefix: &str) -> String {
    format!("{prefix}-full")
}

fn join(room: &str, data_bytes: usize) -> String {
    format!(r#""join","room":"{room}","data":"{}""#, "x".repeat(data_bytes))
}

fn leave(room: &str) -> String {
    format!(r#""leave","room":"{room}""#)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn bursts_are_json_within_limits_and_names_never_repeat() {
        let shared = [large_room("load"), queue_room("load")];
        let (mut names, mut first) = (BTreeSet::new(), 0);
        for turn in 0..10 {
            let attack = Attack::of_turn(turn);
            for wire in [Wire::Native, Wire::YWebrtc] {
                let burst = attack.burst(wire, "load", first);
                first += attack.names();
                assert!(burst.len() < 1_000, "a client's burst of messages");
                assert!(burst.iter().map(String::len).sum::<usize>() < 1_000_000, "{attack:?}: the buffer of a client");
                for (text, id) in burst.iter().zip(1_u64..) {
                    let request: Value = serde_json::from_str(text).unwrap();
                    assert!(text.len() < 64_512, "{attack:?}: {}", text.len());
                    assert!(wire == Wire::YWebrtc || request["id"] == id, "{text}");
                    let is_new = |name: &str| names.insert(name.to_owned()) || shared.contains(&name.to_owned());
                    let topics = request["topics"].as_array().into_iter().flatten();
                    let topics = topics.filter(|_| request["type"] == "subscribe");
                    let room = Some(&request["room"]).filter(|_| request["type"] == "join");
                    assert!(topics.chain(room).filter_map(Value::as_str).all(is_new), "{text}");
                }
            }
        }

        assert!(names.iter().all(|name| name.len() <= 124), "a dialect puts 4 characters before a name");
        assert!(names.len() > 2_000, "{}", names.len());
        assert_eq!(Attack::of_turn(u64::MAX), Attack::Rooms);
    }

    #[test]
    fn attacks_keep_the_limits_of_a_client_they_do_not_test() {
        let rooms = Attack::Rooms.burst(Wire::Native, "load", 7);
        let data = |text: &String| serde_json::from_str::<Value>(text).unwrap()["data"].to_string().len();
        let joins: Vec<_> = rooms.iter().filter(|text| text.contains("\"join\"")).collect();

        assert_eq!(joins.len(), 256, "the rooms of a client");
        assert!(joins.iter().map(|text| data(text)).sum::<usize>() <= 65_536, "the data of a client");
    }
}
