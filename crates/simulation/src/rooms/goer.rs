//! Clients in rooms: their requests, and checks of the answers and events that they receive.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::number;
use super::picture::Picture;
use crate::agenda::{MS, Micros, SECOND};
use crate::clients::Socket;
use crate::event::{Act, AskId, ClientIx, Event, SocketId, Wish};
use crate::world::World;

/// Kind of a room request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// With `shows`, the join carries new data; otherwise it keeps the earlier data.
    Join {
        shows: bool,
    },
    Leave,
    Members,
    Broadcast,
}

/// A client's request to a room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) at: Micros,
    pub(super) from: ClientIx,
    pub(super) room: usize,
    pub(super) what: What,
    /// Socket and time of the last send.
    pub(super) said: Option<(SocketId, Micros)>,
    pub(super) turn: u64,
    pub(super) answered: bool,
}

/// Error code of a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    StoreAway,
    NotInRoom,
}

/// A client's own view of its seat.
#[derive(Debug, Default)]
pub(super) enum Belief {
    #[default]
    Out,
    Waiting,
    In(Picture),
}

#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) belief: Belief,
    /// Socket of the latest information.
    pub(super) socket: SocketId,
    pub(super) since: Micros,
    /// Time at which the client became a member, as received on this socket.
    entered: Micros,
    /// Latest time at which the session with this seat ended.
    pub(super) ended: Option<Micros>,
    told_again: u32,
}

#[derive(Debug, Default)]
pub(super) struct RoomClient {
    pub(super) places: BTreeMap<usize, Place>,
    /// The latest answered `join` or `leave`.
    last_answered: Option<(SocketId, u64)>,
    broadcasts: BTreeSet<(SocketId, AskId)>,
}

/// Maximum number of full room states that a client may receive without need.
const OFTEN: u32 = 5;

impl Ask {
    pub(super) fn new(from: ClientIx, room: usize, what: What) -> Self {
        Self { at: 0, from, room, what, said: None, turn: 0, answered: false }
    }

