//! A seat as JSON, in the hashes `participants` and `waiters`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Requester, Seat, SeatStatus};
use signaling_wire::{Rank, SessionId, SocketId};

/// Numbers of a journal from here on are damaged.
const MAX_PLACE: u64 = 1 << 53;

#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    node: &'a str,
    session: String,
    rank: u64,
    attachment: u64,
    number: u64,
    place: u64,
}

/// Returns the JSON of a present seat.
pub(crate) fn of_seat(seat: &Seat) -> String {
    let Seat { requester, status, data } = seat;
    let (SeatStatus::Member { place } | SeatStatus::Waiting { place, .. }) = *status else { return String::new() };
    let entry = Entry {
        data: data.as_deref().and_then(|data| serde_json::from_str(data).ok()),
        node: requester.node.as_str(),
        session: requester.session.to_string(),
        rank: requester.rank.0,
        attachment: requester.attachment,
        number: requester.number,
        place,
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

/// Parses the seat of a client. `None`: it is damaged.
pub(crate) fn to_seat(client: &str, json: &str, is_member: bool) -> Option<Seat> {
    let Entry { data, node, session, rank, attachment, number, place } = serde_json::from_str(json).ok()?;
    let session = (session.len() == 32).then(|| u128::from_str_radix(&session, 16).ok()).flatten()?;
    if place >= MAX_PLACE || number >= MAX_PLACE {
        return None;
    }
    let requester = Requester {
        client: ClientId::new(client).ok()?,
        session: SessionId(session.to_be_bytes()),
        socket: SocketId::default(),
        rank: Rank(rank),
        attachment,
        number,
        node: NodeId::new(node).ok()?,
    };
    let status = if is_member { SeatStatus::Member { place } } else { SeatStatus::Waiting { place, ahead: 0 } };
    Some(Seat { requester, status, data: data.map(|data| data.get().into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seat_is_equal_after_its_json() {
        let requester = Requester {
            client: ClientId::new("alice").unwrap(),
            session: SessionId([0xfe; 16]),
            socket: SocketId::default(),
            rank: Rank(1_700_000_000_000_000),
            attachment: u64::from(u32::MAX) << 32,
            number: 7,
            node: NodeId::new("node-0").unwrap(),
        };
        for data in [None, Some(r#"{"name":"Alice \"A\""}"#.into())] {
            for status in [SeatStatus::Member { place: 5 }, SeatStatus::Waiting { place: 6, ahead: 0 }] {
                let seat = Seat { requester: requester.clone(), status, data: data.clone() };
                assert_eq!(to_seat("alice", &of_seat(&seat), status.is_member()), Some(seat));
            }
        }
        for damaged in
            ["", "{}", r#"{"data":null,"node":"n","session":"","rank":1,"attachment":1,"number":1,"place":1}"#]
        {
            assert_eq!(to_seat("alice", damaged, true), None);
        }
    }
}
