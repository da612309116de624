//! Sessions with seats that move between nodes, lose their sockets and resume.

use std::collections::BTreeMap;
use std::time::Instant;

use signaling_protocol::{ClientId, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_rooms::{SeatStatus, Stamp};
use signaling_wire::SessionId;
use signaling_wire::forward::Item;
use signaling_wire::seats::{Seat, SessionState};

use super::super::session::AttachInfo;
use super::super::{NodeCore, PeerKey, SessionKey};
use super::room_session::{Ask, Command, LocalSeat, RoomSession, UNTOLD, is_behind};

/// Reads a seat from another node, which the store may not have confirmed.
fn place(now: Instant, seat: &Seat<'_>) -> Option<(RoomName, LocalSeat)> {
    let Seat { room, member, place, number, incarnation, version, ahead, data } = *seat;
    let standing = if member { SeatStatus::Member { place } } else { SeatStatus::Waiting { place, ahead: 0 } };
    let place = LocalSeat {
        standing,
        data: data.map(Box::from),
        number,
        told: Stamp { incarnation, version },
        told_line: ahead.map(|ahead| (ahead, now)),
    };
    Some((RoomName::new(room).ok()?, place))
}

impl NodeCore {
    /// Returns the state of a session for its next node. Without `as_it_stands` the next node may
    /// receive it after a loss of this node. The client may have missed later messages then, so the
    /// room versions are left out.
    pub(in crate::node) fn state_of(&self, key: SessionKey, as_it_stands: bool) -> Vec<u8> {
        let Some(session) = self.directory.get(key) else { return Vec::new() };
        let guest = self.rooms.guests.get(&session.id);
        let mut seats = guest.map(RoomSession::seat_states).unwrap_or_default();
        if !as_it_stands {
            seats.iter_mut().for_each(|seat| (seat.incarnation, seat.version) = (0, 0));
        }
        SessionState { resumed: session.resumed, seats }.to_bytes()
    }

    /// Takes in the seats of a session that attaches. The edge's state is newer than this node's
    /// memory. A resumed session receives the whole state of its rooms.
    pub(in crate::node) fn guest_arrives(&mut self, now: Instant, arrival: &AttachInfo) {
        let session = arrival.session;
        if self.rooms.guests.get(&session).is_some_and(|guest| guest.accepted_at_us > arrival.accepted_at_us) {
            // The edge attaches a closed socket for its last frames, with outdated state.
            return;
        }
        if !arrival.newcomer {
            let state = SessionState::read(&arrival.state).unwrap_or_default();
            self.guest_comes(now, &arrival.client_id, session, arrival.accepted_at_us, &state.seats);
        }
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        (guest.accepted_at_us, guest.lost) = (arrival.accepted_at_us, None);
        let mut missed = Vec::new();
        for (room, place) in &mut guest.places {
            if arrival.newcomer {
                place.told_line = None;
            }
            let known = self.rooms.here.get(room).map_or(UNTOLD, |here| here.follower.at());
            let missed_some = arrival.newcomer || place.told == UNTOLD || is_behind(place.told, known);
            missed.push((room.clone(), place.is_member() && missed_some));
        }
        for (room, missed) in missed {
            self.rooms.is_unconfirmed(&room, session);
            if missed {
                self.rooms.is_uninformed(&room, session);
            }
        }
    }

    /// Replaces the seats of a session by the seats from its former node.
    fn guest_comes(
        &mut self,
        now: Instant,
        client: &ClientId,
        session: SessionId,
        accepted_at_us: u64,
        seats: &[Seat<'_>],
    ) {
        let places: BTreeMap<_, _> = seats.iter().filter_map(|seat| place(now, seat)).collect();
        if places.is_empty() && !self.rooms.guests.contains_key(&session) {
            return;
        }
        let guest = self
            .rooms
            .guests
            .entry(session)
            .or_insert_with(|| RoomSession::from_elsewhere(client.clone(), accepted_at_us));
        for room in std::mem::replace(&mut guest.places, places.clone()).into_keys() {
            self.rooms.remove_seat(&room, session);
        }
        for (room, place) in places {
            self.rooms.add_seat(&room, session, place.standing, place.told);
        }
        self.forget_idle_guest(session);
    }

    /// Removes a session's seats and its socket's commands, since another node has the session now.
    /// Commands of earlier sockets are still answered here.
    pub(in crate::node) fn guest_goes(&mut self, (session, at): (SessionId, SessionKey)) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let first = |guest: &RoomSession| guest.commands.front().map(|command| (command.at, command.seq));
        let under_way = first(guest);
        guest.commands.retain(|command| command.at != at);
        let goes_on = first(guest) != under_way;
        for room in std::mem::take(&mut guest.places).into_keys() {
            self.rooms.remove_seat(&room, session);
        }
        if goes_on {
            self.next_command(session);
        }
        self.forget_idle_guest(session);
    }

    /// Queues the goodbye of a client, which gives up all its seats.
    pub(in crate::node) fn guest_leaves(&mut self, key: SessionKey) {
        let Some(session) = self.directory.get(key) else { return };
        // A newer socket may have resumed the session.
        let Some(guest) =
            self.rooms.guests.get(&session.id).filter(|guest| guest.accepted_at_us <= session.accepted_at_us)
        else {
            return;
        };
        if guest.places.is_empty() && guest.commands.is_empty() {
            return;
        }
        let farewell = Command { at: key, seq: 0, number: 0, id: None, room: None, ask: Ask::Farewell };
        self.command(key, farewell);
    }

    /// Returns the seats of a lingering session, for the owner of its client.
    pub(in crate::node) fn lingering_seats<'a>(
        &'a self,
        client: &'a ClientId,
        session: SessionId,
        accepted_at_us: u64,
    ) -> Option<Item<'a>> {
        let guest = self.rooms.guests.get(&session).filter(|guest| !guest.places.is_empty())?;
        Some(Item::Seats { client_id: client.as_str(), session, accepted_at_us, seats: guest.seat_states() })
    }

    /// Sends a former session's seats to the peer node that serves it now. The session may have
    /// resumed there from an older state with fewer seats.
    pub(in crate::node) fn send_seats_along(
        &mut self,
        peer: PeerKey,
        client: &ClientId,
        (session, accepted_at_us): (SessionId, u64),
    ) {
        let is_older = |guest: &&RoomSession| guest.accepted_at_us < accepted_at_us && !guest.places.is_empty();
        let Some(guest) = self.rooms.guests.get(&session).filter(is_older) else { return };
        let item = Item::Seats {
            client_id: client.as_str(),
            session,
            accepted_at_us: guest.accepted_at_us,
            seats: guest.seat_states(),
        };
        self.peers.note(Some(peer), KeyHash::of(client.as_str()).get(), &item);
    }

    /// Takes in seats that arrive after their lingering session. It may have been resumed
    /// meanwhile, and this node may have an older state. The later command decides each seat, and
    /// the store reports which seats are over.
    pub(in crate::node) fn lingering_seats_come(
        &mut self,
        now: Instant,
        client: &ClientId,
        (session, accepted_at_us): (SessionId, u64),
        seats: &[Seat<'_>],
    ) {
        let resumed = self
            .directory
            .holder(client.as_str())
            .filter(|(_, holder)| holder.id == session)
            .map(|(_, holder)| holder.accepted_at_us);
        let lingers = self.directory.lingering(client).is_some_and(|lingering| lingering.session == session);
        if resumed.is_none() && !lingers {
            return;
        }
        let accepted_at_us = resumed.unwrap_or(accepted_at_us);
        let guest = self
            .rooms
            .guests
            .entry(session)
            .or_insert_with(|| RoomSession::from_elsewhere(client.clone(), accepted_at_us));
        let mut news = Vec::new();
        for (room, mut place) in seats.iter().filter_map(|seat| place(now, seat)) {
            if guest.places.get(&room).is_some_and(|known| known.number >= place.number) {
                continue;
            }
            if resumed.is_some() {
                // The new socket has not received a position.
                place.told_line = None;
            }
            news.push((room.clone(), place.clone()));
            guest.places.insert(room, place);
        }
        for (room, place) in &news {
            self.rooms.add_seat(room, session, place.standing, place.told);
            self.rooms.is_unconfirmed(room, session);
            if resumed.is_some() && place.is_member() {
                self.rooms.is_uninformed(room, session);
            }
        }
        self.forget_idle_guest(session);
        if resumed.is_some() && !news.is_empty() {
            self.say_state(session);
        }
    }
}