    pub(super) fn to_json(self, ask: AskId, id: u64) -> String {
        let room = self.room;
        match self.what {
            What::Join { shows: true } => format!(r#"{{"type":"join","room":"r{room}","data":{ask},"id":{id}}}"#),
            What::Join { shows: false } => format!(r#"{{"type":"join","room":"r{room}","id":{id}}}"#),
            What::Leave => format!(r#"{{"type":"leave","room":"r{room}","id":{id}}}"#),
            What::Members => format!(r#"{{"type":"members","room":"r{room}"}}"#),
            What::Broadcast => format!(r#"{{"type":"broadcast","room":"r{room}","data":{ask},"id":{id}}}"#),
        }
    }

    pub(super) fn takes_id(&self) -> bool {
        self.what != What::Members
    }

    /// Returns `true` if the answer must follow the answers of all earlier requests.
    fn is_in_order(&self) -> bool {
        matches!(self.what, What::Join { .. } | What::Leave)
    }
}

impl RoomClient {
    /// Ends the session. Returns the rooms in which the client had a seat.
    fn is_out_of_all(&mut self, now: Micros) -> Vec<usize> {
        let mut left = Vec::new();
        for (room, place) in &mut self.places {
            if !matches!(place.belief, Belief::Out) {
                (place.belief, place.ended) = (Belief::Out, Some(now));
                left.push(*room);
            }
        }
        left
    }
}

impl World {
    /// Removes a client from all rooms after it left for good.
    pub(crate) fn goer_leaves(&mut self, index: ClientIx) {
        let now = self.agenda.now();
        if let Some(goer) = self.rooms.goers.get_mut(index) {
            goer.is_out_of_all(now);
        }
    }

    /// Handles a new socket. After a new session the client usually joins its former rooms again.
    pub(crate) fn goer_is_welcomed(&mut self, index: ClientIx, resumed: bool) {
        let now = self.agenda.now();
        let Some(goer) = self.rooms.goers.get_mut(index).filter(|_| !resumed) else { return };
        for room in goer.is_out_of_all(now) {
            if self.rooms.rng.percent(70) {
                let after = self.rooms.rng.within(0, SECOND);
                self.rooms.asks.push(Ask::new(index, room, What::Join { shows: true }));
                let wish = Wish::Ask(self.rooms.asks.len() - 1);
                self.agenda.after(after, Event::Act(Act::Wish(index, wish)));
                self.counters.add("rooms: joins anew in another session", 1);
            }
        }
    }

    pub(crate) fn goer_gets(&mut self, socket: SocketId, kind: &str, message: &Value) {
        let now = self.agenda.now();
        let Some(index) = self.sockets.get(socket).map(|socket| socket.client) else { return };
        let name = message.get("room").and_then(Value::as_str).unwrap_or_default();
        let Some(room) = number(name) else {
            return self.ledger.broken(now, "damaged", format!("c{index} got {kind} of no room"));
        };
        let expired = message.get("reason").and_then(Value::as_str) == Some("expired");
        if kind == "left" && expired {
            self.check_expired(index, room);
        }
        let Some(goer) = self.rooms.goers.get_mut(index) else { return };
        let lately = |ask: &Ask| !ask.answered || ask.said.is_some_and(|(_, said)| now - said < 5 * SECOND);
        let asks = self.rooms.asks.iter().any(|ask| ask.from == index && ask.room == room && lately(ask));
        let place = goer.places.entry(room).or_default();
        if socket < place.socket {
            // The client has moved to another socket.
            return;
        }
        let same_socket = std::mem::replace(&mut place.socket, socket) == socket;
        place.since = now;
        if !same_socket || !matches!(place.belief, Belief::In(_)) {
            place.entered = now;
        }
        let mut wrong = None;
        match kind {
            "joined" => {
                let Some(picture) = Picture::read(message) else {
                    return self.ledger.broken(now, "damaged", format!("c{index} got {message}"));
                };
                self.counters.add("rooms: told the whole state", 1);
                let known = matches!(&place.belief, Belief::In(known) if *known == picture);
                // After a store outage every client may have missed changes.
                let is_needed = !self.rooms.unavailable.covers_nothing(now.saturating_sub(10 * SECOND), now);
                place.told_again = match known && same_socket && !asks {
                    true => place.told_again + u32::from(!is_needed),
                    false => 0,
                };
                if place.told_again >= OFTEN {
                    wrong = Some(("room told again", format!("{OFTEN} times without need")));
                }
                (place.belief, place.ended) = (Belief::In(picture), None);
            }
            "waiting" => {
                self.counters.add("rooms: told to wait", 1);
                (place.belief, place.ended) = (Belief::Waiting, None);
            }
            "left" => (place.belief, place.ended) = (Belief::Out, None),
            _ => {
                self.counters.add("rooms: told of changes", 1);
                wrong = match (&mut place.belief, self.rooms.watch.room(name)) {
                    (Belief::In(picture), Some(seen)) if same_socket => {
                        picture.change(message, seen).err().map(|what| ("room changes", what))
                    }
                    _ => Some(("room changes", "of a room that it is not in".to_owned())),
                };
            }
        }
        if let Some((rule, what)) = wrong {
            self.ledger.broken(now, rule, format!("c{index} on socket {socket}, {name}: {what}"));
        }
    }

    /// Handles the answer to a request: success, or the reason of a refusal.
    pub(crate) fn ask_is_answered(&mut self, ask: AskId, socket: SocketId, refused: Option<Refused>) {
        let now = self.agenda.now();
        let here = self.sockets.get(socket).is_some_and(Socket::can_be_told);
        let Some(asked) = self.rooms.asks.get_mut(ask) else {
            return self.ledger.broken(now, "invented", format!("an answer on socket {socket} to what nobody asked"));
        };
        let Ask { from, room, what, turn, said, .. } = *asked;
        let name = format!("c{from} on socket {socket}, {what:?} of r{room}");
        if std::mem::replace(&mut asked.answered, true) {
            return self.ledger.broken(now, "two fates", name);
        }
        let in_order = asked.is_in_order();
        let lost = said.is_some_and(|(_, said)| self.rooms.has_lost(said.saturating_sub(5 * SECOND), now));
        let may_fill = said.is_some_and(|(_, said)| self.rooms.may_fill(said, now));
        // A command whose answer was lost is answered again with the present state.
        let left_since = said.is_some_and(|(on, said)| {
            let leaves = |other: &Ask| {
                (other.from, other.room, other.what) == (from, room, What::Leave)
                    && other.said.is_some_and(|(other_on, at)| other_on == on && at >= said)
            };
            !self.trouble.any.covers_nothing(said, now) && self.rooms.asks.iter().any(leaves)
        });
        let Some((_, said)) = said.filter(|(on, _)| *on == socket) else {
            return self.ledger.broken(now, "wrong sender", name);
        };
        let Some(goer) = self.rooms.goers.get_mut(from) else { return };
        if !here {
            // After a leave, other requests for the room get no answer.
            if what == What::Leave
                && refused.is_none()
                && let Some(place) = goer.places.get_mut(&room).filter(|place| place.socket <= socket)
            {
                (place.belief, place.ended) = (Belief::Out, Some(now));
            }
            return;
        }
        if in_order {
            let before = goer.last_answered.replace((socket, turn));
            if before.is_some_and(|(on, before)| on == socket && before > turn) {
                return self.ledger.broken(now, "room answers", format!("{name}: {turn} behind {before:?}"));
            }
        }
        if what == What::Broadcast && lost {
            self.counters.add("rooms: broadcasts answered behind a loss of the store", 1);
            let is_refused = refused == Some(Refused::StoreAway);
            self.counters.add("rooms: broadcasts refused behind a loss of the store", u64::from(is_refused));
        }
        let place = goer.places.get(&room);
        let told_here = place.filter(|place| place.socket == socket);
        let wrong = match (what, refused) {
            (_, Some(Refused::StoreAway)) => {
                let since = said.saturating_sub(3 * SECOND);
                let fills = what == What::Broadcast && may_fill;
                (!fills && self.rooms.unavailable.covers_nothing(since, now))
                    .then_some("refused, though the store is there")
            }
            (What::Broadcast | What::Members, Some(Refused::NotInRoom)) => {
                let is_in = told_here.is_some_and(|place| matches!(place.belief, Belief::In(_)) && place.since <= said);
                (is_in && !left_since).then_some("refused, though it is in the room")
            }
            (_, Some(Refused::NotInRoom)) => Some("refused"),
            (What::Join { .. }, None) => {
                self.counters.add("rooms: joins", 1);
                told_here.is_none().then_some("done, and it was not told where it stands")
            }
            (What::Leave, None) => {
                let is_out = place.is_none_or(|place| matches!(place.belief, Belief::Out));
                (!is_out).then_some("done, and it was not told that it is out")
            }
            (What::Broadcast | What::Members, None) => None,
        };
        if let Some(wrong) = wrong {
            self.ledger.broken(now, "room answers", format!("{name}: {wrong}, {} ms after", (now - said) / MS));
        }
        if (what, refused) == (What::Broadcast, None)
            && let Some(missed) = self.missed_by(ask, said)
        {
            let what = format!("{name}: done, and c{missed} did not get it, {} ms after", (now - said) / MS);
            self.ledger.broken(now, "broadcast missed", what);
        }
    }

    /// Returns a member that missed a broadcast although only the store was at fault and its edge
    /// had buffer space.
    fn missed_by(&self, ask: AskId, said: Micros) -> Option<ClientIx> {
        let now = self.agenda.now();
        let Ask { at, from, room, .. } = *self.rooms.asks.get(ask)?;
        let since = said.saturating_sub(10 * SECOND);
        if !self.trouble.any.covers_nothing(since, now) {
            return None;
        }
        let missed = |&member: &ClientIx| {
            let Some(goer) = self.rooms.goers.get(member).filter(|_| member != from) else { return false };
            let Some(place) = goer.places.get(&room) else { return false };
            let is_in = matches!(place.belief, Belief::In(_)) && place.entered + SECOND < said;
            let asks = |other: &Ask| {
                (other.from, other.room) == (member, room)
                    && other.said.is_some_and(|(_, at)| at + SECOND > place.entered)
            };
            let stays = !self.rooms.asks.iter().any(|other| other.what == What::Leave && asks(other));
            let is_there = self.attentive_socket(member) == Some(place.socket)
                && self
                    .clients
                    .get(member)
                    .is_some_and(|client| client.away.with(&client.full).covers_nothing(since, now));
            let got = goer.broadcasts.iter().any(|(_, got)| *got == ask);
            // A message that overtakes a broadcast during a store call makes the broadcast late.
            is_in && stays && is_there && !got && !self.ledger.has_said(from, member, said.min(at))
        };
        (0..self.rooms.goers.len()).find(missed)
    }

    /// Handles the refusal of a `members` request.
    pub(crate) fn refused_by_rooms(&mut self, index: ClientIx, refused: Refused) {
        let now = self.agenda.now();
        let since = now.saturating_sub(40 * SECOND);
        let calm = self.rooms.unavailable.covers_nothing(since, now) && !self.rooms.may_fill(since, now);
        if refused == Refused::StoreAway && calm {
            self.ledger.broken(now, "room answers", format!("c{index}: refused, though the store is there"));
        }
    }

    /// Records a broadcast that a recipient's socket received.
    pub(crate) fn broadcast_is_written(&mut self, ask: AskId, to: ClientIx, socket: SocketId) {
        let now = self.agenda.now();
        let from = self.rooms.asks.get(ask).filter(|ask| ask.said.is_some()).map(|ask| ask.from);
        if from.is_none_or(|from| from == to) {
            return self.ledger.broken(now, "invented", format!("c{to} got broadcast {ask} from {from:?}"));
        }
        let Some(goer) = self.rooms.goers.get_mut(to) else { return };
        if !goer.broadcasts.insert((socket, ask)) {
            self.ledger.broken(now, "doubled", format!("broadcast {ask} was written twice to socket {socket}"));
        }
    }
}
